"""The reference engine: what each step, window and aggregate means, computed from the facts.

`evaluator` answers questions; the other modules each define one kind of step. A window's result
is computed in `windows`, `grouped_rows`, `folds` and `aggregates`, in this order.
"""

"""The reference engine: the meaning of each step, window and aggregate, computed from facts.

`evaluator` answers lookups; the other modules each define one kind of step. A window's result
is computed in `windows`, `grouped_rows`, `folds` and `aggregates`, in this order.
"""

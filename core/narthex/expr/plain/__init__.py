"""The reference evaluator of expressions: plain Python, one row at a time, slow and obvious.

What it gives is what every other evaluator must give.
"""

from narthex.expr.plain.evaluation import (
    NoPresentError,
    Prepared,
    apply,
    evaluate,
    literal_cell,
    prepare,
)

__all__ = ["NoPresentError", "Prepared", "apply", "evaluate", "literal_cell", "prepare"]

"""The reference evaluator of expressions: plain Python, one row at a time, slow and simple.

Every other evaluator must return the same values.
"""

from narthex._expr.python.evaluation import (
    NoPresentError,
    Prepared,
    apply,
    evaluate,
    literal_cell,
    prepare,
)
from narthex._expr.python.signature import BROUGHT_TOGETHER

__all__ = [
    "BROUGHT_TOGETHER",
    "NoPresentError",
    "Prepared",
    "apply",
    "evaluate",
    "literal_cell",
    "prepare",
]

"""Expressions: what authors write with `col`, `lit` and `when`."""

from narthex._sdk.expressions.authoring import (
    Expr,
    InvalidExprException,
    TimeUnit,
    TypedExpr,
    col,
    datetime,
    from_epoch,
    lit,
    make_struct,
    now,
    repeat,
    var,
    when,
)
from narthex._sdk.expressions.frames import EvalContext

__all__ = [
    "EvalContext",
    "Expr",
    "InvalidExprException",
    "TimeUnit",
    "TypedExpr",
    "col",
    "datetime",
    "from_epoch",
    "lit",
    "make_struct",
    "now",
    "repeat",
    "var",
    "when",
]

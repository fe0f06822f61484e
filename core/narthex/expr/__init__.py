"""Expressions: what authors write with `col`, `lit` and `when`."""

from narthex.expr.authoring import (
    Expr,
    InvalidExprException,
    TypedExpr,
    col,
    datetime,
    from_epoch,
    lit,
    now,
    when,
)

__all__ = [
    "Expr",
    "InvalidExprException",
    "TypedExpr",
    "col",
    "datetime",
    "from_epoch",
    "lit",
    "now",
    "when",
]

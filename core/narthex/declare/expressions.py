"""Expressions as authors pass them, and the values that they mean."""

from narthex.expr import Expr, TypedExpr
from narthex.expr.nodes import Node
from narthex.types import DataType


def node_of(expression: object) -> Node | None:
    """Give the value of an expression; None if it is none."""
    return expression.node if isinstance(expression, Expr | TypedExpr) else None


def type_of(expression: object) -> DataType | None:
    """Give the type that `.astype(…)` said; None if it said none.

    Raises:
        TypeNotSupported: It said one that no column can have.
    """
    return expression.dtype if isinstance(expression, TypedExpr) else None

"""Expressions as authors pass them, and the values that they mean."""

from narthex._ir.expression_nodes import Node
from narthex._ir.types import DataType
from narthex._sdk.expressions.authoring import Expr, TypedExpr


def node_of(expression: object) -> Node | None:
    """Return the value of an expression; None if it is none."""
    return expression.node if isinstance(expression, Expr | TypedExpr) else None


def type_of(expression: object) -> DataType | None:
    """Return the type that `.astype(…)` said; None if it said none.

    Raises:
        TypeNotSupported: It said one that no column can have.
    """
    return expression.dtype if isinstance(expression, TypedExpr) else None

"""Read expressions that authors pass."""

from narthex._ir.expression_nodes import Node
from narthex._ir.types import DataType
from narthex._sdk.expressions.authoring import Expr, TypedExpr


def node_of(expression: object) -> Node | None:
    """Return the node of an expression; None if the value is not an expression."""
    return expression.node if isinstance(expression, Expr | TypedExpr) else None


def type_of(expression: object) -> DataType | None:
    """Return the type of an `.astype(…)` expression; None without `.astype`.

    Raises:
        TypeNotSupported: No column can have that type.
    """
    return expression.dtype if isinstance(expression, TypedExpr) else None

"""The type of an expression in its place, and whether it fits the wanted type."""

from collections.abc import Mapping

from narthex._expr.type_lattice import promotable
from narthex._expr.typing import ExpressionTypeError, infer
from narthex._ir.aggregate_types import Misfit
from narthex._ir.expression_nodes import Node
from narthex._ir.type_names import type_name
from narthex._ir.types import DataType


def expression_type(expression: Node, columns: Mapping[str, DataType]) -> DataType | Misfit:
    """Return the type of an expression over columns, or the reason why it has none."""
    try:
        return infer(expression, columns)
    except ExpressionTypeError as error:
        return Misfit("; ".join(str(problem) for problem in error.problems))


def misfit(expression: Node, columns: Mapping[str, DataType], wanted: DataType) -> str | None:
    """Return the reason why an expression does not have the wanted type; None if it does."""
    found = expression_type(expression, columns)
    if isinstance(found, Misfit):
        return found.message
    if promotable(found, wanted):
        return None
    return f"it is of type `{type_name(found)}`, not `{type_name(wanted)}`"

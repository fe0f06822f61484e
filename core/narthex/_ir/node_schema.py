"""The schema of a pipeline's step, with the errors found so far."""

from collections.abc import Collection
from difflib import get_close_matches

import attrs

from narthex._base.origin import Origin
from narthex._ir.aggregate_specs import TypedAggregate
from narthex._ir.schema import Column, Schema
from narthex._ir.types import DataType, Datetime
from narthex.errors import ColumnNotFound, DefinitionError


@attrs.frozen(kw_only=True)
class DatasetSchemaInfo:
    """The properties of a dataset that a pipeline that reads it needs.

    Attributes:
        terminal: Whether the dataset ends in an aggregate over continuous windows, which no
            pipeline can read.
        correctable: Whether a row of the dataset may arrive again, changed.
    """

    name: str
    schema: Schema
    terminal: bool = False
    correctable: bool = False


@attrs.frozen(kw_only=True)
class NodeSchema:
    """The result of a step.

    Attributes:
        keys: Key columns, in order; empty for keyless rows.
        values: Value columns, in order.
        timestamp: The name of the event-time column.
        correctable: Whether a row may arrive again with a higher version: downstream of a keyed
            dataset or a join.
        aggregates: The aggregates of the last step, with types; empty for any other step.
        errors: All errors up to this step, in the order of the steps.
    """

    keys: tuple[Column, ...]
    values: tuple[Column, ...]
    timestamp: str
    correctable: bool = False
    aggregates: tuple[TypedAggregate, ...] = ()
    errors: tuple[DefinitionError, ...] = ()

    @property
    def columns(self) -> dict[str, DataType]:
        """All columns with their types: keys, values, event time."""
        named = {column.name: column.type for column in (*self.keys, *self.values)}
        return {**named, self.timestamp: Datetime()}

    def with_errors(self, *errors: DefinitionError) -> "NodeSchema":
        """Return the same schema with more errors."""
        return attrs.evolve(self, errors=(*self.errors, *errors))


def of_dataset(info: DatasetSchemaInfo) -> NodeSchema:
    """Return the schema of a dataset's rows."""
    schema = info.schema
    return NodeSchema(
        keys=schema.keys,
        values=schema.values,
        timestamp=schema.timestamp,
        correctable=info.correctable or bool(schema.keys),
    )


def column_missing(
    name: str, known: Collection[str], *, where: str, origin: Origin
) -> ColumnNotFound:
    """Report a missing column with the available ones and the most likely intended one."""
    return ColumnNotFound(
        f"column `{name}` is not in {where}; it has {listed(known)}",
        origin=origin,
        hint=did_you_mean(name, known),
    )


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Suggest the known name that is most similar to the given one; empty if there is none."""
    close = get_close_matches(name, known, n=1)
    return f"did you mean `{close[0]}`?" if close else ""


def listed(names: Collection[str]) -> str:
    """Render names for a message."""
    return ", ".join(f"`{name}`" for name in names) or "none"

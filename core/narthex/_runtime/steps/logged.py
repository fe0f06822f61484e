"""Contributions in a log: the inputs that a final aggregate folds."""

from narthex._ir.assets import LogSpec, PipelineInput
from narthex._ir.facts import Cell, Fact
from narthex._ir.node_schema import NodeSchema
from narthex._ir.operators import Aggregate
from narthex._ir.schema import Column
from narthex._runtime.steps.apply import rows_of_dataset
from narthex._runtime.steps.plain_groups import PlainGroups
from narthex._runtime.steps.rows import RowBatch, ValidityInterval


class NoAggregateError(ValueError):
    """The log of a pipeline's input contains rows, which need no folding."""


def validity_of(fact: Fact) -> ValidityInterval:
    """Return the validity interval of a contribution."""
    since, until = fact.values[-2:]
    return (
        since if isinstance(since, int) else fact.event_time,
        until if isinstance(until, int) else None,
    )


def decayed(log: LogSpec, values: tuple[Cell, ...], since: int, as_of: int) -> tuple[Cell, ...]:
    """Return the values of a keyed row at an instant; some decay from its event time on.

    Args:
        log: The row's log.
        values: The row's values.
        since: The row's event time.
        as_of: The instant of the lookup, not before the event time.
    """
    if not log.decays:
        return values
    decayed_by = {one.column: 2 ** ((since - as_of) / one.half_life_us) for one in log.decays}
    return tuple(
        [
            cell * decayed_by.get(column.name, 1.0) if isinstance(cell, float) else cell
            for column, cell in zip(log.values, values, strict=True)
        ]
    )


def versions_of(given: PipelineInput, contributions: RowBatch) -> RowBatch:
    """Return the rows that an aggregate makes of all contributions of some groups.

    Raises:
        NoAggregateError: The log of the input contains rows.
    """
    step = given.aggregate
    if step is None:
        raise NoAggregateError(f"the log of `{given.dataset}` holds rows")
    versions = PlainGroups(step, contributions, _group_schema(step, given)).versions()
    return rows_of_dataset(versions, given.schema)


def _group_schema(step: Aggregate, given: PipelineInput) -> NodeSchema:
    types = {column.name: column for column in given.log.keys}
    return NodeSchema(
        keys=tuple(types[name] for name in step.by),
        values=tuple(Column(one.spec.into, one.output) for one in given.aggregates),
        timestamp=given.schema.timestamp,
        correctable=True,
        aggregates=given.aggregates,
    )

"""Contributions on their way into a log and out of it: what a final aggregate will fold."""

from collections.abc import Iterable

import attrs

from narthex.assets import LogSpec, PipelineInput
from narthex.facts import Cell, Fact, Version
from narthex.node_schema import NodeSchema
from narthex.operators import Aggregate
from narthex.schema import Column
from narthex.steps.apply import rows_of_dataset
from narthex.steps.plain_groups import PlainGroups
from narthex.steps.rows import Life, Rows, rows_of
from narthex.steps.timelines import Timelines

_NO_VERSION = Version(b"")


class NoAggregateError(ValueError):
    """The log of a pipeline's input holds rows, which need no folding."""


def logged(rows: Rows, log: LogSpec, *, along: str | None) -> tuple[Fact, ...]:
    """Give the contributions of rows, by place and row id, without versions.

    Args:
        rows: The rows before the aggregate: all, or if they are keyed all of some keys.
        log: The log of the contributions.
        along: The column that places them; None for the event time.
    """
    axis = rows.times if along is None else rows.column(along)
    keys = [rows.column(column.name) for column in log.keys]
    inputs = [rows.column(column.name) for column in log.inputs]
    found: list[Fact] = []
    for at, life in _standing(rows, log):
        place = axis[at]
        if isinstance(place, int):  # `along` is no Optional: it always is
            fact = Fact(
                row_id=rows.ids[at],
                version=_NO_VERSION,
                event_time=place,
                key=tuple([column[at] for column in keys]),
                values=(*[column[at] for column in inputs], *life),
            )
            found.append(fact)
    return tuple(sorted(found, key=lambda fact: (fact.event_time, fact.row_id)))


def _standing(rows: Rows, log: LogSpec) -> Iterable[tuple[int, tuple[Cell, ...]]]:
    if not log.lives:
        return ((at, ()) for at in range(len(rows)))
    return (
        (place, (since, until))
        for timeline in Timelines(rows).by_key.values()
        for since, place, until in timeline.lives()
    )


def contributed(facts: Iterable[Fact], log: LogSpec) -> Rows:
    """Give standing contributions as keyless rows, with their lives if they have any."""
    columns = (*log.keys, *log.inputs)
    schema = NodeSchema(keys=(), values=columns, timestamp=log.time_field, correctable=True)
    living = [fact for fact in facts if fact.alive]
    rows = rows_of((_keyless(fact, len(columns)) for fact in living), schema)
    if not log.lives:
        return rows
    return attrs.evolve(rows, lives=[life_of(fact) for fact in living])


def _keyless(fact: Fact, columns: int) -> Fact:
    return attrs.evolve(fact, key=(), values=(*fact.key, *fact.values)[:columns])


def life_of(fact: Fact) -> Life:
    """Give from when until when a contribution with a life is there."""
    since, until = fact.values[-2:]
    return (
        since if isinstance(since, int) else fact.event_time,
        until if isinstance(until, int) else None,
    )


def faded(log: LogSpec, values: tuple[Cell, ...], since: int, as_of: int) -> tuple[Cell, ...]:
    """Give the values of a keyed row as they are at an instant; some decay from its own one on.

    Args:
        log: The row's log.
        values: The row's values.
        since: The row's event time.
        as_of: When it is looked up, not before that.
    """
    if not log.decays:
        return values
    faded_by = {one.column: 2 ** ((since - as_of) / one.half_life_us) for one in log.decays}
    return tuple(
        [
            cell * faded_by.get(column.name, 1.0) if isinstance(cell, float) else cell
            for column, cell in zip(log.values, values, strict=True)
        ]
    )


def versions_of(given: PipelineInput, contributions: Rows) -> Rows:
    """Give the rows of a dataset that ends in an aggregate, of all contributions of some groups.

    Raises:
        NoAggregateError: The log of the input holds rows.
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

"""Contributions into a log and out of it, as a job writes them and as one reads them."""

from collections.abc import Iterable

import attrs

from narthex._ir.assets import LogSpec
from narthex._ir.facts import Cell, Fact, Version
from narthex._ir.node_schema import NodeSchema
from narthex._runtime.steps import RowBatch, Timelines, rows_of, validity_of

_NO_VERSION = Version(b"")


def logged(rows: RowBatch, log: LogSpec, *, along: str | None) -> tuple[Fact, ...]:
    """Return the contributions of rows, by place and row id, without versions.

    Args:
        rows: The rows before the aggregate: all, or if they are keyed all of some keys.
        log: The log of the contributions.
        along: The column that places them; None for the event time.
    """
    axis = rows.times if along is None else rows.column(along)
    keys = [rows.column(column.name) for column in log.keys]
    inputs = [rows.column(column.name) for column in log.inputs]
    found: list[Fact] = []
    for at, life in _valid_rows(rows, log):
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


def _valid_rows(rows: RowBatch, log: LogSpec) -> Iterable[tuple[int, tuple[Cell, ...]]]:
    if not log.lives:
        return ((at, ()) for at in range(len(rows)))
    return (
        (place, (since, until))
        for timeline in Timelines(rows).by_key.values()
        for since, place, until in timeline.lives()
    )


def contributed(facts: Iterable[Fact], log: LogSpec) -> RowBatch:
    """Return current contributions as keyless rows, with their validity intervals, if any."""
    columns = (*log.keys, *log.inputs)
    schema = NodeSchema(keys=(), values=columns, timestamp=log.time_field, correctable=True)
    living = [fact for fact in facts if fact.alive]
    rows = rows_of((_keyless(fact, len(columns)) for fact in living), schema)
    if not log.lives:
        return rows
    return attrs.evolve(rows, lives=[validity_of(fact) for fact in living])


def _keyless(fact: Fact, columns: int) -> Fact:
    return attrs.evolve(fact, key=(), values=(*fact.key, *fact.values)[:columns])

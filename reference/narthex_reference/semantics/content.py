"""The rows of a dataset, or of a step of a pipeline: a set of facts with named cells."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import attrs

from narthex._formats import key_bytes
from narthex._ir import Cell, Column, Fact, NodeSchema, RowId, Version

RowSource: TypeAlias = tuple[str, RowId]
"""An appended fact: its dataset and its identity there."""


@attrs.frozen(kw_only=True)
class ContentRow:
    """One row of keyless content, or the value of a key from an instant on in keyed content.

    Attributes:
        event_time: Microseconds.
        cells: Cells by column, with the event time; for an absence, only those of the key.
        alive: False for a key that is absent from this instant on; only in keyed content.
        sources: The facts that made it.
    """

    row_id: RowId
    version: Version
    event_time: int
    cells: Mapping[str, Cell]
    alive: bool = True
    sources: frozenset[RowSource] = frozenset()

    @property
    def order(self) -> tuple[int, bytes]:
        """The sort key among all rows, unique within a content."""
        return self.event_time, self.row_id


@attrs.frozen
class Content:
    """Rows with their schema, in order.

    Keyed content has at most one row of a key at an instant. An absence always ends a row;
    absences that end none are left out.
    """

    rows: tuple[ContentRow, ...]
    schema: NodeSchema

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns: keys, values, event time."""
        return tuple(Column(name, of) for name, of in self.schema.columns.items())


def content(rows: Iterable[ContentRow], schema: NodeSchema) -> Content:
    """Convert rows to content: in order, without rows that carry no value."""
    ordered = sorted(rows, key=lambda row: row.order)
    if not schema.keys:
        return Content(tuple(row for row in ordered if row.alive), schema)
    kept: list[ContentRow] = []
    before: dict[bytes, ContentRow] = {}
    for row in ordered:
        key = key_of(row, schema.keys)
        if row.alive or (key in before and before[key].alive):
            kept.append(row)
        before[key] = row
    return Content(tuple(kept), schema)


def key_of(row: ContentRow, keys: Iterable[Column]) -> bytes:
    """Return a row's cells of some columns as bytes that only equal cells have."""
    columns = tuple(keys)
    return key_bytes(columns, [row.cells[column.name] for column in columns])


def grouped(
    rows: Iterable[ContentRow], group: Callable[[ContentRow], bytes]
) -> dict[bytes, list[ContentRow]]:
    """Return rows by group, in order."""
    groups: dict[bytes, list[ContentRow]] = {}
    for row in rows:
        groups.setdefault(group(row), []).append(row)
    return groups


def histories(of: Content) -> dict[bytes, list[ContentRow]]:
    """Map each key of keyed content to its rows and absences, oldest first."""
    return grouped(of.rows, lambda row: key_of(row, of.schema.keys))


def floor(history: Iterable[ContentRow], instant: int) -> ContentRow | None:
    """Return the newest row or absence of a key at or before an instant."""
    known = [row for row in history if row.event_time <= instant]
    return known[-1] if known else None


def rows_of_facts(dataset: str, facts: Iterable[Fact], schema: NodeSchema) -> list[ContentRow]:
    """Convert facts to rows; the state with the highest version wins per identity."""
    standing: dict[RowId, Fact] = {}
    for fact in facts:
        known = standing.get(fact.row_id)
        if known is None or fact.version > known.version:
            standing[fact.row_id] = fact
    return [_row_of(dataset, fact, schema) for fact in standing.values()]


def _row_of(dataset: str, fact: Fact, schema: NodeSchema) -> ContentRow:
    names = [column.name for column in schema.keys]
    cells = list(fact.key)
    if fact.alive:
        names += [column.name for column in schema.values]
        cells += fact.values
    return ContentRow(
        row_id=fact.row_id,
        version=fact.version,
        event_time=fact.event_time,
        cells={**dict(zip(names, cells, strict=True)), schema.timestamp: fact.event_time},
        alive=fact.alive,
        sources=frozenset({(dataset, fact.row_id)}),
    )


def fact_of(row: ContentRow, keys: Iterable[Column], values: Iterable[Column]) -> Fact:
    """Return a row as a fact, with its cells in the order of the columns."""
    return Fact(
        row_id=row.row_id,
        version=row.version,
        event_time=row.event_time,
        key=tuple(row.cells[column.name] for column in keys),
        values=tuple(row.cells[column.name] if row.alive else None for column in values),
        alive=row.alive,
    )

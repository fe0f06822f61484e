"""Steps that create other rows from rows: explode, union, dedup, changelog, first, latest."""

from collections.abc import Sequence

import attrs

from narthex._ir import Cell, Change, Changelog, Column, Dedup, Explode, NodeSchema, Session
from narthex_reference.semantics.content import (
    Content,
    ContentRow,
    content,
    grouped,
    histories,
    key_of,
)
from narthex_reference.semantics.identities import (
    of_change,
    of_duplicates,
    of_element,
    of_key,
    of_side,
)
from narthex_reference.semantics.windows import sessions


def explode(step: Explode, given: Content, schema: NodeSchema) -> Content:
    """Return a row for each element; one with null for an empty list or none.

    A row whose lists have different lengths fails: it gives no row.
    """
    made = []
    for row in given.rows:
        for index, cells in enumerate(_elements(row, step.columns)):
            made.append(
                attrs.evolve(row, row_id=of_element(row, index), cells={**row.cells, **cells})
            )
    return content(made, schema)


def _elements(row: ContentRow, columns: Sequence[str]) -> list[dict[str, Cell]]:
    lists = {name: _list(row.cells[name]) for name in columns}
    lengths = {len(found) for found in lists.values()}
    if len(lengths) != 1:
        return []
    return [{name: found[index] for name, found in lists.items()} for index in range(*lengths)]


def _list(cell: Cell) -> tuple[Cell, ...]:
    return cell if isinstance(cell, tuple) and cell else (None,)


def union(left: Content, right: Content, schema: NodeSchema) -> Content:
    """Return the rows of both sides; equal rows stay two."""
    made = [
        attrs.evolve(row, row_id=of_side(row, side))
        for side, given in enumerate((left, right))
        for row in given.rows
    ]
    return content(made, schema)


def dedup(step: Dedup, given: Content, schema: NodeSchema) -> Content:
    """Keep the last of each group of equal rows."""
    by = tuple(column for column in given.columns if column.name in step.by)
    made: list[ContentRow] = []
    for key, rows in grouped(given.rows, lambda row: key_of(row, by)).items():
        for instant, same in _same(step, rows):
            made.append(attrs.evolve(same[-1], row_id=of_duplicates(key, instant)))
    return content(made, schema)


def _same(step: Dedup, rows: list[ContentRow]) -> list[tuple[int, list[ContentRow]]]:
    """Return the rows that are the same, with the instant that belongs to their identity."""
    window = step.window
    if isinstance(window, Session):
        return [(same[-1].event_time, same) for same in sessions(rows, window.gap, _event_time)]
    span = 1 if window is None else window.duration
    spans: dict[int, list[ContentRow]] = {}
    for row in rows:
        spans.setdefault(row.event_time // span * span, []).append(row)
    return list(spans.items())


def _event_time(row: ContentRow) -> int:
    return row.event_time


def changelog(step: Changelog, given: Content, schema: NodeSchema) -> Content:
    """Return a row for each beginning and each end of a keyed row; an end has the old values."""
    keys, timestamp = given.schema.keys, given.schema.timestamp

    def told(row: ContentRow, instant: int, *, inserts: bool) -> ContentRow:
        flag = inserts is (step.change is Change.INSERT)
        return attrs.evolve(
            row,
            row_id=of_change(row, keys, instant, inserts=inserts),
            event_time=instant,
            cells={**row.cells, step.column: flag, timestamp: instant},
        )

    made: list[ContentRow] = []
    for history in histories(given).values():
        for row, following in zip(history, [*history[1:], None], strict=True):
            if not row.alive:
                continue
            made.append(told(row, row.event_time, inserts=True))
            if following is not None:
                ended = attrs.evolve(row, sources=row.sources | following.sources)
                made.append(told(ended, following.event_time, inserts=False))
    return content(made, schema)


def first(given: Content, schema: NodeSchema) -> Content:
    """Return the oldest row of each group; of several at one instant, the first seen."""
    groups = grouped(given.rows, lambda row: key_of(row, schema.keys))
    return content([_keyed(rows[0], schema.keys) for rows in groups.values()], schema)


def latest(given: Content, schema: NodeSchema) -> Content:
    """Return the newest row of each group at every instant; of several, the last seen."""
    newest: dict[bytes, ContentRow] = {}
    for row in given.rows:
        keyed = _keyed(row, schema.keys)
        newest[keyed.row_id] = keyed
    return content(newest.values(), schema)


def _keyed(row: ContentRow, keys: tuple[Column, ...]) -> ContentRow:
    return attrs.evolve(row, row_id=of_key(row, keys, row.event_time))

"""Joins with a keyed dataset: a row as of its instant, a key interval by interval."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from narthex._formats import key_bytes
from narthex._ir import Cell, Join, JoinHow, NodeSchema, Version
from narthex_reference.semantics.content import Content, ContentRow, content, floor, histories
from narthex_reference.semantics.identities import of_key

Histories: TypeAlias = Mapping[bytes, Sequence[ContentRow]]


def join(step: Join, left: Content, right: Content, schema: NodeSchema) -> Content:
    """Return the left rows with the columns of their right rows."""
    by_key = histories(right)
    if left.schema.keys:
        return content(_joined_keys(step, left, right, by_key), schema)
    made = [_joined(step, row, right, by_key) for row in left.rows]
    return content([row for row in made if row is not None], schema)


def _history(
    step: Join, row: ContentRow, right: Content, by_key: Histories
) -> Sequence[ContentRow]:
    """Return all right rows of the key that a left row names; a null names none."""
    left_of = {right_name: left_name for left_name, right_name in step.on}
    cells = [row.cells[left_of[column.name]] for column in right.schema.keys]
    if None in cells:
        return ()
    return by_key.get(key_bytes(right.schema.keys, cells), ())


def _joined(step: Join, row: ContentRow, right: Content, by_key: Histories) -> ContentRow | None:
    """Return a left row of a keyless side, joined; None if it has no match and must have one."""
    return _with(step, row, _found(step, row, _history(step, row, right, by_key), row.event_time))


def _found(
    step: Join, row: ContentRow, rights: Sequence[ContentRow], instant: int
) -> ContentRow | None:
    """Return the right row that a left row is joined with as of an instant of its validity.

    The bounds of `within` are counted from the left row's own event time.
    """
    found = floor(rights, max(instant, row.event_time + step.within_high_us))
    low = step.within_low_us
    near = found is not None and (low is None or row.event_time - low <= found.event_time)
    return found if near else None


def _with(step: Join, row: ContentRow, found: ContentRow | None) -> ContentRow | None:
    """Return a left row with the columns of what was found: a row, an absence, or nothing."""
    match = found if found is not None and found.alive else None
    if match is None and step.how is JoinHow.INNER:
        return None
    return attrs.evolve(
        row,
        version=Version(row.version + (b"" if found is None else found.version)),
        cells={**row.cells, **{name: _taken(match, name) for name in step.fields}},
        sources=row.sources | (frozenset() if found is None else found.sources),
    )


def _taken(match: ContentRow | None, name: str) -> Cell:
    return None if match is None else match.cells[name]


def _joined_keys(step: Join, left: Content, right: Content, by_key: Histories) -> list[ContentRow]:
    """Return, for each left key, the joined row from each instant on.

    While a left row is valid, each change of its right row is a change of the joined row.
    """
    made: list[ContentRow] = []
    for history in histories(left).values():
        for row, following in zip(history, [*history[1:], None], strict=True):
            if not row.alive:
                made.append(row)
                continue
            rights = _history(step, row, right, by_key)
            end = None if following is None else following.event_time
            begin = row.event_time + step.within_high_us
            changes = [one.event_time for one in rights if _within(one.event_time, begin, end)]
            for instant in (row.event_time, *changes):
                joined = _with(step, row, _found(step, row, rights, instant))
                made.append(_at(joined, row, left, instant))
    return made


def _within(instant: int, begin: int, end: int | None) -> bool:
    return begin < instant and (end is None or instant < end)


def _at(joined: ContentRow | None, row: ContentRow, left: Content, instant: int) -> ContentRow:
    """Return a joined row, or its absence, as of an instant."""
    keys, timestamp = left.schema.keys, left.schema.timestamp
    is_alive = joined is not None
    cells = joined.cells if joined is not None else {c.name: row.cells[c.name] for c in keys}
    return attrs.evolve(
        row if joined is None else joined,
        row_id=of_key(row, keys, instant),
        event_time=instant,
        cells={**cells, timestamp: instant},
        alive=is_alive,
    )

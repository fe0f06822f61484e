"""The horizon of an index: the event time before which rows may be deleted.

An index of a dataset with a `history` answers lookups as of the last `history` before its
watermark, and each of them looks back for one `history`. So the horizon is two of them before the
watermark. A row that is dated in the future moves it no further than the writer's clock.

A queue orders groups by the age of their rows: it has an entry for each *span* of event time, a
sixteenth of the history, in which a group has rows. So a step of expiry reads little more than what
it deletes. A tile is deleted with the first span that it overlaps: no lookup that is answered
counts rows before the horizon, so none uses that tile.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from narthex._base import render_instant
from narthex._ir import TOMBSTONE_TIME, IndexSpec
from narthex.errors import HistoryExpired
from narthex_stores.indexes.key_layout import instant_of, tile_key

_SPANS: Final = 16
"""The number of spans in a history."""

KeyRange: TypeAlias = tuple[bytes, bytes]
"""Keys of a table from inclusive, to exclusive."""


def horizon_at(spec: IndexSpec, newest: int, now_us: int) -> int | None:
    """Return the horizon of an index; None if it deletes nothing.

    Args:
        spec: The spec of the index.
        newest: The greatest event time of its rows.
        now_us: The present time of its writer.
    """
    if not spec.expires or spec.history_us is None:
        return None
    return min(newest - spec.disorder_us, now_us) - 2 * spec.history_us


def answered_from(spec: IndexSpec, horizon: int | None, newest: int | None) -> int | None:
    """Return the first instant as of which lookups are answered; None if all are.

    It is later than all others if the rows after the horizon were replaced by deletes.
    """
    if horizon is None or spec.history_us is None:
        return None
    first = horizon + spec.history_us
    return TOMBSTONE_TIME if spec.oldest_visible(first, newest) < horizon else first


def refuse_expired(
    spec: IndexSpec, horizon: int | None, newest: int | None, as_of: Sequence[int]
) -> None:
    """Refuse lookups that may need rows before the horizon.

    Raises:
        HistoryExpired: One of the instants is too long ago.
    """
    first = answered_from(spec, horizon, newest)
    if first is None or not as_of or first <= (oldest := min(as_of)):
        return
    raise HistoryExpired(
        f"a lookup as of {render_instant(oldest)} needs rows that the index no longer has; it "
        f"answers lookups as of {render_instant(first)} and later",
        hint="ask as of a later instant, or use `query_offline`, which reads the whole history",
    )


def span_of(spec: IndexSpec) -> int:
    """Return the length of the spans of an index that expires; span i begins at i times it."""
    return max((spec.history_us or 0) // _SPANS, 1)


def due_before(spec: IndexSpec, horizon: int) -> int:
    """Return the number of the first span that does not end by the horizon."""
    return horizon // span_of(spec)


def expired_keys(spec: IndexSpec, group: bytes, number: int) -> tuple[KeyRange, list[KeyRange]]:
    """Return the keys of a group's span in `facts`, and in `tiles` those of the tiles in it."""
    begin, end = number * span_of(spec), (number + 1) * span_of(spec)
    tiles = [
        (tile_key(group, level, begin // length), tile_key(group, level, (end - 1) // length + 1))
        for level, length in enumerate(spec.tile_lengths_us)
    ]
    return (group + instant_of(begin), group + instant_of(end)), tiles

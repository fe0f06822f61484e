"""Tiles: aligned partial aggregates on a ladder of lengths, and the cover of a window by them."""

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from narthex._aggregates.window_ranges import Span, UnsupportedWindowError, span
from narthex._base.times import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from narthex._ir.aggregate_specs import TypedAggregate
from narthex._ir.windows import Continuous, Hopping, Session, Tumbling, Window

STEPS_US = (SECOND_US, MINUTE_US, HOUR_US, DAY_US, 32 * DAY_US)
"""The possible lengths of a tile; each divides the next."""

_PARTS_US = (
    6 * HOUR_US,
    HOUR_US,
    10 * MINUTE_US,
    MINUTE_US,
    10 * SECOND_US,
    *(SECOND_US // 10**exponent for exponent in range(7)),
)
"""The possible lengths of parts; each is a multiple of the next."""

DIVIDED_ABOVE = 64
"""A finest tile, or a part, with more rows than this is divided into parts."""

_SHARE = 60
"""The finest tile is at most this part of the shortest window, so that few raw rows are read."""

TileRange: TypeAlias = tuple[int, int | None, int]
"""(level on the ladder, first tile, last tile), inclusive; tile i begins at i times its length; a
first tile of None is the beginning of time."""


@attrs.frozen(kw_only=True)
class Cover:
    """The rows of a span, without gap or overlap: raw rows at its ends, tiles between.

    Attributes:
        raw_spans: Spans whose rows are read one by one.
        tile_ranges: Runs of tiles inside the span.
    """

    raw_spans: tuple[Span, ...]
    tile_ranges: tuple[TileRange, ...]


def ladder(aggregates: Sequence[TypedAggregate]) -> tuple[int, ...]:
    """Choose the tile lengths for aggregates, ascending, each a multiple of the previous one.

    The finest is at most a sixtieth of the shortest window (a minute for `forever`), or a
    second; the coarsest fits into the longest window. Windows under a second need no tiles.
    """
    lengths = [_lengths(aggregate.spec.window) for aggregate in aggregates]
    if not lengths:
        return ()
    shortest = min(least for least, _ in lengths)
    longest = max(most for _, most in lengths)
    finest = max((step for step in STEPS_US if step * _SHARE <= shortest), default=SECOND_US)
    return tuple(step for step in STEPS_US if finest <= step <= longest)


def parts(ladder_us: Sequence[int]) -> tuple[int, ...]:
    """Choose the lengths of the parts of a finest tile, descending; the last is a microsecond.

    So any number of rows of a group, even at one instant, is in a part that a span contains or
    excludes as a whole, or in one with few rows.
    """
    return tuple(length for length in _PARTS_US if ladder_us and length < ladder_us[0])


def _lengths(window: Window) -> tuple[int, int]:
    match window:
        case Continuous(duration=None):
            return HOUR_US, STEPS_US[-1]
        case Hopping(duration=None, stride=stride):
            return min(stride, HOUR_US), STEPS_US[-1]
        case Continuous(duration=int(duration)) | Tumbling(duration=duration):
            return duration, duration
        case Hopping(duration=int(duration), stride=stride):
            return min(duration, stride), duration
        case Session():
            raise UnsupportedWindowError("an aggregate cannot be over a session window")
        case _:
            raise UnsupportedWindowError(f"{window!r} is not a window of an aggregate")


def cover(window: Window, as_of: int, ladder_us: tuple[int, ...]) -> Cover:
    """Cover the instants that a window counts, exact to the microsecond at both ends."""
    return cover_span(span(window, as_of), ladder_us)


def cover_span(wanted: Span, ladder_us: tuple[int, ...]) -> Cover:
    """Cover the instants of a span, both inclusive, with raw rows at its ends and tiles between.

    An empty span has an empty cover.
    """
    first, last = wanted
    end = last + 1
    if first is not None and first >= end:
        return Cover(raw_spans=(), tile_ranges=())
    parts: list[_Part] = []
    made_of = _RAW
    for level, length in enumerate(ladder_us):
        inner_end = end // length * length
        inner_first = None if first is None else -(-first // length) * length
        if inner_first is not None and inner_first >= inner_end:
            break
        if first is not None and inner_first is not None and first < inner_first:
            parts.append((made_of, first, inner_first))
        if inner_end < end:
            parts.append((made_of, inner_end, end))
        first, end, made_of = inner_first, inner_end, level
    parts.append((made_of, first, end))
    return Cover(
        raw_spans=tuple((start, stop - 1) for level, start, stop in parts if level == _RAW),
        tile_ranges=tuple(
            _tiles(ladder_us[level], level, start, stop)
            for level, start, stop in parts
            if level != _RAW
        ),
    )


_RAW = -1
_Part: TypeAlias = tuple[int, int | None, int]


def _tiles(length: int, level: int, start: int | None, stop: int) -> TileRange:
    return level, None if start is None else start // length, stop // length - 1

"""Late rows: rows that are further behind their source partition than `disorder` expects.

Lateness changes no result; late rows are counted and listed for people. A row is late if an
earlier position of its source partition has an event time more than `disorder` after its own.
Positions decide, not arrival, because the partitions of a log are read one after the other: a
reader far ahead in one partition would otherwise find all rows of the next one late.
"""

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from narthex._base.records import Json
from narthex._base.times import render_instant
from narthex._formats.json_cells import render_cell
from narthex._ir.assets import LogShape
from narthex._ir.facts import Cell
from narthex._ir.schema import Column

KEPT_STEPS: Final = 1024
"""How many steps of the greatest event time a source partition remembers. Beyond that, the older
half is thinned evenly over its span, so that a row from far back is compared with a little less
than the maximum before it, never with more."""

KEPT_ROWS: Final = 20
"""The number of newest late rows that are listed."""

_KNOWN: Final = 4096
"""The number of late rows to remember, so that a repetition in the log is not counted again."""

_PLACE = struct.Struct(">I")
_STEP = struct.Struct(">QI")


@attrs.frozen(kw_only=True)
class LateRow:
    """A row that came late.

    Attributes:
        key: Its key cells; empty for a keyless dataset, whose rows are named by position.
        event_time: Microseconds, UTC.
        late_us: How far beyond `disorder` it was behind the greatest event time before it.
    """

    source_id: str
    partition: int
    offset: int
    ordinal: int
    key: tuple[Cell, ...]
    event_time: int
    late_us: int


@attrs.define
class _Progress:
    """The growth of the greatest event time of one source partition, by position.

    `steps` are positions, `greatest` the greatest event time up to and including each; both ascend.
    """

    steps: list[bytes] = attrs.field(factory=list)
    greatest: list[int] = attrs.field(factory=list)

    def before(self, step: bytes) -> int | None:
        """Return the greatest event time known below or at a position; None before the first."""
        place = bisect_right(self.steps, step)
        return self.greatest[place - 1] if place else None

    def add(self, step: bytes, event_time: int) -> None:
        """Add a row; one that does not exceed the maximum before it is not stored."""
        place = bisect_right(self.steps, step)
        if place and self.greatest[place - 1] >= event_time:
            return
        covered = bisect_right(self.greatest, event_time, lo=place)
        self.steps[place:covered] = [step]
        self.greatest[place:covered] = [event_time]
        if len(self.steps) > KEPT_STEPS:
            self._thin(KEPT_STEPS // 2)

    def _thin(self, older: int) -> None:
        grid = (self.greatest[older - 1] - self.greatest[0]) // (older // 2) + 1
        cells = [greatest // grid for greatest in self.greatest[:older]]
        kept = [place for place in range(older) if not place or cells[place] != cells[place - 1]]
        self.steps[:older] = [self.steps[place] for place in kept]
        self.greatest[:older] = [self.greatest[place] for place in kept]


def source_name(source_id: str) -> str:
    """Return the id of a source, which the rows of its files continue with the file's path."""
    return source_id.partition("#")[0] if source_id.startswith("files:") else source_id


class Lateness:
    """Counts the late rows of one dataset's log and keeps the newest of them.

    It covers the rows that its process has read since the start: it never reports a row as late
    wrongly, but misses late rows whose predecessors another process has read.
    """

    def __init__(
        self, disorder_us: int, shape: LogShape, disorders: Mapping[str, int] | None = None
    ) -> None:
        """Begin without rows.

        Args:
            disorder_us: The greatest expected delay of a row, microseconds.
            shape: How the log's facts form a state; only logs that sources fill have positions.
            disorders: The same for each source by its id, where it is known.

        Raises:
            ValueError: The facts of such a log have no position.
        """
        if shape is LogShape.CONTRIBUTIONS:
            raise ValueError("contributions come from a pipeline, not from a source")
        self.position_column: Final = "version" if shape is LogShape.KEYED else "row_id"
        """The field of a fact that contains the position of its row in the source."""
        self._disorder_us = disorder_us
        self._by_source = {source_name(name): us for name, us in (disorders or {}).items()}
        self._by_place: dict[bytes, int] = {}
        self._progress: dict[bytes, _Progress] = {}
        self._newest: deque[LateRow] = deque(maxlen=KEPT_ROWS)
        self._known: dict[bytes, None] = {}
        self.count = 0

    @property
    def newest(self) -> tuple[LateRow, ...]:
        """The late rows that were found last, newest last."""
        return tuple(self._newest)

    def event_times(self) -> dict[str, int]:
        """Return the greatest event time of each source partition that this process has read.

        The name of a partition is that of its source, a slash, and its number. The files of a
        source are one partition.
        """
        found: dict[str, int] = {}
        for place, progress in self._progress.items():
            name = _place_name(place)
            found[name] = max(progress.greatest[-1], found.get(name, progress.greatest[-1]))
        return found

    def observe(
        self,
        positions: Sequence[bytes],
        event_times: Sequence[int],
        key_at: Callable[[int], tuple[Cell, ...]],
    ) -> frozenset[str]:
        """Observe rows in the order of the log; repetitions count once.

        Returns the names of the source partitions that the rows are of, as in `event_times`.

        Args:
            positions: The positions of the rows in their source, from `position_column`.
            event_times: Their event times, microseconds.
            key_at: Returns the key of one of the rows; called for late rows only.
        """
        places: set[bytes] = set()
        for row, (position, event_time) in enumerate(zip(positions, event_times, strict=True)):
            begin = position.index(b"\x00") + 1 + _PLACE.size
            place, step = position[:begin], position[begin:]
            progress = self._progress.get(place)
            if progress is None:
                progress = self._progress[place] = _Progress()
                self._by_place[place] = self._by_source.get(_source_of(place), self._disorder_us)
            disorder_us = self._by_place[place]
            places.add(place)
            greatest = progress.before(step)
            if greatest is None or event_time >= greatest - disorder_us:
                progress.add(step, event_time)
            elif self._is_new(place + step):
                late_us = greatest - disorder_us - event_time
                self._note(place, step, key=key_at(row), event_time=event_time, late_us=late_us)
        return frozenset(map(_place_name, places))

    def _is_new(self, position: bytes) -> bool:
        if position in self._known:
            return False
        self._known[position] = None
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        return True

    def _note(
        self, place: bytes, step: bytes, *, key: tuple[Cell, ...], event_time: int, late_us: int
    ) -> None:
        offset, ordinal = _STEP.unpack_from(step)
        (partition,) = _PLACE.unpack(place[-_PLACE.size :])
        self.count += 1
        self._newest.append(
            LateRow(
                source_id=place[: -_PLACE.size - 1].decode(),
                partition=partition,
                offset=offset,
                ordinal=ordinal,
                key=key,
                event_time=event_time,
                late_us=late_us,
            )
        )


def _source_of(place: bytes) -> str:
    return source_name(place[: -_PLACE.size - 1].decode())


def _place_name(place: bytes) -> str:
    (partition,) = _PLACE.unpack(place[-_PLACE.size :])
    name = _source_of(place)
    return f"{name}/{0 if name.startswith('files:') else partition}"


def render_late_row(row: LateRow, keys: Sequence[Column]) -> dict[str, Json]:
    """Render a late row for people: its key, its position in the source, and its lateness."""
    return {
        "key": {
            column.name: render_cell(cell, column.type)
            for column, cell in zip(keys, row.key, strict=True)
        },
        "source": row.source_id,
        "partition": row.partition,
        "offset": row.offset,
        "ordinal": row.ordinal,
        "event_time": render_instant(row.event_time),
        "late_s": row.late_us / 1_000_000,
    }

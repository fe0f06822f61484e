"""Late rows: those that came further behind their source partition than `disorder` expects.

Being late changes no result; it is counted and listed for people. A row is late if an earlier
position of its own source partition held an event time more than `disorder` after its own. That
is judged by positions and not by arrival, because the partitions of a log are read one after the
other: who reads far ahead in one would else find all rows of the next one late.
"""

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from narthex._base.records import Json
from narthex._base.times import render_instant
from narthex._formats.json_cells import render_cell
from narthex._ir.assets import LogShape
from narthex._ir.facts import Cell, Fact
from narthex._ir.schema import Column

KEPT_STEPS: Final = 1024
"""How many steps of the greatest event time a source partition remembers; the older half of more
is thinned evenly over its span, so that a row from far back is judged by a little less than the
maximum before it, never by more."""

KEPT_ROWS: Final = 20
"""How many of the newest late rows are listed."""

_KNOWN: Final = 4096
"""How many late rows are remembered, so that a log's repetition of one is not counted again."""

_PLACE = struct.Struct(">I")
_STEP = struct.Struct(">QI")


@attrs.frozen(kw_only=True)
class LateRow:
    """A row that came late.

    Attributes:
        key: Its key cells; empty for a keyless dataset, whose rows are named by position.
        event_time: Microseconds, UTC.
        late_us: How far it was behind the greatest event time before it, beyond `disorder`.
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
    """How the greatest event time of one source partition grew, by position.

    `steps` are positions, `greatest` the greatest event time up to and with each; both ascend.
    """

    steps: list[bytes] = attrs.field(factory=list)
    greatest: list[int] = attrs.field(factory=list)

    def before(self, step: bytes) -> int | None:
        """Return the greatest event time known below or at a position; None before the first."""
        place = bisect_right(self.steps, step)
        return self.greatest[place - 1] if place else None

    def add(self, step: bytes, event_time: int) -> None:
        """Note a row; what an earlier greater one covers is not kept."""
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


class Lateness:
    """Counts the late rows of one dataset's log, and keeps the newest of them.

    It sees what its process has read since it began: a row is never wrongly called late, but one
    whose forerunners were read by another process is not found.
    """

    def __init__(self, disorder_us: int, shape: LogShape) -> None:
        """Begin with nothing seen.

        Args:
            disorder_us: How late a row is expected to be at most.
            shape: How the log's facts make a state; only logs that sources fill have positions.

        Raises:
            ValueError: The facts of such a log have no position.
        """
        if shape is LogShape.CONTRIBUTIONS:
            raise ValueError("contributions come from a pipeline, not from a source")
        self._disorder_us = disorder_us
        self._position: Callable[[Fact], bytes] = _version if shape is LogShape.KEYED else _row_id
        self._progress: dict[bytes, _Progress] = {}
        self._newest: deque[LateRow] = deque(maxlen=KEPT_ROWS)
        self._known: dict[bytes, None] = {}
        self.count = 0

    @property
    def newest(self) -> tuple[LateRow, ...]:
        """The late rows that were found last, the newest one last."""
        return tuple(self._newest)

    def observe(self, facts: Iterable[Fact]) -> None:
        """Look at facts in the order in which the log gave them; repetitions count once."""
        for fact in facts:
            position = self._position(fact)
            begin = position.index(b"\x00") + 1 + _PLACE.size
            place, step = position[:begin], position[begin:]
            progress = self._progress.get(place)
            if progress is None:
                progress = self._progress[place] = _Progress()
            greatest = progress.before(step)
            if greatest is not None and fact.event_time < greatest - self._disorder_us:
                self._note(fact, place, step, greatest - self._disorder_us - fact.event_time)
            else:
                progress.add(step, fact.event_time)

    def _note(self, fact: Fact, place: bytes, step: bytes, late_us: int) -> None:
        if place + step in self._known:
            return
        self._known[place + step] = None
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        offset, ordinal = _STEP.unpack_from(step)
        (partition,) = _PLACE.unpack(place[-_PLACE.size :])
        self.count += 1
        self._newest.append(
            LateRow(
                source_id=place[: -_PLACE.size - 1].decode(),
                partition=partition,
                offset=offset,
                ordinal=ordinal,
                key=fact.key,
                event_time=fact.event_time,
                late_us=late_us,
            )
        )


def render_late_row(row: LateRow, keys: Sequence[Column]) -> dict[str, Json]:
    """Render a late row for people: its key, where it stands in its source, and how late it is."""
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


def _row_id(fact: Fact) -> bytes:
    return fact.row_id


def _version(fact: Fact) -> bytes:
    return fact.version

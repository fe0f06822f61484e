"""Keyed rows as timelines: the current row of a key as of an instant."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

import attrs

from narthex._formats.keys import key_encoder
from narthex._ir.facts import Cell
from narthex._runtime.steps.rows import RowBatch

ABSENT = -1


@attrs.frozen(eq=False)
class Timeline:
    """The rows and absences of a key, oldest first.

    Attributes:
        times: Instants, ascending.
        places: For each instant, the place of the row that is current from then on, or `ABSENT`.
    """

    times: list[int]
    places: list[int]

    def floor(self, instant: int) -> tuple[int, int] | None:
        """Return (start, place) of the current entry as of an instant; None before the first."""
        at = bisect_right(self.times, instant)
        return (self.times[at - 1], self.places[at - 1]) if at else None

    def lives(self) -> Iterator[tuple[int, int, int | None]]:
        """Yield (start, place, end) of each row; the end is exclusive, None for the current row."""
        last = len(self.times) - 1
        for at, (time, place) in enumerate(zip(self.times, self.places, strict=True)):
            if place != ABSENT:
                yield time, place, None if at == last else self.times[at + 1]


class Timelines:
    """The timelines of keyed rows, by key."""

    def __init__(self, rows: RowBatch) -> None:
        self.rows = rows
        self._encode = key_encoder(rows.schema.keys)
        events: dict[bytes, list[tuple[int, int]]] = {}
        for at, key in enumerate(rows.keys(rows.schema.keys)):
            events.setdefault(key, []).append((rows.times[at], at))
        for absence in rows.gone:
            key = self._encode(absence.cells)
            events.setdefault(key, []).append((absence.time, ABSENT))
        self.by_key = {key: timeline_of(found) for key, found in events.items()}

    def of(self, cells: tuple[Cell, ...]) -> Timeline | None:
        """Return the timeline of a key; None if there is none."""
        if None in cells:
            return None
        return self.by_key.get(self._encode(cells))


def timeline_of(events: Iterable[tuple[int, int]]) -> Timeline:
    """Sort the events (instant, place) of a key; an absence that ends no row is left out."""
    times: list[int] = []
    places: list[int] = []
    newest = ABSENT
    for time, place in sorted(events):
        if place != ABSENT or newest != ABSENT:
            times.append(time)
            places.append(place)
        newest = place
    return Timeline(times, places)

"""The counts of rows that break enforced expectations, by expectation and minute.

A job counts them with its other rows, under names that this file makes, so that every kind of job
reports them the same way.
"""

from collections import deque
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Final

import attrs

from narthex._base import Json, render_instant
from narthex._ir import Action, Expectation, is_quarantined

_PREFIX: Final = "broken "
_MINUTE_US: Final = 60_000_000

KEPT_MINUTES: Final = 60
"""The number of newest minutes with broken rows that are reported of each expectation."""


def count_broken(counts: MutableMapping[str, int], broken: Iterable[Expectation]) -> None:
    """Count a row under each expectation that it breaks, with what became of the row."""
    broken = tuple(broken)
    action = Action.QUARANTINE if is_quarantined(broken) else Action.DROP
    for one in broken:
        name = f"{_PREFIX}{action.value} {one.title}"
        counts[name] = counts.get(name, 0) + 1


def breaks(titles: Sequence[str]) -> str:
    """Return why a row that breaks expectations is in a quarantine."""
    return f"it breaks {'; '.join(titles)}"


@attrs.define
class BrokenByMinute:
    """Attributes the growth of the counts of one run to minutes."""

    _seen: dict[str, int] = attrs.field(factory=dict)
    _minutes: dict[str, deque[tuple[int, int]]] = attrs.field(factory=dict)

    def report(self, counts: Mapping[str, int], *, now_us: int) -> dict[str, Json]:
        """Return the detail `expectations` of a job; nothing if no row has broken one.

        It has `quarantined`, `dropped` and `minutes` of each expectation. `minutes` maps the
        beginning of a minute to the number of rows that broke the expectation in it.
        """
        minute = now_us // _MINUTE_US * _MINUTE_US
        found: dict[str, Json] = {}
        for title in self._grow(counts, minute):
            shown: dict[str, Json] = {
                "quarantined": counts.get(f"{_PREFIX}{Action.QUARANTINE.value} {title}", 0),
                "dropped": counts.get(f"{_PREFIX}{Action.DROP.value} {title}", 0),
                "minutes": {render_instant(at): rows for at, rows in self._minutes[title]},
            }
            found[title] = shown
        return {"expectations": found} if found else {}

    def _grow(self, counts: Mapping[str, int], minute: int) -> list[str]:
        titles: dict[str, int] = {}
        for name, count in tuple(counts.items()):
            if name.startswith(_PREFIX):
                title = name.removeprefix(_PREFIX).partition(" ")[2]
                titles[title] = titles.get(title, 0) + count
        for title, count in titles.items():
            grown = count - self._seen.get(title, 0)
            minutes = self._minutes.setdefault(title, deque(maxlen=KEPT_MINUTES))
            if grown > 0 and minutes and minutes[-1][0] == minute:
                minutes[-1] = (minute, minutes[-1][1] + grown)
            elif grown > 0:
                minutes.append((minute, grown))
            self._seen[title] = count
        return sorted(titles)

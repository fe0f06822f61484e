"""Queries while rows flow: answers with the offsets that they read, and their freshness."""

import json
import threading
import time
from collections.abc import Mapping, Sequence

import attrs

from examples.flights.data import Row
from examples.flights.replay import Replay
from narthex.client import Client

FAR = "2014-06-01T00:00:00Z"
INPUTS = ("AboutToDepart.origin", "AboutToDepart.carrier", "AboutToDepart.tailnum")
OUTPUT = "AboutToDepart"
TOLERANCE = 1e-9
PAUSE_S = 0.02
PROBE_PAUSE_S = 0.25
PROBE_TIMEOUT_S = 30.0


@attrs.define
class QueryLog:
    """Every query with its instant, its answer, and the offsets that it had read."""

    columns: dict[str, list[object]] = attrs.field(factory=dict)
    as_of: list[str] = attrs.field(factory=list)
    offsets: list[str] = attrs.field(factory=list)
    answers: dict[str, list[object]] = attrs.field(factory=dict)

    def append(
        self,
        columns: Mapping[str, Sequence[object]],
        answers: Mapping[str, Sequence[object]],
        *,
        as_of: str,
        offsets: str,
    ) -> None:
        """Log one query of some rows."""
        rows = 0
        for name, values in columns.items():
            self.columns.setdefault(name, []).extend(values)
            rows = len(values)
        for name, values in answers.items():
            self.answers.setdefault(name, []).extend(values)
        self.as_of += [as_of] * rows
        self.offsets += [offsets] * rows


class Querier:
    """Queries the flights that are about to depart, by the replay's clock."""

    def __init__(self, client: Client, replay: Replay, *, rows_each: int = 4) -> None:
        """Query through a separate client."""
        self._client = client
        self._replay = replay
        self._rows_each = rows_each
        self.log = QueryLog()
        self.took_ms: list[float] = []
        self.errors: list[str] = []

    def run(self, stop: threading.Event) -> None:
        """Query until the stop event."""
        flights = [r for r in self._replay.rows if r.endpoint == "departures"]
        flights = [r for r in flights if r.values["tailnum"]]
        place = 0
        while not stop.is_set():
            clock, _sent = self._replay.position()
            while place < len(flights) and flights[place].at <= clock:
                place += 1
            next_ones = flights[place : place + self._rows_each]
            if clock and next_ones:
                self._ask(next_ones, clock)
            time.sleep(PAUSE_S)

    def _ask(self, flights: Sequence[Row], clock: str) -> None:
        columns: dict[str, list[object]] = {
            name: [row.values[name.split(".")[1]] for row in flights] for name in INPUTS
        }
        began = time.perf_counter()
        answers, read = self._client.query_columns(
            list(INPUTS), [OUTPUT], columns, as_of=clock, explain=True
        )
        self.took_ms.append((time.perf_counter() - began) * 1000)
        self.log.append(columns, answers, as_of=clock, offsets=json.dumps(read["offsets"]))


class Prober:
    """Measures freshness: from a row's acceptance to its count being visible to a query."""

    def __init__(self, client: Client, replay: Replay, archived: Mapping[str, int]) -> None:
        """Store the number of archived departures of each plane."""
        self._client = client
        self._replay = replay
        self._archived = archived
        self.freshness_ms: list[float] = []
        self.missed = 0

    def run(self, stop: threading.Event) -> None:
        """Probe until the stop event; each probe is the newest accepted departure."""
        while not stop.is_set():
            newest = self._replay.newest
            if newest is not None:
                self._probe(*newest)
            time.sleep(PROBE_PAUSE_S)

    def _probe(self, tailnum: str, sent: int, accepted: float) -> None:
        wanted = self._archived.get(tailnum, 0) + sent
        columns: dict[str, list[object]] = {"AboutToDepart.tailnum": [tailnum]}
        while time.monotonic() - accepted < PROBE_TIMEOUT_S:
            answers, _read = self._client.query_columns(
                ["AboutToDepart.tailnum"],
                ["AboutToDepart.plane_departures_ever"],
                columns,
                as_of=FAR,
            )
            count = answers["AboutToDepart.plane_departures_ever"][0]
            if isinstance(count, int) and count >= wanted:
                self.freshness_ms.append((time.monotonic() - accepted) * 1000)
                return
            time.sleep(0.002)
        self.missed += 1


def count_unequal(
    online: Mapping[str, Sequence[object]], offline: Mapping[str, Sequence[object]]
) -> tuple[int, list[str]]:
    """Compare answers cell by cell; return the number of rows that differ, and some differences."""
    names = sorted(online)
    rows = len(online[names[0]]) if names else 0
    unequal, shown = 0, []
    for row in range(rows):
        different = [n for n in names if not equal(online[n][row], offline[n][row])]
        if different:
            unequal += 1
            name = different[0]
            shown.append(
                f"row {row} {name}: {online[name][row]!r} online, {offline[name][row]!r} offline"
            )
    return unequal, shown[:10]


def equal(one: object, other: object) -> bool:
    """Return whether two answers are equal; floats to a relative 1e-9."""
    if isinstance(one, float) and isinstance(other, int | float) and not isinstance(other, bool):
        return abs(one - other) <= TOLERANCE * max(1.0, abs(one), abs(other))
    return one == other

"""The load while faults hit: rows by webhook, some calls twice, and a card that is watched."""

import threading
import time
from collections.abc import Mapping, Sequence

import attrs
import httpx

from tests.chaos.plant import Installation
from tests.chaos.rows import PROBE, Merchant, Payment, Row, Rows, probe

CALL_ROWS = 8
BURST_ROWS = 500
REPEATED = 50
"""Of so many calls one is made twice, under the same key."""
PROBE_EVERY_S = 0.25
AGAIN_AFTER_S = 0.2
WATCHED_AT = "2026-03-01T00:30:00Z"


@attrs.define
class SentRows:
    """All rows that were accepted, and when the watched ones were sent and seen.

    Attributes:
        probes: When each was first sent, in order (monotonic seconds).
        visible: When a number of them was first visible; by their number, from 1.
        repeated: Calls that were made twice on purpose, or because their outcome was not known.
        waits: How long each call took until it was accepted, seconds: one that nobody accepts
            holds back what its sender would have sent meanwhile, and so what is watched.
    """

    rows: list[Row] = attrs.field(factory=list)
    probes: list[float] = attrs.field(factory=list)
    visible: dict[int, float] = attrs.field(factory=dict)
    repeated: int = 0
    waits: list[float] = attrs.field(factory=list)

    @property
    def payments(self) -> list[Payment]:
        return [row for row in self.rows if isinstance(row, Payment)]

    @property
    def by_dataset(self) -> Mapping[str, Sequence[Row]]:
        merchants = [row for row in self.rows if isinstance(row, Merchant)]
        return {"Payments": self.payments, "Merchants": merchants}


class Load:
    """Three threads: one sends rows, one sends watched payments, one looks for those."""

    def __init__(self, plant: Installation, *, seed: int, rate: float) -> None:
        """Prepare to send so many rows a second."""
        self._plant = plant
        self._rows = Rows(seed)
        self._seed = seed
        self._pause_s = CALL_ROWS / rate
        self._stopping = threading.Event()
        self._seen_all = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=work.__name__)
            for work in (self._send, self._probe, self._watch)
        ]
        self.sent = SentRows()

    def start(self) -> None:
        """Tell of all merchants, then go on until `stop`."""
        merchants = self._rows.merchants()
        self._push("merchants", merchants, call=f"{self._seed}-merchants")
        for thread in self._threads:
            thread.start()

    def stop(self) -> SentRows:
        """Send no more; wait until all that was sent is accepted, and give it."""
        self._stopping.set()
        for thread in self._threads[:2]:
            thread.join()
        return self.sent

    def burst(self, count: int) -> None:
        """Send so many payments as fast as they are accepted, after `stop`."""
        waiting: list[Payment] = []
        for row in self._rows:
            if isinstance(row, Merchant):
                self._push("merchants", [row], call=f"{self._seed}-merchant-{row.number}")
                continue
            waiting.append(row)
            if len(waiting) == BURST_ROWS or len(waiting) == count:
                call = f"{self._seed}-burst-{waiting[0].number}"
                self._push("payments", waiting, call=call)
                count -= len(waiting)
                waiting = []
            if not count:
                return

    def end(self) -> None:
        """Look for watched payments no more."""
        self._seen_all.set()
        self._threads[2].join()

    def _send(self) -> None:
        waiting: list[Payment] = []
        call = 0
        for row in self._rows:
            if isinstance(row, Merchant):
                self._push("merchants", [row], call=f"{self._seed}-merchant-{row.number}")
                continue
            waiting.append(row)
            if len(waiting) < CALL_ROWS:
                continue
            call += 1
            self._push("payments", waiting, call=f"{self._seed}-call-{call}")
            if call % REPEATED == 1:
                self._again("payments", waiting, call=f"{self._seed}-call-{call}")
            waiting = []
            if self._stopping.wait(self._pause_s):
                return

    def _push(self, endpoint: str, rows: list[Payment] | list[Merchant], *, call: str) -> None:
        """Push rows until they are accepted: the same call, under the same key."""
        plain = [row.plain() for row in rows]
        began = time.monotonic()
        while not self._plant.log(endpoint, plain, call=call):
            self.sent.repeated += 1
            time.sleep(AGAIN_AFTER_S)
        self.sent.waits.append(time.monotonic() - began)
        self.sent.rows += rows

    def _again(self, endpoint: str, rows: list[Payment], *, call: str) -> None:
        self.sent.repeated += 1
        self._plant.log(endpoint, [row.plain() for row in rows], call=call)

    def _probe(self) -> None:
        number = 0
        while not self._stopping.wait(PROBE_EVERY_S):
            number += 1
            payment = probe(number)
            self.sent.probes.append(time.monotonic())
            self._push("payments", [payment], call=f"{self._seed}-probe-{number}")

    def _watch(self) -> None:
        """See how many of the watched payments readers can see."""
        seen = 0
        while not self._seen_all.wait(PROBE_EVERY_S / 2):
            try:
                answer = self._plant.lookup("CardVelocity", [{"card": PROBE}], [WATCHED_AT])
            except httpx.HTTPError:
                continue
            count = int(answer["data"]["count_30d"][0] or 0) if answer["found"][0] else 0
            now = time.monotonic()
            for number in range(seen + 1, count + 1):
                self.sent.visible[number] = now
            seen = max(seen, count)

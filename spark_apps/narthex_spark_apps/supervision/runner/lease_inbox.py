"""The runner's end of its connection, and what the runner does when its leases expire.

When the connection ends, what supervised the runner is gone, and so the runner ends. When the
leases expire (the supervisor is stopped, or waits for the ledger), the runner stops its jobs by
itself; if it cannot, it ends.
"""

import functools
import queue
import threading
import time
from collections.abc import Callable, Iterable

import structlog

from narthex_spark_apps.supervision.runner_messages import (
    STOP_WITHIN_S,
    Alive,
    DesiredAssignments,
    RunnerMessage,
    lease_end,
    parse_desired,
)

log = structlog.get_logger()

ALIVE_EVERY_S = 2.0
LOOK_EVERY_S = 0.25

Send = Callable[[RunnerMessage], None]
"""Sends a message to the supervising side at once, from any thread."""


class Inbox:
    """The newest set that the supervisor sent, and no work once the leases have expired."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, ends_with_lease: bool = False
    ) -> None:
        """Create an inbox that has received nothing; `listen` connects it.

        Args:
            clock: The clock of the leases.
            ends_with_lease: Count the runner as stuck from `STOP_WITHIN_S` after its leases, even
                if it has stopped its work: then another may have taken it over.
        """
        self._clock = clock
        self._ends_with_lease = ends_with_lease
        self._sets: queue.SimpleQueue[DesiredAssignments] = queue.SimpleQueue()
        self._newest = DesiredAssignments(assignments=())
        self._leased_until = float("inf")
        self._expired_at: float | None = None
        self._has_work = False
        self._lock = threading.Lock()

    @property
    def leased_until(self) -> float:
        """When the leases expire, by this process's clock; infinity if nothing was received."""
        return self._leased_until

    def listen(self, source: Iterable[str], *, send: Send, gone: Callable[[], None]) -> None:
        """Read `source` in a thread, watch the leases in another one, send heartbeats in a third.

        Args:
            source: The lines of the supervising side.
            send: Sends the heartbeats.
            gone: Called when `source` ends, or when work does not stop in time; ends the runner.
        """

        def read() -> None:
            for line in source:
                if line.strip():
                    self.take(line)
            gone()

        def watch() -> None:
            while True:
                time.sleep(LOOK_EVERY_S)
                if self.is_stuck():
                    gone()

        heartbeats = functools.partial(_send_heartbeats, send, self._clock)
        for work in (read, watch, heartbeats):
            threading.Thread(target=work, name="inbox", daemon=True).start()

    def take(self, line: str) -> None:
        """Take a line of the supervisor: a set of assignments, or how long it holds leases.

        Each expiry is one that the leases certainly last until, so the latest of them counts.
        """
        leased_until = lease_end(line)
        if leased_until is None:
            desired = parse_desired(line)
            with self._lock:
                self._newest = desired
                self._sets.put(desired)
            return
        with self._lock:
            has_lease = self._leased_until < float("inf")
            self._leased_until = max(
                leased_until, self._leased_until if has_lease else leased_until
            )
            if self._expired_at is not None and self._clock() < self._leased_until:
                self._expired_at = None
                self._sets.put(self._newest)

    def is_stuck(self) -> bool:
        """Stop all work if the leases have expired; return whether it continues for too long.

        A runner that was stopped, or is slow to start, may first read an outdated expiry: its time
        to stop starts when it reads that.
        """
        with self._lock:
            now = self._clock()
            if now < self._leased_until:
                return False
            if self._expired_at is None:
                self._expired_at = now
                log.warning("lease_expired")
                self._sets.put(DesiredAssignments(assignments=(), turn=self._newest.turn))
            if self._ends_with_lease:
                return now - self._leased_until > STOP_WITHIN_S
            is_late = now - self._expired_at > STOP_WITHIN_S
            return is_late and self._has_work and not self._sets.empty()

    def newest(self, *, wait_s: float) -> DesiredAssignments | None:
        """Return the newest set that has not been returned yet, or None after `wait_s`."""
        desired = newest_of(self._sets, wait_s=wait_s)
        if desired is not None:
            self._has_work = bool(desired.assignments or desired.offline)
        return desired


def newest_of(
    sets: "queue.SimpleQueue[DesiredAssignments]", *, wait_s: float
) -> DesiredAssignments | None:
    """Empty a queue and return its last set; None if no set arrives within `wait_s`."""
    desired: DesiredAssignments | None = None
    try:
        desired = sets.get(timeout=wait_s) if wait_s else sets.get_nowait()
        while True:
            desired = sets.get_nowait()
    except queue.Empty:
        return desired


def _send_heartbeats(send: Send, clock: Callable[[], float]) -> None:
    while True:
        send(Alive(at=clock()))
        time.sleep(ALIVE_EVERY_S)

"""Samples of the queries that a process answers, each minute, for the plots of the console."""

import datetime as dt
import threading
from collections.abc import Callable
from typing import Final

import structlog

from narthex_ledger import (
    LATENCY_BOUNDS_S,
    Ledger,
    LedgerError,
    MetricCount,
    MetricKind,
    MetricReading,
)
from narthex_server.services.meters import Meters

log = structlog.get_logger()

QUERY_ROUTES: Final = frozenset({"/api/v1/query", "/api/v1/dataset/{name}/lookup"})
"""The routes of queries and lookups, as metrics name them."""

_TOO_MANY: Final = 429
_SERVER_ERROR: Final = 500
_INTO_MINUTE_S: Final = 1.0
"""How long after the beginning of a minute it is sampled."""

_STOPS_S: Final = 15.0


def process_reading(process: str, meters: Meters) -> MetricReading:
    """Return how many queries a process has answered, which failed, and how long they took.

    An error is an answer with a status of 500 or more, or 429; mistakes of callers are none.
    """
    queries = errors = 0.0
    for labels, count in meters.requests.read().items():
        named = dict(labels)
        if named["route"] in QUERY_ROUTES:
            status = int(named["status"])
            queries += count
            errors += count if status >= _SERVER_ERROR or status == _TOO_MANY else 0
    within = [0.0] * len(LATENCY_BOUNDS_S)
    for labels, counts in meters.took.read().items():
        if dict(labels)["route"] in QUERY_ROUTES:
            within = [a + b for a, b in zip(within, counts, strict=False)]
    counters = {"queries": queries, "errors": errors} | {
        f"within_{bound}_s": count for bound, count in zip(LATENCY_BOUNDS_S, within, strict=True)
    }
    return MetricReading(
        kind=MetricKind.PROCESS,
        branch="",
        subject=process,
        counters={name: MetricCount(of="", count=count) for name, count in counters.items()},
    )


def until_next_minute_s(now_s: float) -> float:
    """Return how long to wait for the time of the next minute's sample; `now_s` is since 1970."""
    return 60.0 - (now_s - _INTO_MINUTE_S) % 60.0


def _now_s() -> float:
    return dt.datetime.now(dt.UTC).timestamp()


class MinuteLoop:
    """Does some work once a minute in a thread of its own; an error ends one round only."""

    def __init__(
        self,
        work: Callable[[], object],
        *,
        event: str,
        pause_s: Callable[[float], float] = until_next_minute_s,
    ) -> None:
        """Prepare the loop; `start` begins it.

        Args:
            work: The work.
            event: The name in the log of a round that failed.
            pause_s: How long to wait for the next round, from the seconds since 1970.
        """
        self._pause_s = pause_s
        self._work = work
        self._event = event
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Run until `stop`."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the round in progress."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOPS_S)

    def _run(self) -> None:
        while not self._stop.wait(self._pause_s(_now_s())):
            try:
                self._work()
            except LedgerError as error:
                log.warning(self._event, error=str(error))
            except Exception:  # a mistake in one round must not end all samples
                log.exception(self._event)


def process_loop(ledger: Ledger, meters: Meters, process: str) -> MinuteLoop:
    """Return the loop that samples the queries of a process that does nothing else."""
    return MinuteLoop(
        lambda: ledger.metrics.record([process_reading(process, meters)]),
        event="metrics_not_sampled",
    )

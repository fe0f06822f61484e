"""Samples of the queries that a process answers, each minute, for the plots of the console."""

import datetime as dt
from collections.abc import Callable
from typing import Final

from narthex_ledger import (
    LATENCY_BOUNDS_S,
    Ledger,
    MetricCount,
    MetricKind,
    MetricReading,
)
from narthex_server.background_loop import BackgroundLoop
from narthex_server.services.meters import Meters

QUERY_ROUTES: Final = frozenset({"/api/v1/query", "/api/v1/dataset/{name}/lookup"})
"""The routes of queries and lookups, as metrics name them."""

_TOO_MANY: Final = 429
_SERVER_ERROR: Final = 500
_INTO_MINUTE_S: Final = 1.0
"""How long after the beginning of a minute it is sampled."""


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


def minute_loop(work: Callable[[], object]) -> BackgroundLoop:
    """Return the loop that samples each minute."""
    return BackgroundLoop(
        work,
        name="metrics",
        event="metrics_not_sampled",
        pause_s=lambda: until_next_minute_s(dt.datetime.now(dt.UTC).timestamp()),
    )


def process_loop(ledger: Ledger, meters: Meters, process: str) -> BackgroundLoop:
    """Return the loop that samples the queries of a process that does nothing else."""
    return minute_loop(lambda: ledger.metrics.record([process_reading(process, meters)]))

"""A console at noon of a fixed day: metrics of a day in which a dataset fell behind, and alerts."""

import datetime as dt
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

import attrs
from sqlalchemy.engine import Connection

from narthex_ledger import AlertFinding, Ledger, MetricKind, SilenceView
from narthex_ledger.db import metric_rows
from narthex_ledger.db.transactions import Transactions, no_faults
from narthex_ledger.model.metric_views import MetricReading, Numbers
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.console.browsing import console_of
from tests.server.driving import serve
from tests.server.shop import shop_definitions

NOON: Final = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
AHEAD: Final = dt.timedelta(seconds=30)
"""How long after noon the console begins: a bucket of ten minutes lasts longer than a test."""

BUCKET: Final = dt.timedelta(minutes=10)
FALLS_BEHIND: Final = range(120, 132)
"""The buckets in which a dataset falls behind; in the three after them no server runs."""

UNSAMPLED: Final = range(132, 135)
FINDINGS: Final = (
    AlertFinding(
        rule="freshness",
        branch="main",
        subject="Orders",
        severity="critical",
        summary="The newest row of Orders is 2 h old; 15 min are allowed.",
        remedy="Look whether the producer of its topic runs.",
        page="console/datasets/Orders",
    ),
    AlertFinding(
        rule="quarantine_rate",
        branch="main",
        subject="Orders",
        severity="warning",
        summary="4.2 % of the rows of Orders are quarantined; 1 % is allowed.",
        remedy="Read the quarantined rows, correct them and replay them.",
        page="console/datasets/Orders",
    ),
)


@contextmanager
def troubled_console(home: Path, dsn: str) -> Iterator[str]:
    """Serve the console; yield its address."""
    with house_at(settings_at(home, dsn=dsn, kafka=NOBODY), adapters=in_memory()) as house:
        serve(house, shop_definitions())
        _put_samples(dsn)
        ledger = Ledger(dsn, clock_shift=NOON + AHEAD - dt.datetime.now(dt.UTC))
        try:
            _fire(ledger)
            services = attrs.evolve(house.services, ledger=ledger)
            with console_of(House(services=services, client=house.client)) as url:
                yield url
        finally:
            ledger.close()


def _put_samples(dsn: str) -> None:
    """Store the samples of a day until noon as the server's folding leaves them."""
    readings = [
        MetricReading(kind=MetricKind.DATASET, branch="main", subject=name)
        for name in ("Orders", "Spend")
    ]
    transactions = Transactions(dsn, clock_shift=dt.timedelta(0), fault_hook=no_faults)

    def work(connection: Connection) -> None:
        series = metric_rows.lock_series(connection, readings)
        begin = NOON - dt.timedelta(days=1)
        for place in range(144):
            if place not in UNSAMPLED:
                samples = {row.series_id: _numbers(place) for row in series.values()}
                metric_rows.put_samples(connection, begin + place * BUCKET, 10, samples)

    try:
        transactions.run("put_samples", work)
    finally:
        transactions.close()


def _numbers(place: int) -> Numbers:
    """Return the numbers of ten minutes, in the order of a dataset's measures."""
    wave = 1 + math.sin(place / 144 * 2 * math.pi)
    behind = (place - FALLS_BEHIND.start + 1) if place in FALLS_BEHIND else 0
    freshness_s = 4.0 + 2 * wave + 600 * behind
    rows = 0.0 if behind else round(3000 + 2500 * wave)
    late, quarantined = float(place % 7 == 0), float(3 * behind)
    return (freshness_s, freshness_s + 3, 1500.0 * behind, rows, 10.0, late, quarantined)


def _fire(ledger: Ledger) -> None:
    """Store two alerts that fire, of which one is silenced."""
    assert ledger.alerts.hold("tests")
    ledger.alerts.store("tests", FINDINGS, changes=(), memory={})
    ledger.alerts.silence(
        SilenceView(
            silence_id=UUID(int=1),
            rule="quarantine_rate",
            branch="main",
            subject="Orders",
            reason="The producer is being corrected.",
            created_by="ada",
            until=NOON + dt.timedelta(hours=4),
        )
    )

"""A job that a bounded run has borrowed stays borrowed when the ledger is away for a while."""

import time
from collections.abc import Iterator

import pytest

from narthex_ledger import Ledger, LedgerUnreachable, Moment
from narthex_spark_apps.jobs import backfill
from narthex_spark_apps.jobs.backfill import BackfillLoan
from tests.ledger.world import World, blueprint, files_dataset

pytestmark = pytest.mark.postgres


@pytest.fixture
def world(ledger_dsn: str) -> Iterator[World]:
    made = World.open(ledger_dsn)
    yield made
    made.close()


def test_a_report_that_fails_is_followed_by_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_id, _ = world.committed(world.request(1), blueprint(files_dataset("flights")))
    (job,) = [one.asset.asset_id for one in world.ledger.jobs.all() if one.needs_backfill]
    reports = []

    def away_twice(name: str, moment: Moment) -> None:
        if name == "report_backfill" and moment is Moment.BEFORE_BEGIN:
            reports.append(name)
            if len(reports) < 3:
                raise LedgerUnreachable("the ledger does not answer")

    ledger = Ledger(world.dsn, fault_hook=away_twice)
    world.opened.append(ledger)
    epoch = ledger.backfills.claim(commit_id, job)
    assert epoch is not None
    monkeypatch.setattr(backfill, "REPORT_EVERY_S", 0.02)

    with BackfillLoan(ledger, job, epoch) as loan:
        loan.note({"rows": 7})
        deadline = time.monotonic() + 30
        while len(reports) < 4:
            assert time.monotonic() < deadline, reports
            time.sleep(0.02)

    (shard,) = {one.asset.asset_id: one for one in ledger.jobs.all()}[job].shards
    assert shard.backfill == {"done": False, "progress": {"rows": 7}}

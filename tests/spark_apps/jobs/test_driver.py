"""The driver: which job it ends so that the job restarts with longer intervals."""

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from structlog.testing import capture_logs

from narthex._ir.operators import DatasetRef, Drop
from narthex_spark_apps.jobs import driver as driver_module
from narthex_spark_apps.jobs.driver import Driver
from narthex_spark_apps.jobs.live_job import LiveJob, QueryFailedError
from narthex_spark_apps.platform.kafka_io import CROWDED_JOBS, REAL_TIME_S, interval_s
from narthex_spark_apps.supervision.runner import Ended, Progress
from narthex_spark_apps.supervision.runner_messages import ShardId, WorkAssignment
from tests.spark_apps.spark_jobs import ORDERS, pipeline_job

FEW, MANY = 2, 50


@pytest.fixture
def driver() -> Driver:
    """A driver without Spark; its runs are those that a test makes."""
    return Driver(settings=None, session=None)


def test_jobs_restart_with_longer_intervals_one_at_a_time(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {ShardId(number): run(number, tmp_path) for number in (1, 2)}
    driver.adopt(real_time_jobs(FEW))
    among_few = driver.advance(runs)
    driver.adopt(real_time_jobs(MANY))

    monkeypatch.setattr(driver_module, "LENGTHEN_EVERY_S", 3600.0)
    first = driver.advance(runs)
    del runs[ShardId(1)]
    too_soon = driver.advance(runs)
    monkeypatch.setattr(driver_module, "LENGTHEN_EVERY_S", 0.0)
    second = driver.advance(runs)

    assert among_few == []
    assert first == [Ended(ShardId(1))]
    assert too_soon == []
    assert second == [Ended(ShardId(2))]


def test_a_job_with_long_intervals_or_without_a_commit_continues(
    driver: Driver, tmp_path: Path
) -> None:
    driver.adopt(real_time_jobs(MANY))
    long = run(1, tmp_path)
    long.interval_s = interval_s(MANY, 1)
    uncommitted = run(2, tmp_path)
    (uncommitted.checkpoint / "commits" / "0").unlink()

    assert driver.advance({ShardId(1): long, ShardId(2): uncommitted}) == []


def test_a_job_that_fails_restarts_for_that_reason_alone(driver: Driver, tmp_path: Path) -> None:
    driver.adopt(real_time_jobs(MANY))
    failed = run(1, tmp_path)
    # All that the run reads of a query of Spark that has ended.
    failed.query = SimpleNamespace(isActive=False, exception=lambda: "the query's error")

    failure, lengthened = driver.advance({ShardId(1): failed, ShardId(2): run(2, tmp_path)})

    assert failure.shard_id == ShardId(1)
    assert isinstance(failure.error, QueryFailedError)
    assert str(failure.error) == "the query's error"
    assert lengthened == Ended(ShardId(2))


def test_a_driver_with_very_many_jobs_reports_what_planning_costs_and_what_to_do(
    driver: Driver,
) -> None:
    def reported(jobs: int) -> list[MutableMapping[str, Any]]:
        with capture_logs() as logged:
            driver.adopt(real_time_jobs(jobs))
        return [one for one in logged if one["event"] == "driver_crowded"]

    assert reported(CROWDED_JOBS) == []
    [told] = reported(CROWDED_JOBS + 30)
    assert told["planning_cpus"] == pytest.approx(0.1)
    assert "start another supervisor" in str(told)
    assert reported(CROWDED_JOBS + 30) == []


def assignment(number: int) -> WorkAssignment:
    job = pipeline_job(Drop(DatasetRef("Orders"), ("who",)), inputs=(), schema=ORDERS, needs=())
    return WorkAssignment(asset=attrs.evolve(job.asset, asset_id=number), epoch=1, generation=1)


def real_time_jobs(count: int) -> Mapping[ShardId, WorkAssignment]:
    return {ShardId(number): assignment(number) for number in range(1, count + 1)}


def run(number: int, home: Path) -> LiveJob:
    """Return a run with the shortest intervals that has committed and reported one of them."""
    checkpoint = home / str(number)
    for part, text in (("offsets", 'v1\n{}\n{"orders":{"0":3}}'), ("commits", "")):
        (checkpoint / part).mkdir(parents=True)
        (checkpoint / part / "0").write_text(text)
    return LiveJob(
        assignment(number),
        Progress(),
        session=None,
        checkpoint=checkpoint,
        interval_s=REAL_TIME_S,
        seen_batch=0,
    )

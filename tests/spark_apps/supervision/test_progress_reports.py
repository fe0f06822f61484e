"""Progress reports of jobs and supervisors, and the order in which jobs are drained."""

import threading

import pytest

from narthex._ir.assets import AssetKind, FeedSpec, ResolvedAsset, Trigger
from narthex._ir.entities import KafkaTopic, WebhookEndpoint
from narthex_ledger import Epoch, Phase, ShardReport
from narthex_spark_apps.jobs.application import task_of
from narthex_spark_apps.jobs.dependency_order import in_dependency_order
from narthex_spark_apps.supervision.report_throttle import (
    PASS_ON_EVERY_S,
    SAME_EVERY_S,
    STREAK,
    ReportGate,
)
from narthex_spark_apps.supervision.runner import Progress
from narthex_spark_apps.supervision.runner_messages import Report, WorkAssignment
from tests.spark_apps import spark_jobs

TOPIC = "theirs"


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class FixedEndOffsets:
    def __init__(self, end: int) -> None:
        self.end = end

    def known(self) -> dict[str, dict[int, int]]:
        return {TOPIC: {0: self.end}}


def asset(trigger: Trigger = Trigger.STAGE) -> ResolvedAsset:
    connector = KafkaTopic(name="k", bootstrap_servers="", topic=TOPIC)
    return spark_jobs.source_job(connector, needs=(), trigger=trigger).asset


def progress_of(ends: FixedEndOffsets, clock: Clock) -> Progress:
    return Progress(
        topics=(TOPIC,), ends=ends, known=True, is_running=True, stale_s=2.0, clock=clock
    )


def report(progress: Progress) -> Report:
    return progress.report(WorkAssignment(asset=asset(), epoch=1, generation=1))


def phase(progress: Progress) -> str:
    return report(progress).phase


def test_a_job_that_has_read_all_is_caught_up() -> None:
    progress = progress_of(FixedEndOffsets(5), Clock())
    before = phase(progress)
    progress.read = {TOPIC: {0: 5}}

    assert (before, phase(progress)) == ("running", "caught_up")


def test_a_job_under_load_is_caught_up_at_the_end_offsets_of_a_while_ago() -> None:
    ends, clock = FixedEndOffsets(5), Clock()
    progress = progress_of(ends, clock)
    phases = []
    for second in range(6):
        clock.now_s = 100.0 + second
        ends.end = 5 + 5 * second
        progress.read = {TOPIC: {0: ends.end - 5}}
        phases.append(phase(progress))

    assert phases == ["running", "running", *["caught_up"] * 4]


def test_a_job_that_falls_behind_is_not_caught_up() -> None:
    ends, clock = FixedEndOffsets(5), Clock()
    progress = progress_of(ends, clock)
    progress.read = {TOPIC: {0: 5}}
    phases = []
    for second in range(9):
        clock.now_s = 100.0 + second
        phases.append(phase(progress))
        ends.end = 5 if second < 3 else 10

    # Records that arrived after the look at 3 s are two seconds old at 6 s.
    assert phases == [*["caught_up"] * 6, *["running"] * 3]


def test_an_unknown_job_is_starting_and_a_failed_one_has_its_error() -> None:
    progress = progress_of(FixedEndOffsets(5), Clock())
    progress.known = False
    starting = phase(progress)
    progress.error, progress.is_running = "the broker is gone", False
    failed = report(progress)

    assert (starting, failed.phase) == ("starting", "failed")
    assert failed.progress["error"] == "the broker is gone"


def shard_report(phase_: Phase = Phase.CAUGHT_UP, behind: int = 0) -> ShardReport:
    return ShardReport(
        asset_id=1, generation=1, epoch=Epoch(1), phase=phase_, progress={"behind": behind}
    )


def test_a_report_of_another_phase_passes_at_once_and_of_another_count_soon() -> None:
    clock = Clock()
    gate = ReportGate(clock=clock)

    first = gate.passes(shard_report(Phase.RUNNING))
    again = gate.passes(shard_report(Phase.RUNNING, behind=3))
    other_phase = gate.passes(shard_report(Phase.CAUGHT_UP))
    clock.now_s += PASS_ON_EVERY_S
    later = gate.passes(shard_report(Phase.CAUGHT_UP, behind=4))

    assert (first, again, other_phase, later) == (True, False, True, True)


def test_reports_of_the_same_pass_often_enough_for_readiness_and_then_rarely() -> None:
    clock = Clock()
    gate = ReportGate(clock=clock)
    passed_at = []
    for _ in range(40):
        if gate.passes(shard_report()):
            passed_at.append(clock.now_s - 100.0)
        clock.now_s += 0.5

    soon = [number * PASS_ON_EVERY_S for number in range(STREAK)]
    assert passed_at[:STREAK] == soon
    assert passed_at[STREAK:] == [soon[-1] + SAME_EVERY_S * n for n in (1, 2, 3)]


def test_each_thing_is_done_after_those_before_it() -> None:
    before = {1: (), 2: (1,), 3: (1,), 4: (2, 3), 5: ()}
    lock, done = threading.Lock(), []

    def work(thing: int) -> int:
        with lock:
            assert set(before[thing]) <= set(done)
            done.append(thing)
        return thing

    assert sorted(in_dependency_order(before, work, at_once=3)) == [1, 2, 3, 4, 5]


def test_a_ring_is_broken_at_its_first_and_the_rest_follows() -> None:
    done = list(in_dependency_order({7: (9,), 8: (7,), 9: (8,)}, lambda thing: thing, at_once=2))

    assert done == [7, 8, 9]


def test_an_error_is_raised_and_nothing_new_begins() -> None:
    begun: list[int] = []

    def work(thing: int) -> None:
        begun.append(thing)
        raise OSError(thing)

    with pytest.raises(OSError, match="1"):
        list(in_dependency_order({1: (), 2: (1,)}, work, at_once=2))
    assert begun == [1]


def test_each_job_is_a_query_or_has_a_standing_task() -> None:
    feed = ResolvedAsset(
        asset_id=2,
        kind=AssetKind.INDEX_FEED,
        physical_name="f",
        fingerprint=b"f" * 32,
        spec=FeedSpec(dataset="Orders", log=spark_jobs.log_of(spark_jobs.ORDERS)),
        needs=(),
    )
    webhook = WebhookEndpoint(webhook="w", endpoint="e")
    history = spark_jobs.source_job(webhook, needs=(), trigger=Trigger.STAGE).asset

    assert task_of(feed) == "index_writer"
    assert task_of(history) == "stage_runner"
    assert task_of(asset(Trigger.MICRO_BATCH)) is None
    assert task_of(asset(Trigger.REAL_TIME)) is None

"""The loop of every child: what runs after any assignments, leases and failures."""

import itertools

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from narthex_spark_apps.supervision.runner import Inbox, Progress
from narthex_spark_apps.supervision.runner.loop import REPORT_EVERY_S, RESTARTS
from narthex_spark_apps.supervision.runner_messages import (
    STOP_WITHIN_S,
    DesiredAssignments,
    Report,
    RunningJobs,
    ShardId,
    render_desired,
    render_lease,
)
from tests.spark_apps.supervision.runner.memory_job_carrier import (
    OF_SHARD,
    TOPIC,
    MemoryCarrier,
    Process,
    Store,
    assignment,
)


@pytest.fixture
def process() -> Process:
    """Return a child with ten rows before its jobs."""
    return Process(MemoryCarrier(Store(end=10)))


def test_an_assigned_job_runs_and_an_unassigned_one_stops(process: Process) -> None:
    process.assign(assignment(1), assignment(2))
    both = process.running
    process.assign(assignment(2))

    assert (both, process.running) == ({(1, 1), (2, 1)}, {(2, 1)})
    assert process.report()[0] == RunningJobs(turn=2, shards=(ShardId(2),))


def test_shards_of_one_job_run_and_stop_on_their_own(process: Process) -> None:
    first, second = (assignment(1, shard=shard, shards=2) for shard in (0, 1))
    process.assign(first, second)
    both = process.running
    process.assign(assignment(1, shard=1, shards=2, epoch=2))

    assert both == {(1, 1), (1 + OF_SHARD, 1)}
    assert process.running == {(1 + OF_SHARD, 2)}
    jobs, reports = process.report()
    assert jobs == RunningJobs(turn=2, shards=(ShardId(1, 1),))
    assert {number: report.shard for number, report in reports.items()} == {1 + OF_SHARD: 1}


def test_a_shard_is_caught_up_once_it_has_read_its_own_partitions() -> None:
    shard = assignment(1, shard=1, shards=2)
    progress = Progress(
        topics=(TOPIC,), ends=Store(end=5), reads=shard.reads, known=True, is_running=True
    )

    assert (progress.behind(), progress.report(shard).phase) == (0, "caught_up")


def test_a_newer_generation_keeps_the_run_and_is_reported(process: Process) -> None:
    process.assign(assignment(1))
    before = process.report()[1][1]
    process.assign(assignment(1, generation=2))
    after = process.report()[1][1]

    assert process.carrier.starts == [(1, 1)]
    assert (before.generation, after.generation) == (1, 2)


def test_a_newer_epoch_is_a_new_run_once_the_earlier_one_is_over(process: Process) -> None:
    process.carrier.is_slow = True
    process.assign(assignment(1))
    process.assign(assignment(1, epoch=2))
    process.work(turns=3)
    waiting = process.running, process.report()
    process.carrier.finish()
    process.work()

    assert waiting[0] == {(1, 1)}
    assert waiting[1][0].shards == (ShardId(1),)
    assert (waiting[1][1][1].epoch, waiting[1][1][1].phase) == (2, "starting")
    assert process.running == {(1, 2)}


def test_an_epoch_that_is_passed_over_while_a_run_ends_never_starts(process: Process) -> None:
    process.carrier.is_slow = True
    for epoch in (1, 2, 3):
        process.assign(assignment(1, epoch=epoch))
    process.carrier.finish()
    process.work()

    assert process.carrier.starts == [(1, 1), (1, 3)]


def test_a_job_that_is_draining_is_reported_until_it_has_ended(process: Process) -> None:
    process.carrier.is_slow = True
    process.assign(assignment(1))
    process.work(turns=3)
    process.assign()
    draining = process.report()
    process.carrier.finish()
    process.work()

    assert draining == (RunningJobs(turn=2, shards=(ShardId(1),)), {})
    assert process.report()[0].shards == ()


def test_a_run_writes_its_pending_rows_when_it_stops(process: Process) -> None:
    process.assign(assignment(1))
    process.work(turns=3)
    written = list(process.carrier.store.rows[1])
    process.assign()

    assert process.carrier.store.rows[1] == [*written, written[-1] + 1]


def test_a_failing_job_restarts_with_backoff_and_others_continue(
    process: Process,
) -> None:
    process.carrier.fails = {1}
    process.assign(assignment(1), assignment(2))
    failed_at = [process.now_s]
    while len(failed_at) < 9:
        before = len(process.carrier.starts)
        process.work()
        if len(process.carrier.starts) > before:
            failed_at.append(process.now_s)
    report = process.report()[1]

    pauses = [b - a for a, b in itertools.pairwise(failed_at)]
    expected = [min(RESTARTS.greatest_s, RESTARTS.first_s * 2**n) for n in range(len(pauses))]
    assert pauses == pytest.approx(expected, abs=0.2)
    assert (report[1].phase, report[1].progress["restarts"]) == ("failed", 9)
    assert "OutOfOrderError" in str(report[1].progress["error"])
    assert (report[2].phase, report[2].progress["behind"]) == ("caught_up", 0)


def test_a_run_that_ends_without_an_error_is_replaced_at_once(process: Process) -> None:
    process.carrier.store.end = 3
    process.assign(assignment(1))
    process.work(turns=2)
    process.carrier.outdated = {1}
    process.work(turns=2, each_s=0.0)
    starts = list(process.carrier.starts)
    process.work(turns=2)
    report = process.report()[1][1]

    assert starts == [(1, 1), (1, 1)]
    assert process.carrier.doubled == []
    assert process.carrier.store.rows[1] == [0, 1, 2]
    assert report.phase == "caught_up"
    assert (report.progress["restarts"], report.progress["error"]) == (0, None)


def test_a_job_that_ran_long_starts_again_soon(process: Process) -> None:
    process.carrier.fails = {1}
    process.assign(assignment(1))
    process.work(turns=1000)
    process.carrier.fails = set()
    process.work(turns=1000)
    caught_up = process.report()[1][1]
    process.carrier.fails = {1}
    process.work()
    starts = len(process.carrier.starts)
    process.work(turns=12)

    assert (caught_up.phase, caught_up.progress["error"]) == ("caught_up", None)
    assert len(process.carrier.starts) > starts


def test_a_job_whose_progress_cannot_be_read_fails_alone_and_recovers(process: Process) -> None:
    process.carrier.unobserved = {1}
    process.assign(assignment(1), assignment(2))

    running = process.running
    _, reports = process.report()
    process.carrier.unobserved = set()
    process.work(turns=20, each_s=1.0)

    assert "OutOfOrderError" in str(reports[1].progress["error"])
    assert reports[2].progress["error"] is None
    assert running == {(2, 1)}
    assert process.running == {(1, 1), (2, 1)}


def test_a_job_that_cannot_start_fails_alone_and_recovers(process: Process) -> None:
    process.carrier.refuses = {1}
    process.assign(assignment(1), assignment(2))
    process.work(turns=3)
    failed = process.report()[1]
    process.carrier.refuses = set()
    process.work(turns=30)

    assert (failed[1].phase, failed[2].phase) == ("failed", "running")
    assert process.report()[1][1].phase == "caught_up"


def test_a_job_that_another_process_runs_fails_for_good_under_its_epoch(process: Process) -> None:
    process.assign(assignment(1))
    process.work(turns=2)
    process.carrier.store.epochs[1] = 5
    process.work(turns=1000)
    refused = process.report()[1][1]
    process.assign(assignment(1, epoch=6))
    process.work(turns=30)

    assert refused.phase == "failed"
    assert process.carrier.starts == [(1, 1), (1, 6)]
    assert process.report()[1][1].phase == "caught_up"


def test_an_unexpected_error_is_logged_with_its_traceback(process: Process) -> None:
    process.carrier.fails = {1}
    with structlog.testing.capture_logs() as expected:
        process.assign(assignment(1))
    object.__setattr__(process.carrier, "fails", None)
    with structlog.testing.capture_logs() as unexpected:
        process.assign(assignment(2))

    assert [(line["event"], line["exc_info"]) for line in expected[-1:]] == [("job_failed", None)]
    assert isinstance(unexpected[-1]["exc_info"], TypeError)


def test_the_running_jobs_are_reported_first_and_then_each_job(process: Process) -> None:
    process.assign(assignment(2), assignment(1))
    process.sent.clear()
    process.work(turns=2, each_s=REPORT_EVERY_S)

    kinds = [type(message) for message in process.sent]
    assert kinds == [RunningJobs, Report, Report] * 2


def test_a_report_has_offsets_and_what_is_unread(process: Process) -> None:
    process.assign(assignment(1))
    process.work(turns=4)
    running = process.report()[1][1]
    process.work(turns=20)
    caught_up = process.report()[1][1]

    assert (running.phase, running.progress["behind"]) == ("running", 6)
    assert (caught_up.phase, caught_up.progress["offsets"]) == ("caught_up", {TOPIC: {"0": 10}})
    assert (caught_up.lag_ms, caught_up.progress["restarts"]) == (0, 0)


def test_jobs_stop_when_the_lease_ends_and_start_when_it_is_renewed(process: Process) -> None:
    inbox = Inbox(clock=lambda: process.now_s)
    inbox.take(render_desired(DesiredAssignments(assignments=(assignment(1),), turn=7)))
    inbox.take(render_lease(since=process.now_s, lasts_s=5))
    process.loop.turn(inbox.newest(wait_s=0))
    leased = process.running
    process.now_s += 6
    stuck = inbox.is_stuck()
    process.loop.turn(inbox.newest(wait_s=0))
    expired = process.running
    inbox.take(render_lease(since=process.now_s, lasts_s=5))
    process.loop.turn(inbox.newest(wait_s=0))

    assert (leased, stuck, expired, process.running) == ({(1, 1)}, False, set(), {(1, 1)})


def test_a_child_that_does_not_stop_after_its_lease_is_stuck(process: Process) -> None:
    inbox = Inbox(clock=lambda: process.now_s)
    inbox.take(render_desired(DesiredAssignments(assignments=(assignment(1),), turn=7)))
    process.loop.turn(inbox.newest(wait_s=0))
    inbox.take(render_lease(since=process.now_s, lasts_s=-1))
    at_once = inbox.is_stuck()
    process.now_s += STOP_WITHIN_S + 1

    assert (at_once, inbox.is_stuck()) == (False, True)
    process.loop.turn(inbox.newest(wait_s=0))
    assert not inbox.is_stuck()


def test_a_runner_on_another_machine_ends_some_seconds_after_its_leases_also_without_work() -> None:
    now_s = [1000.0]
    inbox = Inbox(clock=lambda: now_s[0], ends_with_lease=True)
    inbox.take(render_lease(since=1000.0, lasts_s=5.0))
    stuck: list[bool] = []
    for now_s[0] in (1004.9, 1005.0, 1005.0 + STOP_WITHIN_S, 1005.1 + STOP_WITHIN_S):
        stuck.append(inbox.is_stuck())

    assert stuck == [False, False, False, True]


def test_of_leases_that_are_read_late_the_one_that_lasts_longest_counts() -> None:
    inbox = Inbox(clock=lambda: 1000.0)
    inbox.take(render_lease(since=890.0, lasts_s=10.0))
    inbox.take(render_lease(since=990.0, lasts_s=610.0))
    inbox.take(render_lease(since=994.0, lasts_s=600.0))

    assert inbox.leased_until == 1600.0
    assert not inbox.is_stuck()
    assert inbox.newest(wait_s=0) is None


def test_an_expired_lease_stays_expired_until_a_later_one_is_read() -> None:
    inbox = Inbox(clock=lambda: 1000.0)
    inbox.take(render_lease(since=890.0, lasts_s=10.0))
    inbox.is_stuck()
    stopped = inbox.newest(wait_s=0)
    inbox.take(render_lease(since=890.0, lasts_s=109.0))

    assert stopped is not None
    assert inbox.newest(wait_s=0) is None


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("assign"),
            st.dictionaries(
                st.integers(1, 3), st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=3
            ),
        ),
        st.tuples(st.sampled_from(["fails", "refuses"]), st.sets(st.integers(1, 3))),
        st.tuples(st.sampled_from(["work", "slow", "finish"]), st.none()),
    ),
    max_size=30,
)


@given(steps)
def test_after_any_assignments_exactly_the_desired_jobs_run(
    steps: list[tuple[str, object]],
) -> None:
    process = Process(MemoryCarrier(Store(end=10)))
    desired: dict[int, tuple[int, int]] = {}
    for step, given_ in steps:
        match step, given_:
            case "assign", dict():
                desired = given_
                process.assign(
                    *(assignment(n, epoch=e, generation=g) for n, (e, g) in desired.items())
                )
            case "fails", set():
                process.carrier.fails = given_
            case "refuses", set():
                process.carrier.refuses = given_
            case "work", _:
                process.work()
            case "slow", _:
                process.carrier.is_slow = True
            case _:
                process.carrier.finish()
        assert process.carrier.doubled == []

    process.carrier.fails = process.carrier.refuses = set()
    process.carrier.is_slow = False
    process.carrier.finish()
    process.work(turns=5, each_s=RESTARTS.greatest_s)
    jobs, reports = process.report()

    epochs = {asset_id: epoch for asset_id, (epoch, _) in desired.items()}
    fenced = {n for n, epoch in epochs.items() if epoch < process.carrier.store.epochs.get(n, 0)}
    assert process.running == {(n, epoch) for n, epoch in epochs.items() if n not in fenced}
    assert {n: (r.epoch, r.generation) for n, r in reports.items()} == desired
    assert jobs.shards == tuple(map(ShardId, sorted(desired)))
    assert all(reports[n].phase == "failed" for n in fenced)

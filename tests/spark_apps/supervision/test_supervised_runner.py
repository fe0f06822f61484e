"""A runner is started, assigned, replaced and stopped, whatever it is."""

import queue

import pytest

from narthex._base import Backoff
from narthex_spark_apps.supervision import supervised_runner
from narthex_spark_apps.supervision.runner_messages import (
    Alive,
    DesiredAssignments,
    JvmMemory,
    OfflineRun,
    Report,
    RunningJobs,
    ShardId,
    lease_end,
    render_lease,
)
from narthex_spark_apps.supervision.supervised_runner import (
    OUTLIVES_LEASE_S,
    SupervisedRunner,
)
from tests.spark_apps.supervision.memory_instance import Instances, MemoryInstance, Time
from tests.spark_apps.supervision.runner.memory_job_carrier import assignment

WITHIN_S = 30.0


def runner(
    instances: Instances, *, lazy: bool = False, clock: Time | None = None
) -> SupervisedRunner:
    at_once = Backoff(first_s=1.0, greatest_s=8.0, clock=clock or Time(), random=lambda: 1.0)
    return SupervisedRunner("one", instances.start, lazy=lazy, restarts=at_once)


def desired(*assets: int) -> DesiredAssignments:
    return DesiredAssignments(assignments=tuple(assignment(asset) for asset in assets))


def reconcile_until_sent(one: SupervisedRunner, instance: MemoryInstance, lines: int) -> None:
    def is_sent() -> bool:
        one.reconcile()
        return len(instance.sent) >= lines

    assert Backoff(first_s=0.01, greatest_s=0.05).until(is_sent, within_s=WITHIN_S)


def wait_until_it_runs(one: SupervisedRunner, assets: set[int]) -> None:
    assert Backoff(first_s=0.01, greatest_s=0.05).until(
        lambda: one.runs() == set(map(ShardId, assets)), within_s=WITHIN_S
    )


def test_an_instance_gets_the_leases_and_the_newest_assignments() -> None:
    instances = Instances()
    one = runner(instances)
    one.reconcile()
    assert instances.all == []
    one.extend_lease(1005.0)
    one.assign(desired(1))
    one.assign(desired(1, 2))
    one.reconcile()
    (instance,) = instances.all
    before_the_heartbeat = list(instance.sent)
    instance.say(Alive(at=70.0))
    reconcile_until_sent(one, instance, 2)
    one.assign(desired(1, 2))
    one.extend_lease(1005.0)
    one.reconcile()

    assert before_the_heartbeat == []
    assert instance.turns == [(2, [1, 2])]
    assert instance.sent[0] == render_lease(since=70.0, lasts_s=5.0)
    assert len(instance.sent) == 2


def test_a_lease_lasts_from_the_receipt_of_the_newest_heartbeat_by_the_clock_of_the_instance() -> (
    None
):
    clock, instances = Time(), Instances()
    one = runner(instances, clock=clock)
    one.extend_lease(1012.0)
    one.assign(desired())
    one.reconcile()
    (instance,) = instances.all
    instance.say(Alive(at=-3.0))
    reconcile_until_sent(one, instance, 2)
    clock.now_s += 5.0
    one.extend_lease(1017.0)

    # The instance may have sent its heartbeat long before, so this is never too late for it.
    assert lease_end(instance.sent[0]) == 9.0
    assert lease_end(instance.sent[2]) == 14.0


def test_a_lazy_runner_starts_with_its_first_work() -> None:
    instances = Instances()
    one = runner(instances, lazy=True)
    one.assign(desired())
    one.reconcile()
    idle = len(instances.all)
    query = OfflineRun(request_id="r", epoch=1, request=None)
    one.assign(DesiredAssignments(assignments=(), offline=(query,)))
    one.reconcile()

    assert (idle, len(instances.all), one.is_up) == (0, 1, True)


def test_the_running_jobs_are_unknown_until_the_newest_set_is_adopted() -> None:
    instances = Instances()
    one = runner(instances)
    one.assign(desired(1))
    assert one.runs() == frozenset()
    one.reconcile()
    assert (one.runs(), one.is_up) == (None, False)
    instances.all[0].say(RunningJobs(turn=1, shards=(ShardId(1),)))
    wait_until_it_runs(one, {1})
    one.assign(desired(2))

    assert one.runs() is None


def test_reports_are_returned_once_and_heartbeats_and_unknown_lines_are_not_reports() -> None:
    instances = Instances()
    one = runner(instances)
    one.assign(desired(1))
    one.reconcile()
    report = Report(asset_id=1, epoch=1, generation=1, phase="running")
    instances.all[0].say(Alive(at=1.0))
    instances.all[0].say_line("not a message")
    instances.all[0].say(report)
    instances.all[0].say(RunningJobs(turn=1, shards=(ShardId(1),)))
    wait_until_it_runs(one, {1})

    assert (one.reports(), one.reports()) == ([report], [])


def test_a_dead_instance_is_killed_and_replaced_after_a_delay_that_grows() -> None:
    clock = Time()
    instances = Instances()
    one = runner(instances, clock=clock)
    one.extend_lease(1005.0)
    one.assign(desired(1))
    one.reconcile()
    for delay_s, number in ((1.0, 2), (2.0, 3)):
        instances.all[-1].die("ended by SIGSEGV")
        one.reconcile()
        assert (instances.all[-1].killed, one.runs()) == (1, frozenset())
        clock.now_s += delay_s - 0.1
        one.reconcile()
        assert len(instances.all) == number - 1
        clock.now_s += 0.2
        one.reconcile()
        assert len(instances.all) == number

    assert one.restarts == 2
    instances.all[-1].say(Alive(at=0.0))
    reconcile_until_sent(one, instances.all[-1], 2)
    assert instances.all[-1].turns == [(1, [1])]


@pytest.mark.parametrize("is_gone_at_s", [3.0, None])
def test_an_instance_that_may_still_work_has_no_successor_until_it_is_gone_or_its_leases_are_over(
    is_gone_at_s: float | None,
) -> None:
    clock, instances = Time(), Instances()
    one = runner(instances, clock=clock)
    one.extend_lease(1005.0)
    one.assign(desired(1))
    one.reconcile()
    (first,) = instances.all
    first.is_gone = False
    first.die("unreachable")
    one.reconcile()
    one.extend_lease(1010.0)
    started_s: list[float] = []
    for tenth in range(300):
        clock.now_s = 1000.0 + tenth / 10
        first.is_gone = is_gone_at_s is not None and clock.now_s >= 1000.0 + is_gone_at_s
        one.reconcile()
        started_s += [clock.now_s - 1000.0] * (len(instances.all) - 1 - len(started_s))

    # The lease that was extended after its end was never sent to it.
    assert started_s == pytest.approx([is_gone_at_s or 5.0 + OUTLIVES_LEASE_S])


def test_an_instance_without_heartbeats_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_runner, "SILENT_S", -1.0)
    monkeypatch.setattr(supervised_runner, "START_WITHIN_S", -2.0)
    instances = Instances()
    one = runner(instances)
    one.assign(desired(1))
    one.reconcile()
    one.reconcile()

    assert instances.all[0].killed > 0
    assert one.restarts == 1


def memory(*, code_cache: int) -> JvmMemory:
    return JvmMemory(
        code_cache=code_cache, code_cache_limit=1000, heap=1, heap_limit=2, metaspace=3
    )


def wait_for_memory(one: SupervisedRunner, *, code_cache: int) -> None:
    assert Backoff(first_s=0.01, greatest_s=0.05).until(
        lambda: one.memory == memory(code_cache=code_cache), within_s=WITHIN_S
    )


def test_an_instance_whose_code_cache_is_nearly_full_is_drained_and_then_replaced() -> None:
    clock = Time()
    instances = Instances()
    one = runner(instances, clock=clock)
    one.assign(desired(1))
    one.reconcile()
    (first,) = instances.all
    first.say(RunningJobs(turn=1, shards=(ShardId(1),)))
    first.say(memory(code_cache=849))
    wait_for_memory(one, code_cache=849)
    one.reconcile()
    assert first.turns == [(1, [1])]

    first.say(memory(code_cache=850))
    wait_for_memory(one, code_cache=850)
    one.reconcile()
    one.assign(desired(1, 2))
    one.reconcile()
    ((_, assigned), (turn, drained)) = first.turns
    assert (assigned, drained, first.killed) == ([1], [], 0)
    assert one.runs() is None

    first.say(memory(code_cache=700))
    wait_for_memory(one, code_cache=700)

    def is_ended() -> bool:
        one.reconcile()
        return first.killed > 0

    first.say(RunningJobs(turn=turn, shards=()))
    assert Backoff(first_s=0.01, greatest_s=0.05).until(is_ended, within_s=WITHIN_S)
    clock.now_s += 10
    one.reconcile()

    assert (len(instances.all), one.restarts, one.memory) == (2, 1, None)
    assert instances.all[1].turns == [(2, [1, 2])]


def test_an_instance_that_does_not_drain_is_replaced_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervised_runner, "DRAIN_WITHIN_S", -1.0)
    instances = Instances()
    one = runner(instances)
    one.assign(desired(1))
    one.reconcile()
    instances.all[0].say(memory(code_cache=999))
    wait_for_memory(one, code_cache=999)
    one.reconcile()

    assert instances.all[0].killed > 0
    assert one.restarts == 1


def test_a_message_of_a_replaced_instance_is_ignored() -> None:
    clock = Time()
    instances = Instances()
    one = runner(instances, clock=clock)
    one.assign(desired(1))
    one.reconcile()
    first = instances.all[0]
    first.is_running = False
    one.reconcile()
    clock.now_s += 10
    one.reconcile()
    first._messages = queue.SimpleQueue()  # noqa: SLF001
    first.say(RunningJobs(turn=1, shards=(ShardId(9),)))
    instances.all[1].say(RunningJobs(turn=1, shards=(ShardId(1),)))
    wait_until_it_runs(one, {1})

    assert one.runs() == {ShardId(1)}


def test_a_stopped_runner_runs_nothing() -> None:
    instances = Instances()
    one = runner(instances)
    one.assign(desired(1))
    one.reconcile()
    one.stop(within_s=1.0)
    one.stop(within_s=1.0)

    assert (instances.all[0].killed, one.runs()) == (1, frozenset())

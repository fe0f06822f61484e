"""Slots, reports, bounded runs and offline queries: who may write, until when."""

from uuid import UUID

import pytest

from narthex_ledger import (
    AuditView,
    Fenced,
    LeaseHeld,
    LedgerRefused,
    NotPinned,
    NotReady,
    OfflineState,
    Phase,
    ShardReport,
)
from tests.ledger.world import FLIGHTS, LATER, ORDERS, World, blueprint, webhook_dataset

pytestmark = pytest.mark.postgres


def test_a_slot_has_one_holder_and_a_growing_epoch(world: World) -> None:
    mine = world.ledger.claim_slots("engine-1", range(3))
    assert world.ledger.claim_slots("engine-1", range(3)) == mine
    assert [lease.slot for lease in world.ledger.claim_slots("engine-2", range(4))] == [3]
    assert world.ledger.renew_slots("engine-1", mine) == mine

    later = world.at(LATER)
    assert later.renew_slots("engine-1", mine) == ()
    taken = later.claim_slots("engine-2", range(3))
    assert [lease.epoch for lease in taken] == [lease.epoch + 1 for lease in mine]
    assert world.ledger.renew_slots("engine-1", mine) == ()
    world.ledger.release_slots("engine-1", mine)
    assert later.renew_slots("engine-2", taken) == taken


def test_an_expired_lease_won_back_has_a_new_epoch(world: World) -> None:
    (mine,) = world.ledger.claim_slots("engine-1", [0])

    (again,) = world.at(LATER).claim_slots("engine-1", [0])

    assert again.epoch == mine.epoch + 1


def test_a_lease_is_renewed_only_by_its_epoch(world: World) -> None:
    (mine,) = world.ledger.claim_slots("engine-1", [0])
    later = world.at(LATER)
    (again,) = later.claim_slots("engine-1", [0])

    assert later.renew_slots("engine-1", [mine]) == ()
    assert later.renew_slots("engine-1", [again]) == (again,)


def test_engines_alive_are_known(world: World) -> None:
    world.ledger.heartbeat("engine-1", weight=2.0)
    world.ledger.heartbeat("engine-1", weight=3.0)

    assert world.ledger.engines() == {"engine-1": 3.0}
    assert world.at(LATER).engines() == {}


def test_an_engine_that_retires_frees_its_slots_at_once(world: World) -> None:
    world.ledger.heartbeat("engine-1")
    world.ledger.heartbeat("engine-2")
    mine = world.ledger.claim_slots("engine-1", range(2))
    world.ledger.claim_slots("engine-2", [2])
    assert [slot.owner for slot in world.ledger.slots()][:4] == [
        "engine-1",
        "engine-1",
        "engine-2",
        None,
    ]

    world.ledger.retire_engine("engine-1")

    assert world.ledger.engines() == {"engine-2": 1.0}
    assert [slot.owner for slot in world.ledger.slots()][:3] == [None, None, "engine-2"]
    assert world.ledger.renew_slots("engine-1", mine) == ()
    (taken, _) = world.ledger.claim_slots("engine-3", range(2))
    assert taken.epoch == mine[0].epoch + 1
    assert [slot.owner for slot in world.at(LATER).slots()][:3] == [None, None, None]


def test_a_report_with_an_old_epoch_is_refused(world: World) -> None:
    world.committed(world.request(1), blueprint(ORDERS))
    (job, *_) = world.ledger.jobs()
    slot = job.shards[0].slot
    (lease,) = world.ledger.claim_slots("engine-1", [slot])
    report = ShardReport(
        asset_id=job.asset.asset_id, generation=1, epoch=lease.epoch, phase=Phase.RUNNING, lag_ms=9
    )
    assert world.ledger.report([report]) == ()

    world.at(LATER).claim_slots("engine-2", [slot])

    assert world.ledger.report([report]) == (report,)
    seen = {j.asset.asset_id: j for j in world.ledger.jobs()}[job.asset.asset_id].shards[0]
    assert (seen.phase, seen.lag_ms, seen.seen_epoch) == (Phase.RUNNING, 9, lease.epoch)


def test_the_registry_version_grows_with_each_change_of_jobs(world: World) -> None:
    before = world.ledger.registry_version()
    commit_id, fence = world.committed(world.request(1), blueprint(ORDERS))
    committed = world.ledger.registry_version()
    world.ledger.start_jobs(commit_id, fence)
    started = world.ledger.registry_version()

    assert before < committed < started
    assert world.ledger.start_jobs(commit_id, fence) == ()
    assert world.ledger.registry_version() == started


def test_jobs_start_after_their_backfill_and_bounded_ones_never(world: World) -> None:
    commit_id, fence = world.committed(world.request(1), blueprint(ORDERS, FLIGHTS))
    with pytest.raises(NotReady):
        world.ledger.start_jobs(commit_id, fence)

    world.backfill(commit_id)
    world.ledger.start_jobs(commit_id, fence)

    desired = {
        f"{j.asset.kind.value} {j.asset.spec.dataset}": j.desired for j in world.ledger.jobs()
    }
    assert desired == {
        "stream_job orders": "running",
        "stream_job flights": "stopped",
        "index_feed orders": "running",
        "index_feed flights": "running",
    }
    world.catch_up()
    assert world.ledger.readiness(commit_id).ready


def test_a_backfill_is_lent_to_one_run(world: World) -> None:
    commit_id, _ = world.committed(world.request(1), blueprint(FLIGHTS))
    (job,) = [j.asset.asset_id for j in world.ledger.jobs() if j.needs_backfill]

    first = world.ledger.claim_job_for_backfill(commit_id, job)
    again = world.ledger.claim_job_for_backfill(commit_id, job)
    assert first is not None
    assert again == first + 1
    with pytest.raises(Fenced):
        world.ledger.report_backfill(job, first, progress={"rows": 1})
    world.ledger.report_backfill(job, again, progress={"rows": 2})
    world.ledger.finish_backfill(job, again, offsets={"t": {"0": 5}})
    world.ledger.finish_backfill(job, again, offsets={"t": {"0": 5}})

    assert world.ledger.claim_job_for_backfill(commit_id, job) is None
    (shard,) = {j.asset.asset_id: j for j in world.ledger.jobs()}[job].shards
    assert shard.backfill == {"done": True, "offsets": {"t": {"0": 5}}}


def test_a_backfill_that_failed_says_why_until_it_runs_again(world: World) -> None:
    commit_id, _ = world.committed(world.request(1), blueprint(FLIGHTS))
    (job,) = [j.asset.asset_id for j in world.ledger.jobs() if j.needs_backfill]
    first = world.ledger.claim_job_for_backfill(commit_id, job)
    assert first is not None

    world.ledger.release_backfill(job, first, error="`x.csv` is no file")

    (waiting,) = [w for w in world.ledger.readiness(commit_id).waiting_for if w.asset_id == job]
    assert waiting.error == "`x.csv` is no file"
    assert waiting.why == "its backfill failed: `x.csv` is no file"
    again = world.ledger.claim_job_for_backfill(commit_id, job)
    assert again is not None
    world.ledger.release_backfill(job, first, error="of an older run")
    world.ledger.report_backfill(job, again, progress={"rows": 1})
    (waiting,) = [w for w in world.ledger.readiness(commit_id).waiting_for if w.asset_id == job]
    assert (waiting.why, waiting.error) == ("not backfilled", None)


def test_a_later_commit_goes_on_with_a_backfill_that_was_left(world: World) -> None:
    first, _ = world.committed(world.request(1), blueprint(FLIGHTS))
    (job,) = [j.asset.asset_id for j in world.ledger.jobs() if j.needs_backfill]
    world.ledger.claim_job_for_backfill(first, job)
    second, fence = world.claimed(world.request(2))
    plan = world.plan(second, fence, blueprint(FLIGHTS, ORDERS))
    assert [a.label for a in plan.backfill] == ["stream_job flights"]
    world.create(second, fence)
    world.ledger.ready(second, fence)
    world.ledger.commit_point(second, fence)

    with pytest.raises(LeaseHeld):
        world.ledger.claim_job_for_backfill(second, job)
    assert world.at(LATER).claim_job_for_backfill(second, job) == 2


def test_a_backfill_follows_the_commit_point(world: World) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(FLIGHTS))
    world.create(commit_id, fence)
    (job,) = [j.asset.asset_id for j in world.ledger.jobs() if j.needs_backfill]

    with pytest.raises(LedgerRefused):
        world.ledger.claim_job_for_backfill(commit_id, job)


def test_an_offline_query_is_run_by_one_engine_and_holds_what_it_reads(world: World) -> None:
    commit_id, _ = world.serving(world.request(1), blueprint(ORDERS))
    request_id = UUID(int=77)
    for _ in range(2):
        queued = world.ledger.submit_offline(
            request_id, manifest_id=commit_id, request={"spine": "x"}, actor="ada"
        )
        assert queued.state is OfflineState.QUEUED

    mine = world.ledger.claim_offline("engine-1")
    assert mine is not None
    assert world.ledger.claim_offline("engine-2") is None
    later = world.at(LATER).claim_offline("engine-2")
    assert later is not None
    assert later.epoch == mine.epoch + 1
    with pytest.raises(Fenced):
        world.ledger.report_offline(request_id, mine.epoch, progress={"rows": 1})
    world.ledger.finish_offline(request_id, later.epoch, result={"path": "out"})
    world.ledger.finish_offline(request_id, later.epoch, result={"path": "out"})

    assert world.ledger.offline(request_id).result == {"path": "out"}
    assert world.ledger.cancel_offline(request_id) is OfflineState.DONE


def test_a_cancelled_offline_query_fences_its_engine(world: World) -> None:
    commit_id, _ = world.serving(world.request(1), blueprint(ORDERS))
    world.ledger.submit_offline(UUID(int=77), manifest_id=commit_id, request={}, actor="ada")
    running = world.ledger.claim_offline("engine-1")
    assert running is not None

    assert world.ledger.cancel_offline(UUID(int=77)) is OfflineState.CANCELLED

    with pytest.raises(Fenced):
        world.ledger.finish_offline(UUID(int=77), running.epoch, result={})


def test_an_offline_query_of_what_is_going_away_is_refused(world: World) -> None:
    commit_id, _ = world.planned(world.request(1), blueprint(ORDERS))
    world.ledger.abort(commit_id, error=None, actor="ada")

    with pytest.raises(NotPinned):
        world.ledger.submit_offline(UUID(int=7), manifest_id=commit_id, request={}, actor="ada")


def test_audits_and_tokens_are_kept(world: World) -> None:
    audit = AuditView(
        audit_id=UUID(int=5),
        dataset="orders",
        branch="dev",
        from_us=1,
        to_us=2,
        result={"ok": 1},
        success=True,
    )
    world.ledger.record_audit(audit)
    world.ledger.record_audit(audit)
    world.ledger.put_token("secret", name="ci", scopes=("commit",), lifetime=LATER / 2)

    (kept,) = world.ledger.audits(branches={"main", "dev"})
    assert world.ledger.audits() == (kept,)
    assert world.ledger.audits(branches={"main"}) == ()
    assert (kept.audit_id, kept.result, kept.success) == (UUID(int=5), {"ok": 1}, True)
    token = world.ledger.token("secret")
    assert token is not None
    assert token.scopes == ("commit",)
    assert world.at(LATER).token("secret") is None
    world.ledger.revoke_token("secret")
    assert world.ledger.token("secret") is None


def test_a_pipeline_on_an_old_topic_is_backfilled_and_one_on_a_new_one_is_not(world: World) -> None:
    users = webhook_dataset("users")
    world.serving(world.request(1), blueprint(users[:1]))

    commit_id, fence = world.claimed(world.request(2))
    plan = world.plan(commit_id, fence, blueprint(users, ORDERS))

    assert [a.label for a in plan.backfill] == ["stream_job users"]

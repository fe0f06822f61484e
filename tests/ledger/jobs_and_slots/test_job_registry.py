"""Slots, reports, bounded runs and offline queries: who may write, until when."""

import datetime as dt
from uuid import UUID

import pytest

from narthex._ir import AssetKind
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
    mine = world.ledger.slots.claim("engine-1", range(3))
    assert world.ledger.slots.claim("engine-1", range(3)) == mine
    assert [lease.slot for lease in world.ledger.slots.claim("engine-2", range(4))] == [3]
    assert world.ledger.slots.renew("engine-1", mine) == mine

    later = world.at(LATER)
    assert later.slots.renew("engine-1", mine) == ()
    taken = later.slots.claim("engine-2", range(3))
    assert [lease.epoch for lease in taken] == [lease.epoch + 1 for lease in mine]
    assert world.ledger.slots.renew("engine-1", mine) == ()
    world.ledger.slots.release("engine-1", mine)
    assert later.slots.renew("engine-2", taken) == taken


def test_an_expired_lease_won_back_has_a_new_epoch(world: World) -> None:
    (mine,) = world.ledger.slots.claim("engine-1", [0])

    (again,) = world.at(LATER).slots.claim("engine-1", [0])

    assert again.epoch == mine.epoch + 1


def test_a_lease_is_renewed_only_by_its_epoch(world: World) -> None:
    (mine,) = world.ledger.slots.claim("engine-1", [0])
    later = world.at(LATER)
    (again,) = later.slots.claim("engine-1", [0])

    assert later.slots.renew("engine-1", [mine]) == ()
    assert later.slots.renew("engine-1", [again]) == (again,)


def test_running_engines_are_listed(world: World) -> None:
    world.ledger.engines.heartbeat("engine-1", weight=2.0)
    world.ledger.engines.heartbeat("engine-1", weight=3.0)

    assert world.ledger.engines.alive() == {"engine-1": 3.0}
    assert world.at(LATER).engines.alive() == {}


def test_running_engines_report_of_themselves(world: World) -> None:
    world.ledger.engines.heartbeat("engine-1", info={"restarts": 1})
    world.ledger.engines.heartbeat("engine-2")

    assert world.ledger.engines.infos() == {"engine-1": {"restarts": 1}, "engine-2": None}
    assert world.at(LATER).engines.infos() == {}


def test_an_engine_that_retires_frees_its_slots_at_once(world: World) -> None:
    world.ledger.engines.heartbeat("engine-1")
    world.ledger.engines.heartbeat("engine-2")
    mine = world.ledger.slots.claim("engine-1", range(2))
    world.ledger.slots.claim("engine-2", [2])
    assert [slot.owner for slot in world.ledger.slots.all()][:4] == [
        "engine-1",
        "engine-1",
        "engine-2",
        None,
    ]

    world.ledger.engines.retire("engine-1")

    assert world.ledger.engines.alive() == {"engine-2": 1.0}
    assert [slot.owner for slot in world.ledger.slots.all()][:3] == [None, None, "engine-2"]
    assert world.ledger.slots.renew("engine-1", mine) == ()
    (taken, _) = world.ledger.slots.claim("engine-3", range(2))
    assert taken.epoch == mine[0].epoch + 1
    assert [slot.owner for slot in world.at(LATER).slots.all()][:3] == [None, None, None]


def test_a_report_with_an_old_epoch_is_refused(world: World) -> None:
    world.committed(world.request(1), blueprint(ORDERS))
    (job, *_) = world.ledger.jobs.all()
    slot = job.shards[0].slot
    (lease,) = world.ledger.slots.claim("engine-1", [slot])
    report = ShardReport(
        asset_id=job.asset.asset_id, generation=1, epoch=lease.epoch, phase=Phase.RUNNING, lag_ms=9
    )
    assert world.ledger.jobs.report([report]) == ()

    world.at(LATER).slots.claim("engine-2", [slot])

    assert world.ledger.jobs.report([report]) == (report,)
    seen = {j.asset.asset_id: j for j in world.ledger.jobs.all()}[job.asset.asset_id].shards[0]
    assert (seen.phase, seen.lag_ms, seen.seen_epoch) == (Phase.RUNNING, 9, lease.epoch)


def test_a_feed_has_a_shard_for_each_part_of_its_index(world: World) -> None:
    world.committed(world.request(1), blueprint(webhook_dataset("orders", 5)))

    by_kind = {job.asset.kind: job for job in world.ledger.jobs.all()}
    feed, source = by_kind[AssetKind.INDEX_FEED], by_kind[AssetKind.STREAM_JOB]
    assert [shard.shard for shard in feed.shards] == [0, 1, 2, 3, 4]
    assert len({shard.slot for shard in feed.shards}) > 1
    assert len(source.shards) == 1


def test_a_commit_waits_for_each_shard(world: World) -> None:
    commit_id, fence = world.committed(world.request(1), blueprint(webhook_dataset("orders", 3)))
    world.backfill(commit_id)
    world.ledger.jobs.start(commit_id, fence)
    leases = {lease.slot: lease.epoch for lease in world.catch_up()}
    assert world.ledger.promotions.readiness(commit_id).ready
    (feed,) = (j for j in world.ledger.jobs.all() if j.asset.kind is AssetKind.INDEX_FEED)
    late = feed.shards[1]

    world.ledger.jobs.report(
        [
            ShardReport(
                asset_id=feed.asset.asset_id,
                generation=feed.generation,
                epoch=leases[late.slot],
                shard=1,
                phase=Phase.RUNNING,
            )
        ]
    )

    (waiting,) = world.ledger.promotions.readiness(commit_id).waiting_for
    assert (waiting.why, waiting.phase) == ("shard 1 of 3: is running", Phase.RUNNING)


def test_the_registry_version_grows_with_each_change_of_jobs(world: World) -> None:
    before = world.ledger.jobs.registry_version()
    commit_id, fence = world.committed(world.request(1), blueprint(ORDERS))
    committed = world.ledger.jobs.registry_version()
    world.ledger.jobs.start(commit_id, fence)
    started = world.ledger.jobs.registry_version()

    assert before < committed < started
    assert world.ledger.jobs.start(commit_id, fence) == ()
    assert world.ledger.jobs.registry_version() == started


def test_jobs_start_after_their_backfill_and_bounded_ones_never(world: World) -> None:
    commit_id, fence = world.committed(world.request(1), blueprint(ORDERS, FLIGHTS))
    with pytest.raises(NotReady):
        world.ledger.jobs.start(commit_id, fence)

    world.backfill(commit_id)
    world.ledger.jobs.start(commit_id, fence)

    desired = {
        f"{j.asset.kind.value} {j.asset.spec.dataset}": j.desired for j in world.ledger.jobs.all()
    }
    assert desired == {
        "stream_job orders": "running",
        "stream_job flights": "stopped",
        "index_feed orders": "running",
        "index_feed flights": "running",
    }
    world.catch_up()
    assert world.ledger.promotions.readiness(commit_id).ready


def test_a_backfill_is_lent_to_one_run(world: World) -> None:
    commit_id, _ = world.committed(world.request(1), blueprint(FLIGHTS))
    (job,) = [j.asset.asset_id for j in world.ledger.jobs.all() if j.needs_backfill]

    first = world.ledger.backfills.claim(commit_id, job)
    again = world.ledger.backfills.claim(commit_id, job)
    assert first is not None
    assert again == first + 1
    with pytest.raises(Fenced):
        world.ledger.backfills.report(job, first, progress={"rows": 1})
    world.ledger.backfills.report(job, again, progress={"rows": 2})
    world.ledger.backfills.finish(job, again, offsets={"t": {"0": 5}})
    world.ledger.backfills.finish(job, again, offsets={"t": {"0": 5}})

    assert world.ledger.backfills.claim(commit_id, job) is None
    (shard,) = {j.asset.asset_id: j for j in world.ledger.jobs.all()}[job].shards
    assert shard.backfill == {"done": True, "offsets": {"t": {"0": 5}}, "rows": 0}


def test_a_failed_backfill_shows_its_error_until_it_runs_again(world: World) -> None:
    commit_id, _ = world.committed(world.request(1), blueprint(FLIGHTS))
    (job,) = [j.asset.asset_id for j in world.ledger.jobs.all() if j.needs_backfill]
    first = world.ledger.backfills.claim(commit_id, job)
    assert first is not None

    world.ledger.backfills.release(job, first, error="`x.csv` is not a file")

    (waiting,) = [
        w for w in world.ledger.promotions.readiness(commit_id).waiting_for if w.asset_id == job
    ]
    assert waiting.error == "`x.csv` is not a file"
    assert waiting.why == "its backfill failed: `x.csv` is not a file"
    again = world.ledger.backfills.claim(commit_id, job)
    assert again is not None
    world.ledger.backfills.release(job, first, error="of an older run")
    world.ledger.backfills.report(job, again, progress={"rows": 1})
    (waiting,) = [
        w for w in world.ledger.promotions.readiness(commit_id).waiting_for if w.asset_id == job
    ]
    assert (waiting.why, waiting.error) == ("not backfilled", None)


def test_a_backfill_that_is_released_twice_keeps_its_first_reason(world: World) -> None:
    commit_id, _ = world.committed(world.request(1), blueprint(FLIGHTS))
    (job,) = [j.asset.asset_id for j in world.ledger.jobs.all() if j.needs_backfill]
    epoch = world.ledger.backfills.claim(commit_id, job)
    assert epoch is not None

    world.ledger.backfills.release(job, epoch, error="`x.csv` is not a file")
    world.ledger.backfills.release(job, epoch, error="a repeated call")

    (waiting,) = [
        w for w in world.ledger.promotions.readiness(commit_id).waiting_for if w.asset_id == job
    ]
    assert waiting.error == "`x.csv` is not a file"


def test_a_later_commit_continues_an_abandoned_backfill(world: World) -> None:
    first, _ = world.committed(world.request(1), blueprint(FLIGHTS))
    (job,) = [j.asset.asset_id for j in world.ledger.jobs.all() if j.needs_backfill]
    world.ledger.backfills.claim(first, job)
    second, fence = world.claimed(world.request(2))
    plan = world.plan(second, fence, blueprint(FLIGHTS, ORDERS))
    assert [a.label for a in plan.backfill] == ["stream_job flights"]
    world.create(second, fence)
    world.ledger.commits.ready(second, fence)
    world.ledger.commits.commit_point(second, fence)

    with pytest.raises(LeaseHeld):
        world.ledger.backfills.claim(second, job)
    assert world.at(LATER).backfills.claim(second, job) == 2


def test_a_backfill_follows_the_commit_point(world: World) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(FLIGHTS))
    world.create(commit_id, fence)
    (job,) = [j.asset.asset_id for j in world.ledger.jobs.all() if j.needs_backfill]

    with pytest.raises(LedgerRefused):
        world.ledger.backfills.claim(commit_id, job)


def test_a_driver_carries_out_a_requested_backfill_once(world: World) -> None:
    commit_id, _ = world.committed(world.request(1), blueprint(FLIGHTS))
    runs = world.ledger.driver_backfills
    before, registry = runs.is_in_driver(commit_id), world.ledger.jobs.registry_version()
    runs.request(commit_id)
    runs.request(commit_id)
    requested = runs.is_in_driver(commit_id)

    claimed = [runs.claim("engine-1"), runs.claim("engine-2")]
    runs.extend(commit_id, "engine-1")
    with pytest.raises(Fenced):
        runs.extend(commit_id, "engine-2")
    with pytest.raises(Fenced):
        runs.end(commit_id, "engine-2")
    running = runs.is_in_driver(commit_id)
    runs.end(commit_id, "engine-1")
    runs.end(commit_id, "engine-1")

    assert world.ledger.jobs.registry_version() == registry + 1
    assert claimed == [commit_id, None]
    assert (before, requested, running, runs.is_in_driver(commit_id)) == (None, True, True, None)


def test_a_backfill_that_no_driver_begins_in_time_is_left_to_its_caller(world: World) -> None:
    commit_id, _ = world.committed(world.request(1), blueprint(FLIGHTS))
    world.ledger.driver_backfills.request(commit_id)
    later = world.at(LATER).driver_backfills

    assert later.claim("engine-1") is None
    assert later.is_in_driver(commit_id) is False
    later.request(commit_id)
    assert later.is_in_driver(commit_id) is False
    assert later.claim("engine-1") is None


def test_a_backfill_whose_driver_is_lost_is_left_to_its_caller(world: World) -> None:
    commit_id, _ = world.committed(world.request(1), blueprint(FLIGHTS))
    world.ledger.driver_backfills.request(commit_id)
    world.ledger.driver_backfills.claim("engine-1")
    later = world.at(LATER).driver_backfills

    assert later.claim("engine-2") is None
    assert later.is_in_driver(commit_id) is False
    with pytest.raises(Fenced):
        later.end(commit_id, "engine-1")


def test_a_backfill_that_failed_in_a_driver_is_left_to_its_caller(world: World) -> None:
    commit_id, fence = world.committed(world.request(1), blueprint(FLIGHTS))
    runs = world.ledger.driver_backfills
    runs.request(commit_id)
    runs.claim("engine-1")
    runs.end(commit_id, "engine-1", error="the driver has ended")
    failed = runs.is_in_driver(commit_id)
    world.backfill(commit_id)
    world.ledger.jobs.start(commit_id, fence)

    assert (failed, runs.is_in_driver(commit_id)) == (False, None)


def test_an_offline_query_is_run_by_one_engine_and_holds_what_it_reads(world: World) -> None:
    commit_id, _ = world.serving(world.request(1), blueprint(ORDERS))
    request_id = UUID(int=77)
    for _ in range(2):
        queued = world.ledger.offline_queries.submit(
            request_id, manifest_id=commit_id, request={"spine": "x"}, actor="ada"
        )
        assert queued.state is OfflineState.QUEUED

    mine = world.ledger.offline_queries.claim("engine-1")
    assert mine is not None
    assert world.ledger.offline_queries.claim("engine-2") is None
    later = world.at(LATER).offline_queries.claim("engine-2")
    assert later is not None
    assert later.epoch == mine.epoch + 1
    with pytest.raises(Fenced):
        world.ledger.offline_queries.report(request_id, mine.epoch, progress={"rows": 1})
    world.ledger.offline_queries.finish(request_id, later.epoch, result={"path": "out"})
    world.ledger.offline_queries.finish(request_id, later.epoch, result={"path": "out"})

    assert world.ledger.offline_queries.get(request_id).result == {"path": "out"}
    assert world.ledger.offline_queries.cancel(request_id) is OfflineState.DONE


def test_a_cancelled_offline_query_fences_its_engine(world: World) -> None:
    commit_id, _ = world.serving(world.request(1), blueprint(ORDERS))
    world.ledger.offline_queries.submit(
        UUID(int=77), manifest_id=commit_id, request={}, actor="ada"
    )
    running = world.ledger.offline_queries.claim("engine-1")
    assert running is not None

    assert world.ledger.offline_queries.cancel(UUID(int=77)) is OfflineState.CANCELLED

    with pytest.raises(Fenced):
        world.ledger.offline_queries.finish(UUID(int=77), running.epoch, result={})


def test_an_offline_query_is_not_taken_over_while_its_lease_is_extended(world: World) -> None:
    commit_id, _ = world.serving(world.request(1), blueprint(ORDERS))
    request_id = UUID(int=77)
    world.ledger.offline_queries.submit(request_id, manifest_id=commit_id, request={}, actor="ada")
    mine = world.ledger.offline_queries.claim("engine-1")
    assert mine is not None
    in_time, later, too_late = (world.at(dt.timedelta(seconds=s)) for s in (50, 100, 120))

    in_time.offline_queries.extend(request_id, mine.epoch)
    in_time.offline_queries.report(request_id, mine.epoch, progress={"rows": 1})

    assert later.offline_queries.claim("engine-2") is None
    taken = too_late.offline_queries.claim("engine-2")
    assert taken is not None
    with pytest.raises(Fenced):
        world.ledger.offline_queries.extend(request_id, mine.epoch)


def test_answers_are_kept_until_a_week_after_the_end(world: World) -> None:
    commit_id, _ = world.serving(world.request(1), blueprint(ORDERS))
    done, open_, unknown = UUID(int=77), UUID(int=78), UUID(int=79)
    for request_id in (done, open_):
        world.ledger.offline_queries.submit(
            request_id, manifest_id=commit_id, request={}, actor="ada"
        )
    world.ledger.offline_queries.cancel(done)
    ids = (done, open_, unknown)
    before, after = (world.at(dt.timedelta(days=days)) for days in (6, 8))

    assert before.offline_queries.kept(ids) == {done, open_}
    assert after.offline_queries.kept(ids) == {open_}


def test_an_offline_query_of_what_is_going_away_is_refused(world: World) -> None:
    commit_id, _ = world.planned(world.request(1), blueprint(ORDERS))
    world.ledger.commits.abort(commit_id, error=None, actor="ada")

    with pytest.raises(NotPinned):
        world.ledger.offline_queries.submit(
            UUID(int=7), manifest_id=commit_id, request={}, actor="ada"
        )


def test_audits_and_tokens_are_stored(world: World) -> None:
    audit = AuditView(
        audit_id=UUID(int=5),
        dataset="orders",
        branch="dev",
        from_us=1,
        to_us=2,
        result={"ok": 1},
        success=True,
    )
    world.ledger.audits.record(audit)
    world.ledger.audits.record(audit)
    world.ledger.tokens.put("secret", name="ci", scopes=("commit",), lifetime=LATER / 2)

    (kept,) = world.ledger.audits.newest(branches={"main", "dev"})
    assert world.ledger.audits.newest() == (kept,)
    assert world.ledger.audits.newest(branches={"main"}) == ()
    assert (kept.audit_id, kept.result, kept.success) == (UUID(int=5), {"ok": 1}, True)
    token = world.ledger.tokens.get("secret")
    assert token is not None
    assert token.scopes == ("commit",)
    assert world.at(LATER).tokens.get("secret") is None
    world.ledger.tokens.revoke("secret")
    assert world.ledger.tokens.get("secret") is None


def test_a_pipeline_on_an_old_topic_is_backfilled_and_one_on_a_new_one_is_not(world: World) -> None:
    users = webhook_dataset("users")
    world.serving(world.request(1), blueprint(users[:1]))

    commit_id, fence = world.claimed(world.request(2))
    plan = world.plan(commit_id, fence, blueprint(users, ORDERS))

    assert [a.label for a in plan.backfill] == ["stream_job users"]


def test_a_shown_job_has_the_checked_asset_of_a_manifest_in_memory(world: World) -> None:
    commit_id, _ = world.serving(world.request(1), blueprint(ORDERS, FLIGHTS))
    bound = world.ledger.manifests.get(commit_id).bindings.values()
    assets = {one.asset_id: one for one in bound}

    jobs = world.ledger.jobs.shown()

    assert jobs == world.ledger.jobs.all()
    assert all(job.asset is assets[job.asset.asset_id] for job in jobs)

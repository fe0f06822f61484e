"""A commit from its request to its readers, each transaction twice."""

import datetime as dt
from uuid import UUID

import attrs
import pytest

from narthex_ledger import (
    Accepted,
    AlreadyCommitted,
    AlreadyLive,
    AuditView,
    BackfillPolicy,
    BrokenConnection,
    CommitCancelled,
    CommitInProgress,
    CommitRejected,
    CommitState,
    Fenced,
    Go,
    IdempotencyKeyReused,
    LeaseHeld,
    Ledger,
    LedgerRefused,
    Moment,
    NotFound,
    NotReady,
    PromotionPolicy,
    PromotionState,
    QualityBroken,
    Replayed,
    Rules,
    Waiting,
    WrongState,
)
from tests.ledger.world import FLIGHTS, LATER, ORDERS, World, blueprint, name_of, webhook_dataset

pytestmark = pytest.mark.postgres


def test_a_request_is_accepted_once_however_often_it_comes(world: World) -> None:
    first = world.ledger.commits.accept(world.request(1))
    again = world.ledger.commits.accept(world.request(1))

    assert first == Accepted(commit_id=UUID(int=1))
    assert again == Replayed(commit_id=UUID(int=1), state=CommitState.QUEUED)


def test_a_key_with_another_request_is_refused(world: World) -> None:
    world.ledger.commits.accept(world.request(1, key="the-same-key"))

    with pytest.raises(IdempotencyKeyReused):
        world.ledger.commits.accept(world.request(2, key="the-same-key"))


def test_a_bundle_is_stored_by_content(world: World) -> None:
    world.ledger.commits.accept(world.request(1))

    sha256 = world.ledger.commits.get(UUID(int=1)).bundle_sha256
    assert world.ledger.bundles.get(sha256) == b"features"


def test_one_owner_drives_a_commit_until_its_lease_ends(world: World) -> None:
    commit_id, fence = world.claimed(world.request(1))

    assert world.ledger.commits.claim(commit_id, "executor-1") == fence
    with pytest.raises(LeaseHeld):
        world.ledger.commits.claim(commit_id, "executor-2")
    assert world.ledger.commits.claimable() == ()
    later = world.at(LATER)
    assert later.commits.claimable() == (commit_id,)
    assert later.commits.claim(commit_id, "executor-2") == fence + 1
    with pytest.raises(Fenced):
        world.ledger.commits.renew(commit_id, fence)


def test_a_released_commit_is_free_for_others(world: World) -> None:
    commit_id, fence = world.claimed(world.request(1))
    world.ledger.commits.renew(commit_id, fence)

    world.ledger.commits.release(commit_id, fence)

    assert world.ledger.commits.claim(commit_id, "executor-2") == fence + 1


def test_a_plan_reserves_everything_and_may_come_twice(world: World) -> None:
    commit_id, fence = world.claimed(world.request(1))

    plan = world.plan(commit_id, fence, blueprint(ORDERS))
    again = world.plan(commit_id, fence, blueprint(ORDERS))

    assert plan == again
    assert {a.label for a in plan.create} == {a.label for a in ORDERS}
    assert plan.share == plan.release == plan.backfill == ()
    assert set(plan.flip) == {path for a in ORDERS for path in a.paths}
    assert set(world.states(commit_id).values()) == {"planned"}
    view = world.ledger.commits.get(commit_id)
    assert view.state is CommitState.PLANNED
    assert view.plan_sha256 == plan.sha256
    assert all(found.refs == 1 for found in view.assets)


def test_a_preview_equals_the_plan_and_changes_nothing(world: World) -> None:
    previewed = world.ledger.commits.preview(
        world.request(1), blueprint=blueprint(ORDERS), name_of=name_of
    )

    assert world.ledger.commits.newest() == ()
    commit_id, fence = world.claimed(world.request(2, expected=previewed.sha256))
    assert world.plan(commit_id, fence, blueprint(ORDERS)) == previewed


def test_a_preview_is_possible_while_a_commit_is_in_flight(world: World) -> None:
    world.planned(world.request(1), blueprint(ORDERS))

    plan = world.ledger.commits.preview(
        world.request(2), blueprint=blueprint(ORDERS), name_of=name_of
    )

    assert plan.create == ()


def test_another_plan_than_the_expected_one_is_rejected_without_a_trace(world: World) -> None:
    commit_id, fence = world.claimed(world.request(1, expected=bytes(32)))

    with pytest.raises(CommitRejected, match="plan_changed"):
        world.plan(commit_id, fence, blueprint(ORDERS))

    view = world.ledger.commits.get(commit_id)
    assert view.state is CommitState.REJECTED
    assert view.assets == ()
    assert [e.transition for e in world.ledger.commits.events(commit_id)] == [
        "QUEUED",
        "claimed",
        "REJECTED",
    ]


def test_a_stale_base_is_rejected_if_it_was_pinned(world: World) -> None:
    world.committed(world.request(1), blueprint(ORDERS))
    commit_id, fence = world.claimed(world.request(2, base_seq=0))

    with pytest.raises(CommitRejected, match="stale_base"):
        world.plan(commit_id, fence, blueprint(ORDERS))


def test_an_unpinned_base_is_planned_on_the_present_head(world: World) -> None:
    world.ledger.commits.accept(world.request(2))
    world.committed(world.request(1), blueprint(ORDERS))

    fence = world.ledger.commits.claim(UUID(int=2), "executor-1")
    assert world.plan(UUID(int=2), fence, blueprint(ORDERS)).base_seq == 1


def test_a_commit_that_would_backfill_can_be_refused(world: World) -> None:
    commit_id, fence = world.claimed(world.request(1, backfill=BackfillPolicy.REFUSED))

    with pytest.raises(CommitRejected, match="would_backfill") as refused:
        world.plan(commit_id, fence, blueprint(FLIGHTS))
    assert refused.value.detail == ["stream_job flights"]


def test_a_branch_has_one_commit_in_flight(world: World) -> None:
    first, _ = world.planned(world.request(1), blueprint(ORDERS))
    second, fence = world.claimed(world.request(2))

    with pytest.raises(CommitInProgress) as refused:
        world.plan(second, fence, blueprint(ORDERS))

    assert refused.value.commit_id == first
    assert world.ledger.commits.get(second).state is CommitState.QUEUED


def test_an_asset_waits_for_its_needs(world: World) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))
    ids = {a.label: a.asset_id for a in world.ledger.commits.get(commit_id).assets}

    outcome = world.ledger.assets.create_row(ids["index_feed/orders"], commit_id, fence)

    assert isinstance(outcome, Waiting)
    assert set(outcome.needs) == {ids["kafka_topic/orders"], ids["index/orders"]}


def test_assets_are_listed_after_what_they_need(world: World) -> None:
    commit_id, _ = world.planned(world.request(1), blueprint(ORDERS, FLIGHTS))

    seen: set[int] = set()
    for found in world.ledger.commits.get(commit_id).assets:
        assert set(found.needs) <= seen
        seen.add(found.asset_id)


def test_creations_may_come_twice(world: World) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))
    ids = {a.label: a.asset_id for a in world.ledger.commits.get(commit_id).assets}
    log = ids["kafka_topic/orders"]

    first = world.ledger.assets.intend(log, commit_id, fence, call_timeout_s=5)
    again = world.ledger.assets.intend(log, commit_id, fence, call_timeout_s=5)
    world.ledger.assets.created(log, commit_id, fence, external_id="topic-7")
    world.ledger.assets.created(log, commit_id, fence, external_id="topic-7")

    assert isinstance(first, Go)
    assert isinstance(again, Go)
    assert (first.attempt, again.attempt) == (1, 2)
    done = world.ledger.assets.intend(log, commit_id, fence, call_timeout_s=5)
    assert done == AlreadyLive(asset_id=log, external_id="topic-7")


def test_an_asset_that_was_created_at_a_later_try_keeps_the_error_of_the_last(world: World) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))
    log = next(
        asset.asset_id
        for asset in world.ledger.commits.get(commit_id).assets
        if asset.label == "kafka_topic/orders"
    )

    world.ledger.assets.intend(log, commit_id, fence, call_timeout_s=5)
    world.ledger.assets.create_failed(log, commit_id, fence, error="no broker")
    world.ledger.assets.intend(log, commit_id, fence, call_timeout_s=5)
    world.ledger.assets.created(log, commit_id, fence, external_id="topic-7")

    shown = {asset.asset_id: asset for asset in world.ledger.commits.get(commit_id).assets}[log]
    assert (shown.state.value, shown.attempt, shown.last_error) == ("live", 2, "no broker")


def test_done_without_an_intent_is_refused(world: World) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))
    asset_id = world.ledger.commits.get(commit_id).assets[0].asset_id

    with pytest.raises(WrongState):
        world.ledger.assets.created(asset_id, commit_id, fence, external_id="x")


def test_a_zombie_executor_writes_nothing(world: World) -> None:
    commit_id, old = world.planned(world.request(1), blueprint(ORDERS))
    ids = {a.label: a.asset_id for a in world.ledger.commits.get(commit_id).assets}
    asset_id = ids["kafka_topic/orders_ingest"]
    world.ledger.assets.intend(asset_id, commit_id, old, call_timeout_s=5)
    world.at(LATER).commits.claim(commit_id, "executor-2")
    ledger = world.ledger

    for write in (
        lambda: ledger.commits.plan(commit_id, old, blueprint=blueprint(ORDERS), name_of=name_of),
        lambda: ledger.assets.intend(asset_id, commit_id, old, call_timeout_s=5),
        lambda: ledger.assets.created(asset_id, commit_id, old, external_id="x"),
        lambda: ledger.assets.create_row(asset_id, commit_id, old),
        lambda: ledger.commits.ready(commit_id, old),
        lambda: ledger.commits.commit_point(commit_id, old),
        lambda: ledger.assets.quarantine(asset_id, commit_id, old, difference="x"),
    ):
        with pytest.raises((Fenced, WrongState)):
            write()
    assert world.states(commit_id)["kafka_topic/orders_ingest"] == "creating"


def test_ready_needs_every_asset_live(world: World) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))

    with pytest.raises(NotReady):
        world.ledger.commits.ready(commit_id, fence)

    world.create(commit_id, fence)
    world.ledger.commits.ready(commit_id, fence)
    world.ledger.commits.ready(commit_id, fence)
    assert world.ledger.commits.get(commit_id).state is CommitState.READY


def test_the_commit_point_moves_the_head_and_not_the_readers(world: World) -> None:
    commit_id, fence = world.committed(world.request(1), blueprint(ORDERS))

    assert world.ledger.commits.commit_point(commit_id, fence) == 1
    branch = world.ledger.branches.get(world.tenant, "main")
    assert (branch.head_commit_id, branch.head_seq) == (commit_id, 1)
    assert (branch.serving_commit_id, branch.serving_seq) == (None, 0)
    assert world.ledger.manifests.serving(world.main) is None
    assert world.ledger.commits.get(commit_id).promotion is PromotionState.PENDING
    desired = {job.asset.kind.value: job.desired for job in world.ledger.jobs.all()}
    assert desired == {"stream_job": "stopped", "index_feed": "running"}


def test_a_cancel_before_the_commit_point_wins(world: World) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(commit_id, fence)
    world.ledger.commits.ready(commit_id, fence)

    assert world.ledger.commits.cancel(commit_id, actor="ada") is CommitState.READY

    with pytest.raises(CommitCancelled):
        world.ledger.commits.commit_point(commit_id, fence)


def test_a_cancel_after_the_commit_point_loses(world: World) -> None:
    commit_id, _ = world.committed(world.request(1), blueprint(ORDERS))

    with pytest.raises(AlreadyCommitted):
        world.ledger.commits.cancel(commit_id, actor="ada")
    with pytest.raises(AlreadyCommitted):
        world.ledger.commits.abort(commit_id, error="too late", actor="ada")


def test_an_actor_has_a_bounded_number_of_queued_commits(world: World) -> None:
    """Each round of the server's loop reads all commits that wait."""
    few = world.at(dt.timedelta(0), rules=Rules(most_queued_each=2)).commits
    few.accept(world.request(1))
    few.accept(world.request(2))

    with pytest.raises(LedgerRefused, match="`ada` has 2 commits that wait"):
        few.accept(world.request(3))

    assert isinstance(few.accept(world.request(2)), Replayed)
    few.accept(attrs.evolve(world.request(4), actor="ben"))
    few.cancel(UUID(int=1), actor="ada")
    few.accept(world.request(5))
    with pytest.raises(NotFound):
        few.get(UUID(int=3))


def test_a_queued_commit_is_cancelled_at_once(world: World) -> None:
    world.ledger.commits.accept(world.request(1))

    assert world.ledger.commits.cancel(UUID(int=1), actor="ada") is CommitState.REJECTED
    assert world.ledger.commits.cancel(UUID(int=1), actor="ada") is CommitState.REJECTED


def test_a_commit_whose_answer_is_lost_is_read_before_it_is_repeated(world: World) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(commit_id, fence)
    world.ledger.commits.ready(commit_id, fence)
    lost: list[str] = []

    def fault_hook(name: str, moment: Moment) -> None:
        if moment is Moment.AFTER_COMMIT and not lost:
            lost.append(name)
            raise BrokenConnection

    unlucky = Ledger(world.dsn, fault_hook=fault_hook)
    world.opened.append(unlucky)

    assert unlucky.commits.commit_point(commit_id, fence) == 1
    assert lost == ["commit_point"]
    assert world.ledger.branches.get(world.tenant, "main").head_seq == 1


@pytest.mark.parametrize("moment", list(Moment))
def test_every_step_survives_a_connection_that_breaks_once_in_each_transaction(
    world: World, moment: Moment
) -> None:
    broken: set[str] = set()

    def fault_hook(name: str, at: Moment) -> None:
        if at is moment and name not in broken:
            broken.add(name)
            raise BrokenConnection

    unlucky = Ledger(world.dsn, fault_hook=fault_hook)
    world.opened.append(unlucky)
    weathered = World(
        dsn=world.dsn,
        ledger=unlucky,
        tenant=world.tenant,
        main=world.main,
        outside=set(),
        opened=world.opened,
    )

    commit_id, _ = weathered.serving(world.request(1), blueprint(ORDERS, FLIGHTS))

    assert {"accept", "claim", "plan", "intend", "commit_point", "promote"} <= broken
    assert world.ledger.commits.get(commit_id).state is CommitState.FINALIZED
    assert world.ledger.branches.get(world.tenant, "main").serving_seq == 1


def test_readers_flip_with_evidence_and_see_one_manifest(world: World) -> None:
    commit_id, _ = world.serving(world.request(1), blueprint(ORDERS))

    serving = world.ledger.manifests.serving(world.main)
    assert serving is not None
    assert serving.serving_seq == 1
    assert set(serving.manifest.bindings) == {path for a in ORDERS for path in a.paths}
    feed = serving.manifest.bindings["index_feed/orders"]
    log = serving.manifest.bindings["kafka_topic/orders"]
    assert feed.need("log").physical_name == log.physical_name
    assert feed.spec == ORDERS[-1].spec
    assert world.ledger.commits.get(commit_id).state is CommitState.FINALIZED


def test_a_promotion_may_come_twice(world: World) -> None:
    commit_id, fence = world.committed(world.request(1), blueprint(ORDERS))
    world.ledger.jobs.start(commit_id, fence)
    world.catch_up()
    evidence = world.ledger.promotions.readiness(commit_id).evidence

    first = world.ledger.promotions.promote(commit_id, fence, evidence=evidence)

    assert world.ledger.promotions.promote(commit_id, fence, evidence=evidence) == first == 1


def test_without_evidence_readers_stay(world: World) -> None:
    commit_id, fence = world.committed(world.request(1), blueprint(ORDERS))
    world.ledger.jobs.start(commit_id, fence)
    world.catch_up()

    with pytest.raises(NotReady, match="stale"):
        world.ledger.promotions.promote(commit_id, fence, evidence=())
    with pytest.raises(NotReady):
        world.ledger.commits.finalize(commit_id, fence)


def test_evidence_of_an_older_slot_epoch_does_not_count(world: World) -> None:
    commit_id, fence = world.committed(world.request(1), blueprint(ORDERS))
    world.ledger.jobs.start(commit_id, fence)
    leases = world.catch_up()
    evidence = world.ledger.promotions.readiness(commit_id).evidence
    world.ledger.slots.release("supervisor-1", leases)
    world.ledger.slots.claim("supervisor-2", range(4))

    with pytest.raises(NotReady) as refused:
        world.ledger.promotions.promote(commit_id, fence, evidence=evidence)

    assert "its new owner has not reported yet" in str(refused.value.detail)


def test_evidence_of_an_older_generation_does_not_count(world: World) -> None:
    commit_id, fence = world.committed(world.request(1), blueprint(ORDERS))
    world.catch_up()

    world.ledger.jobs.start(commit_id, fence)

    whys = {job.why for job in world.ledger.promotions.readiness(commit_id).waiting_for}
    assert whys == {"its newest generation has not reported yet"}


def test_a_job_that_has_only_just_caught_up_is_not_ready(world: World) -> None:
    commit_id, fence = world.committed(world.request(1), blueprint(ORDERS))
    world.ledger.jobs.start(commit_id, fence)
    world.catch_up(times=1)

    whys = {job.why for job in world.ledger.promotions.readiness(commit_id).waiting_for}
    assert whys == {"has only just caught up"}


def test_a_manual_promotion_waits_for_a_person(world: World) -> None:
    request = world.request(1, promotion=PromotionPolicy.MANUAL)
    commit_id, fence = world.committed(request, blueprint(ORDERS))
    world.ledger.jobs.start(commit_id, fence)
    world.catch_up()
    evidence = world.ledger.promotions.readiness(commit_id).evidence

    with pytest.raises(NotReady, match="approved"):
        world.ledger.promotions.promote(commit_id, fence, evidence=evidence)
    world.ledger.promotions.approve(commit_id, actor="grace")

    assert world.ledger.promotions.promote(commit_id, fence, evidence=evidence) == 1


def gate(commit_id: UUID, dataset: str, *, is_critical: bool = False, number: int = 1) -> AuditView:
    return AuditView(
        audit_id=UUID(int=number),
        commit_id=commit_id,
        dataset=dataset,
        branch="main",
        from_us=None,
        to_us=None,
        result={"rows": 3},
        success=not is_critical,
        is_critical=is_critical,
        examples=[["ann"]],
    )


def test_readers_wait_for_the_gates_of_all_datasets(world: World) -> None:
    commit_id, fence = world.committed(world.request(1), blueprint(ORDERS))
    world.ledger.jobs.start(commit_id, fence)
    world.catch_up()
    evidence = world.ledger.promotions.readiness(commit_id).evidence
    world.ledger.audits.record(gate(commit_id, "orders"))

    def promote(*gates: str) -> int:
        return world.ledger.promotions.promote(commit_id, fence, evidence=evidence, gates=gates)

    with pytest.raises(NotReady) as refused:
        promote("orders", "users")
    assert refused.value.detail == ["users"]
    assert promote("orders") == 1


def test_readers_never_read_a_commit_that_breaks_a_critical_expectation(world: World) -> None:
    commit_id, fence = world.committed(world.request(1), blueprint(ORDERS))
    world.ledger.jobs.start(commit_id, fence)
    world.catch_up()
    evidence = world.ledger.promotions.readiness(commit_id).evidence
    world.ledger.audits.record(gate(commit_id, "orders", is_critical=True))

    for gates in ((), ("orders",)):
        with pytest.raises(QualityBroken, match="`orders`"):
            world.ledger.promotions.promote(commit_id, fence, evidence=evidence, gates=gates)
    assert world.ledger.commits.get(commit_id).promotion is PromotionState.PENDING


def test_the_first_outcome_of_a_gate_is_kept(world: World) -> None:
    commit_id, _ = world.committed(world.request(1), blueprint(ORDERS))
    world.ledger.audits.record(gate(commit_id, "orders", is_critical=True))

    world.ledger.audits.record(gate(commit_id, "orders", number=2))
    world.ledger.audits.record(gate(commit_id, "users", number=3))

    found = world.ledger.audits.gates(commit_id)
    assert [(one.dataset, one.is_critical) for one in found] == [("orders", True), ("users", False)]


def test_the_keys_that_a_gate_names_are_deleted_and_its_counts_stay(world: World) -> None:
    commit_id, _ = world.committed(world.request(1), blueprint(ORDERS))
    world.ledger.audits.record(gate(commit_id, "orders"))

    assert world.ledger.audits.forget_examples(older_than=LATER) == 0
    assert world.at(LATER * 2).audits.forget_examples(older_than=LATER) == 1

    (found,) = world.ledger.audits.gates(commit_id)
    assert (found.examples, found.result) == (None, {"rows": 3})


def test_a_later_commit_supersedes_a_pending_promotion(world: World) -> None:
    first, old = world.committed(world.request(1), blueprint(ORDERS))
    world.committed(world.request(2), blueprint(ORDERS, webhook_dataset("users")))

    assert world.ledger.commits.get(first).promotion is PromotionState.SUPERSEDED
    with pytest.raises(WrongState):
        world.ledger.promotions.promote(first, old, evidence=())
    world.ledger.commits.finalize(first, old)


def test_an_unchanged_commit_creates_nothing_and_shares_everything(world: World) -> None:
    world.serving(world.request(1), blueprint(ORDERS))

    commit_id, fence = world.claimed(world.request(2))
    plan = world.plan(commit_id, fence, blueprint(ORDERS))

    assert plan.create == plan.release == plan.backfill == plan.flip == ()
    assert {a.shared_with for a in plan.share} == {("main",)}


def test_a_dropped_dataset_is_released(world: World) -> None:
    users = webhook_dataset("users")
    world.serving(world.request(1), blueprint(ORDERS, users))

    commit_id, fence = world.claimed(world.request(2))
    plan = world.plan(commit_id, fence, blueprint(ORDERS))

    assert {a.fingerprint for a in plan.release} == {a.fingerprint for a in users}


def test_events_are_recorded_in_order(world: World) -> None:
    commit_id, _ = world.serving(world.request(1), blueprint(ORDERS))

    told = [e.transition for e in world.ledger.commits.events(commit_id) if e.transition.isupper()]
    assert told == ["QUEUED", "PLANNED", "APPLYING", "READY", "COMMITTED", "FINALIZED"]

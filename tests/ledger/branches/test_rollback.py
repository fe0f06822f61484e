"""Rollbacks: history goes on, readers go back, and what was never read is released."""

from uuid import UUID

import attrs
import pytest

from narthex_ledger import (
    BranchRequest,
    CommitInProgress,
    CommitState,
    Desired,
    NotFound,
    NotPinned,
    NotReady,
    PromotionState,
    RolledBack,
    WrongState,
)
from tests.ledger.world import LATER, ORDERS, World, blueprint, fingerprint, webhook_dataset

pytestmark = pytest.mark.postgres

ONE = blueprint(ORDERS)
TWO = blueprint(webhook_dataset("returns"))
COLD = LATER * 60
"""Later than the hot window, earlier than the cold one."""


def plan_request(world: World, number: int) -> BranchRequest:
    return BranchRequest(
        commit_id=UUID(int=number),
        tenant=world.tenant,
        name="main",
        idempotency_key=f"key-of-rollback-{number}",
        request_sha256=fingerprint(f"rollback {number}"),
        actor="ada",
    )


def back(world: World, number: int, *, to_seq: int | None = None) -> RolledBack:
    return world.ledger.branches.roll_back(plan_request(world, number), to_seq=to_seq)


def test_readers_go_back_at_once_while_the_old_jobs_run(world: World) -> None:
    world.serving(world.request(1), ONE)
    world.serving(world.request(2), TWO)

    done = back(world, 10)

    found = world.ledger.branches.get(world.tenant, "main")
    assert done == RolledBack(
        commit_id=UUID(int=10), seq=3, manifest_id=UUID(int=1), is_served=True
    )
    assert (found.head_seq, found.serving_seq) == (3, 3)
    assert found.head_commit_id == found.serving_commit_id == UUID(int=10)
    assert world.ledger.commits.get(UUID(int=10)).state is CommitState.FINALIZED
    assert world.ledger.manifests.serving(world.main).manifest.manifest_id == UUID(int=1)  # type: ignore[union-attr]


def test_the_same_rollback_again_is_one_and_the_next_goes_forward_again(world: World) -> None:
    world.serving(world.request(1), ONE)
    world.serving(world.request(2), TWO)

    assert back(world, 10) == back(world, 10)
    forward = back(world, 11)

    assert (forward.seq, forward.manifest_id) == (4, UUID(int=2))


def test_a_rollback_accepts_a_commit_number(world: World) -> None:
    world.serving(world.request(1), ONE)
    world.serving(world.request(2), TWO)
    world.serving(world.request(3), blueprint(webhook_dataset("visits")))

    done = back(world, 10, to_seq=1)

    assert done.manifest_id == UUID(int=1)
    with pytest.raises(NotFound, match="has no commit 9"):
        back(world, 11, to_seq=9)


def test_jobs_that_rest_catch_up_before_readers_go_back(world: World) -> None:
    world.serving(world.request(1), ONE)
    world.serving(world.request(2), TWO)
    later = world.at(COLD)
    later.gc.expire_pins()
    later.jobs.pause_cold()
    old = {asset.asset_id for asset in world.ledger.commits.get(UUID(int=1)).assets}
    rested = {j.desired for j in world.ledger.jobs.all() if j.asset.asset_id in old}

    done = back(world, 10)
    before = world.ledger.branches.get(world.tenant, "main")
    fence = world.ledger.commits.claim(UUID(int=10), "executor-1")
    with pytest.raises(NotReady):
        world.ledger.promotions.promote(UUID(int=10), fence, evidence=())
    world.catch_up()
    evidence = world.ledger.promotions.readiness(UUID(int=10)).evidence
    world.ledger.promotions.promote(UUID(int=10), fence, evidence=evidence)

    assert rested == {Desired.PAUSED}
    assert not done.is_served
    assert (before.head_seq, before.serving_seq) == (3, 2)
    assert world.ledger.branches.get(world.tenant, "main").serving_seq == 3
    assert {j.desired for j in world.ledger.jobs.all() if j.asset.asset_id in old} == {
        Desired.RUNNING
    }


def test_a_rollback_to_an_expired_commit_names_the_definitions_to_commit(world: World) -> None:
    world.serving(world.request(1), ONE)
    world.serving(world.request(2), TWO)
    world.at(LATER * 10_000).gc.expire_pins()

    with pytest.raises(NotPinned) as refused:
        back(world, 10)

    assert refused.value.detail == {
        "seq": 1,
        "commit_id": str(UUID(int=1)),
    }
    assert world.ledger.branches.get(world.tenant, "main").head_seq == 2


def test_an_unread_commit_is_reverted_with_its_assets(world: World) -> None:
    world.serving(world.request(1), ONE)
    world.committed(world.request(2), TWO)

    done = world.ledger.branches.revert(plan_request(world, 10), UUID(int=2))
    again = world.ledger.branches.revert(plan_request(world, 10), UUID(int=2))
    world.collect(world.at(LATER))
    world.collect(world.at(LATER * 2))

    assert done is not None
    assert done == again
    assert (done.manifest_id, done.is_served) == (UUID(int=1), True)
    assert world.ledger.commits.get(UUID(int=2)).promotion is PromotionState.SUPERSEDED
    assert set(world.states(UUID(int=2)).values()) == {"destroyed"}
    assert set(world.states(UUID(int=1)).values()) == {"live"}


def test_a_reverted_first_commit_leaves_an_empty_branch(world: World) -> None:
    world.committed(world.request(1), ONE)

    done = world.ledger.branches.revert(plan_request(world, 10), UUID(int=1))
    world.collect(world.at(LATER))
    world.collect(world.at(LATER * 2))

    found = world.ledger.branches.get(world.tenant, "main")
    assert done is not None
    assert (done.manifest_id, done.is_served) == (None, True)
    assert (found.head_commit_id, found.head_seq) == (None, 2)
    assert set(world.states(UUID(int=1)).values()) == {"destroyed"}
    world.serving(world.request(2), TWO)
    assert world.ledger.branches.get(world.tenant, "main").serving_seq == 3


def test_an_empty_branch_goes_back_to_a_commit_that_its_clone_keeps(world: World) -> None:
    world.committed(world.request(1), ONE)
    world.ledger.branches.clone(attrs.evolve(plan_request(world, 9), name="copy"), source="main")
    world.ledger.branches.revert(plan_request(world, 10), UUID(int=1))

    done = back(world, 11, to_seq=1)

    assert (done.seq, done.manifest_id) == (3, UUID(int=1))
    assert world.ledger.branches.get(world.tenant, "main").head_commit_id == UUID(int=11)


def test_a_rejection_is_repeated_with_the_same_outcome_and_ends_the_wait(world: World) -> None:
    world.serving(world.request(1), ONE)
    world.ledger.branches.protect(world.tenant, "main", actor="grace")
    commit_id, _ = world.committed(world.request(2), TWO)
    asked = attrs.evolve(plan_request(world, 10), actor="grace")

    done = world.ledger.branches.reject(asked, commit_id, reason="too many")
    again = world.ledger.branches.reject(asked, commit_id, reason="too many")
    with pytest.raises(WrongState, match="it is SUPERSEDED"):
        world.ledger.branches.reject(plan_request(world, 11), commit_id, reason="")
    with pytest.raises(WrongState, match="it is SUPERSEDED"):
        world.ledger.promotions.approve(commit_id, actor="heidi")

    assert done == again
    assert (done.manifest_id, done.is_served) == (UUID(int=1), True)
    approval = world.ledger.promotions.approval(commit_id)
    assert (approval.is_needed, approval.approved_by) == (False, None)
    assert approval.rejection is not None
    assert (approval.rejection.actor, approval.rejection.detail) == (
        "grace",
        {"reason": "too many"},
    )
    assert [e.transition for e in world.ledger.commits.events(commit_id)].count("rejected") == 1


def test_an_approved_commit_is_not_rejected_nor_is_one_that_needs_no_approval(
    world: World,
) -> None:
    world.serving(world.request(1), ONE)
    open_to_all, _ = world.committed(world.request(2), TWO)
    with pytest.raises(WrongState, match="does not wait for an approval; it is PENDING"):
        world.ledger.branches.reject(plan_request(world, 10), open_to_all, reason="")

    world.ledger.branches.protect(world.tenant, "main", actor="grace")
    commit_id, _ = world.committed(world.request(3), ONE)
    world.ledger.promotions.approve(commit_id, actor="grace")
    with pytest.raises(WrongState, match="grace has approved"):
        world.ledger.branches.reject(plan_request(world, 11), commit_id, reason="")

    assert world.ledger.commits.get(commit_id).promotion is PromotionState.PENDING
    assert world.ledger.branches.get(world.tenant, "main").head_seq == 3


def test_a_commit_that_readers_read_is_not_withdrawn(world: World) -> None:
    world.serving(world.request(1), ONE)

    assert world.ledger.branches.revert(plan_request(world, 10), UUID(int=1)) is None
    assert world.ledger.branches.get(world.tenant, "main").head_seq == 1


def test_there_is_something_to_go_back_to_or_the_reason_why_not(world: World) -> None:
    with pytest.raises(NotFound, match="has no deployed commit"):
        back(world, 10)
    world.serving(world.request(1), ONE)
    with pytest.raises(NotFound, match="no earlier commit"):
        back(world, 11)
    world.planned(world.request(2), TWO)
    with pytest.raises(CommitInProgress):
        back(world, 12)


def test_a_protected_branch_records_approver_and_instant(world: World) -> None:
    world.ledger.branches.protect(world.tenant, "main", actor="grace")
    commit_id, fence = world.committed(world.request(1), ONE)
    world.backfill(commit_id)
    world.ledger.jobs.start(commit_id, fence)
    world.catch_up()
    evidence = world.ledger.promotions.readiness(commit_id).evidence

    needed = world.ledger.promotions.approval(commit_id)
    with pytest.raises(NotReady, match="approved"):
        world.ledger.promotions.promote(commit_id, fence, evidence=evidence)
    world.ledger.promotions.approve(commit_id, actor="grace")
    world.ledger.promotions.approve(commit_id, actor="somebody else")
    world.ledger.promotions.promote(commit_id, fence, evidence=evidence)

    given = world.ledger.promotions.approval(commit_id)
    assert (needed.is_needed, needed.approved_by) == (True, None)
    assert (given.is_needed, given.approved_by) == (False, "grace")
    assert given.approved_at is not None
    assert [
        e.actor for e in world.ledger.commits.events(commit_id) if e.transition == "approved"
    ] == ["grace"]

"""Rollbacks: each is a new commit, whose manifest is one that the branch had before.

History stays linear: the rollback of seq n is seq n+1. One transaction decides it. If the jobs of
the old manifest are still running, readers flip in that transaction; else the jobs are started and
a promotion is due, as after any commit. The collector then destroys the unpinned assets.
"""

import hashlib
from uuid import UUID

from sqlalchemy.engine import Connection

from narthex_ledger.branches.lifecycle import (
    Recorded,
    record,
    refuse_busy,
    refuse_obsolete,
    replayed,
)
from narthex_ledger.commits.promotion import flip, open_promotion, record_rejection
from narthex_ledger.db.statements import branches as on_branches
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import jobs as on_jobs
from narthex_ledger.db.statements import pins as on_pins
from narthex_ledger.db.statements import promotions as on_promotions
from narthex_ledger.errors import NotFound, NotPinned
from narthex_ledger.jobs_and_slots.job_registry import (
    is_bounded,
    owes_backfill,
    resume_jobs,
    start_feeds,
)
from narthex_ledger.model.rows import BranchRow, CommitRow
from narthex_ledger.model.states import (
    CommitKind,
    CommitState,
    Desired,
    PromotionPolicy,
    PromotionState,
)
from narthex_ledger.model.views import BranchRequest, RolledBack, Rules

_NOTHING = hashlib.sha256(b"").digest()


def roll_back(
    connection: Connection, request: BranchRequest, to_seq: int | None, rules: Rules
) -> RolledBack:
    """Redeploy the branch's commit of a number, or else the one that readers read before.

    While a promotion is due, the latter is the one that readers read now.
    """
    if replayed(connection, request) is not None:
        return _view(connection, request)
    branch = on_branches.lock_branch_of(connection, request.tenant, request.name)
    if branch is None:
        raise NotFound(f"branch `{request.name}` does not exist")
    refuse_busy(connection, branch.branch_id)
    target = _target(connection, branch, to_seq)
    if target is None:
        _leave_empty(connection, request, branch)
    else:
        _deploy(connection, request, branch, target, rules)
    return _view(connection, request)


def revert(
    connection: Connection, request: BranchRequest, commit_id: UUID, rules: Rules
) -> RolledBack | None:
    """Roll back the branch's head if it is this commit and its promotion is pending, else None."""
    if replayed(connection, request) is not None:
        return _view(connection, request)
    branch = on_branches.lock_branch_of(connection, request.tenant, request.name)
    if branch is None or branch.head_commit_id != commit_id:
        return None
    promotion = on_promotions.lock_promotion(connection, commit_id)
    if promotion.state != PromotionState.PENDING.value:
        return None
    return roll_back(connection, request, None, rules)


def reject(
    connection: Connection, request: BranchRequest, commit_id: UUID, reason: str, rules: Rules
) -> RolledBack:
    """Roll back the branch's head, which waits for an approval, because a person rejects it."""
    if replayed(connection, request) is not None:
        return _view(connection, request)
    if on_branches.lock_branch_of(connection, request.tenant, request.name) is None:
        raise NotFound(f"branch `{request.name}` does not exist")
    record_rejection(connection, commit_id, request.actor, reason)
    return roll_back(connection, request, None, rules)


def _target(connection: Connection, branch: BranchRow, to_seq: int | None) -> CommitRow | None:
    """Find the commit whose manifest to redeploy; None for a branch that never served."""
    branch_id = branch.branch_id
    if to_seq is not None:
        found = on_branches.commit_at(connection, branch_id, to_seq)
        if found is None:
            raise NotFound(f"branch `{branch.name}` has no commit {to_seq}")
        return found
    head, serving = branch.head_commit_id, branch.serving_commit_id
    if head is None:
        raise NotFound(f"branch `{branch.name}` has no deployed commit")
    if serving is None:
        return None
    read = on_commits.read_commit(connection, serving)
    if on_commits.read_commit(connection, head).manifest_id != read.manifest_id:
        return read
    before = on_branches.served_before(connection, branch_id, read)
    if before is None:
        raise NotFound(f"readers of branch `{branch.name}` have read no earlier commit")
    return before


def _deploy(
    connection: Connection,
    request: BranchRequest,
    branch: BranchRow,
    target: CommitRow,
    rules: Rules,
) -> None:
    branch_id = branch.branch_id
    manifest_id = target.planned_manifest_id
    if not on_pins.lock_pins(connection, manifest_id):
        raise NotPinned(
            f"commit {target.seq} of branch `{branch.name}` is not kept any more",
            detail={"seq": target.seq, "commit_id": str(target.commit_id)},
            hint="commit its definitions again",
        )
    refuse_obsolete(connection, manifest_id)
    seq = branch.head_seq + 1
    commit_id = record(
        connection,
        request,
        branch,
        Recorded(
            kind=CommitKind.ROLLBACK,
            seq=seq,
            manifest_id=manifest_id,
            bundle_sha256=target.bundle_sha256,
            state=CommitState.COMMITTED,
        ),
    )
    _let_go_of_head(connection, branch, rules)
    on_pins.insert_pin(
        connection,
        manifest_id=manifest_id,
        branch_id=branch_id,
        commit_id=commit_id,
        holder="head",
    )
    on_branches.change_branch(connection, branch_id, head_commit_id=commit_id, head_seq=seq)
    commit = on_commits.read_commit(connection, commit_id)
    open_promotion(connection, commit)
    if _is_hot(connection, manifest_id):
        flip(connection, commit, {"policy": PromotionPolicy.NOW.value, "hot": True}, rules)
        on_commits.change_commit(
            connection, commit_id, state=CommitState.FINALIZED.value, finished_at=on_commits.NOW
        )
        return
    start_feeds(connection, commit)
    resume_jobs(connection, [manifest_id])


def _leave_empty(connection: Connection, request: BranchRequest, branch: BranchRow) -> None:
    """Make a branch deploy nothing again, when none of its commits reached readers."""
    branch_id = branch.branch_id
    on_commits.put_bundle(connection, _NOTHING, b"")
    seq = branch.head_seq + 1
    record(
        connection,
        request,
        branch,
        Recorded(kind=CommitKind.ROLLBACK, seq=seq, manifest_id=None, bundle_sha256=_NOTHING),
    )
    on_promotions.supersede(connection, branch_id)
    for pin in on_branches.lock_pins_of(connection, branch_id, "head"):
        on_pins.delete_pin(connection, pin.pin_id)
    on_branches.change_branch(connection, branch_id, head_commit_id=None, head_seq=seq)


def _let_go_of_head(connection: Connection, branch: BranchRow, rules: Rules) -> None:
    """Keep the head as history if readers read it; otherwise release it at once."""
    if branch.head_commit_id is None:
        return
    branch_id = branch.branch_id
    promotion = on_promotions.lock_promotion(connection, branch.head_commit_id)
    if promotion.state == PromotionState.DONE.value:
        on_pins.retire_pin(
            connection, branch_id, "head", hot=rules.history_hot, cold=rules.history_cold
        )
        return
    for pin in on_branches.lock_pins_of(connection, branch_id, "head"):
        on_pins.delete_pin(connection, pin.pin_id)


def _is_hot(connection: Connection, manifest_id: UUID) -> bool:
    """Whether every job of the manifest is backfilled, and still running unless it is bounded."""
    return not any(
        owes_backfill(job) or not (is_bounded(job) or job.desired == Desired.RUNNING.value)
        for job in on_jobs.lock_jobs(connection, manifest_id)
    )


def _view(connection: Connection, request: BranchRequest) -> RolledBack:
    row = on_branches.find_commit_of_key(connection, request.tenant, request.idempotency_key)
    if row is None:
        raise NotFound("the rollback has no commit")
    done = row.state == CommitState.FINALIZED.value
    return RolledBack(
        commit_id=row.commit_id,
        seq=row.committed_seq,
        manifest_id=row.manifest_id,
        is_served=done,
    )

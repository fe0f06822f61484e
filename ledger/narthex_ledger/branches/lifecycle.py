"""Change branches as a whole: each change is one transaction, and a commit that records it.

Nothing outside the database is called. A clone pins the manifests that its source has pinned, so it
takes as many rows for two assets as for two thousand; later commits create the differences.
"""

import hashlib
from uuid import UUID

import attrs
from sqlalchemy.engine import Connection

from narthex_ledger.commits.promotion import open_promotion
from narthex_ledger.db.statements import branches as on_branches
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import erasures as on_erasures
from narthex_ledger.db.statements import pins as on_pins
from narthex_ledger.db.statements import promotions as on_promotions
from narthex_ledger.errors import (
    BranchExists,
    CommitInProgress,
    IdempotencyKeyReused,
    LedgerRefused,
    MainStays,
    NotFound,
)
from narthex_ledger.jobs_and_slots.job_registry import resume_jobs
from narthex_ledger.model.plans import sha256_of
from narthex_ledger.model.rows import BranchRow, PinRow
from narthex_ledger.model.states import CommitKind, CommitState
from narthex_ledger.model.views import BranchId, BranchRequest, BranchView, Rules, TenantId
from narthex_ledger.reading.queries import branch_view
from narthex_ledger.signing.signatures import attest, head_statement

_NOTHING = hashlib.sha256(b"").digest()
"""The bundle of a branch without commits."""


@attrs.frozen(kw_only=True)
class Recorded:
    """The bindings of a commit that records a change of a branch.

    Attributes:
        part: The number of the commit within its request; the last one is the request's own.
    """

    kind: CommitKind
    seq: int
    manifest_id: UUID | None
    bundle_sha256: bytes
    state: CommitState = CommitState.FINALIZED
    part: str = ""


def init(connection: Connection, request: BranchRequest, rules: Rules) -> BranchView:
    """Create an empty branch."""
    before = replayed(connection, request)
    if before is not None:
        return view_of(connection, before)
    branch_id = _insert(connection, request, rules)
    if branch_id is None:
        return view_of(connection, replayed_or_taken(connection, request))
    on_commits.put_bundle(connection, _NOTHING, b"")
    branch = on_commits.read_branch(connection, branch_id)
    record(
        connection,
        request,
        branch,
        Recorded(kind=CommitKind.INIT_BRANCH, seq=0, manifest_id=None, bundle_sha256=_NOTHING),
    )
    return view_of(connection, branch_id)


def clone(
    connection: Connection, request: BranchRequest, source_name: str, rules: Rules
) -> BranchView:
    """Create a branch with another branch's deployed and served manifests.

    The source does not change: its commits, promotions and deletion wait for this transaction;
    other clones of it don't. Its pins are locked, so the assets that they hold stay meanwhile.
    """
    before = replayed(connection, request)
    if before is not None:
        return view_of(connection, before)
    source = on_branches.share_branch(connection, request.tenant, source_name)
    if source is None:
        raise NotFound(f"branch `{source_name}` does not exist")
    pins = {
        pin.holder: pin
        for pin in on_branches.lock_pins_of(connection, source.branch_id, "head", "serving")
    }
    refuse_obsolete(connection, *(pin.manifest_id for pin in pins.values()))
    branch_id = _insert(connection, request, rules)
    if branch_id is None:
        return view_of(connection, replayed_or_taken(connection, request))
    branch = on_commits.read_branch(connection, branch_id)
    on_commits.put_bundle(connection, _NOTHING, b"")
    _copy_pointers(connection, request, branch, source, pins)
    return view_of(connection, branch_id)


def _copy_pointers(
    connection: Connection,
    request: BranchRequest,
    branch: BranchRow,
    source: BranchRow,
    pins: dict[str, PinRow],
) -> None:
    head, serving = pins.get("head"), pins.get("serving")
    if head is None:
        nothing = Recorded(kind=CommitKind.CLONE, seq=0, manifest_id=None, bundle_sha256=_NOTHING)
        record(connection, request, branch, nothing)
        return
    is_one = serving is not None and serving.manifest_id == head.manifest_id
    seq = 1
    if serving is not None and not is_one:
        read = Recorded(
            kind=CommitKind.CLONE,
            seq=seq,
            manifest_id=serving.manifest_id,
            bundle_sha256=_bundle_of(connection, source.serving_commit_id),
            part="serving",
        )
        commit_id = record(connection, request, branch, read)
        serve(connection, branch, commit_id, read.manifest_id, seq=seq)
        seq += 1
    deployed = Recorded(
        kind=CommitKind.CLONE,
        seq=seq,
        manifest_id=head.manifest_id,
        bundle_sha256=_bundle_of(connection, source.head_commit_id),
        state=CommitState.FINALIZED if is_one else CommitState.COMMITTED,
    )
    commit_id = record(connection, request, branch, deployed)
    deploy(connection, branch, commit_id, deployed.manifest_id, seq=seq)
    if is_one:
        serve(connection, branch, commit_id, deployed.manifest_id, seq=seq)
    elif source.head_commit_id is not None:
        _open_as(connection, commit_id, source.head_commit_id)


def delete(connection: Connection, request: BranchRequest, rules: Rules) -> BranchView:
    """Delete a branch: its name becomes free, and its assets are kept for a while.

    A commit in flight prevents the deletion; a pending promotion is dropped.
    """
    before = replayed(connection, request)
    if before is not None:
        return view_of(connection, before)
    branch = on_branches.lock_branch_of(connection, request.tenant, request.name)
    if branch is None:
        raise NotFound(f"branch `{request.name}` does not exist")
    if branch.is_main:
        raise MainStays(f"the branch `{request.name}` cannot be deleted")
    if branch.is_protected:
        raise LedgerRefused(
            f"branch `{request.name}` is protected", hint="end its protection before you delete it"
        )
    branch_id = branch.branch_id
    refuse_busy(connection, branch_id)
    on_promotions.supersede(connection, branch_id)
    head = branch.head_commit_id
    on_commits.put_bundle(connection, _NOTHING, b"")
    record(
        connection,
        request,
        branch,
        Recorded(
            kind=CommitKind.DELETE_BRANCH,
            seq=branch.head_seq + 1,
            manifest_id=_manifest_of(connection, head),
            bundle_sha256=_bundle_of(connection, head),
        ),
    )
    for pin in on_branches.lock_pins_of(connection, branch_id, "head", "serving"):
        on_branches.change_pin(
            connection,
            pin.pin_id,
            holder="undelete",
            expires_at=on_commits.NOW + rules.undelete_window,
        )
    on_branches.change_branch(
        connection,
        branch_id,
        state="deleted",
        deleted_at=on_commits.NOW,
        head_seq=branch.head_seq + 1,
    )
    return view_of(connection, branch_id)


def undelete(connection: Connection, request: BranchRequest) -> BranchView:
    """Restore the newest deleted branch of a name, while its assets are still kept."""
    before = replayed(connection, request)
    if before is not None:
        return view_of(connection, before)
    branch = on_branches.lock_deleted(connection, request.tenant, request.name)
    if branch is None:
        raise NotFound(f"no branch `{request.name}` was deleted")
    if on_commits.find_branch(connection, request.tenant, request.name) is not None:
        raise BranchExists(f"branch `{request.name}` already exists")
    branch_id = branch.branch_id
    pins = on_branches.lock_pins_of(connection, branch_id, "undelete")
    head, serving = branch.head_commit_id, branch.serving_commit_id
    if len(pins) != (head is not None) + (serving is not None):
        raise LedgerRefused(
            f"branch `{request.name}` is past the window in which it can be brought back",
            hint="commit its definitions to a new branch",
        )
    refuse_obsolete(connection, *(pin.manifest_id for pin in pins))
    on_branches.change_branch(connection, branch_id, state="active", deleted_at=None)
    _restore(connection, request, branch, pins)
    return view_of(connection, branch_id)


def _restore(
    connection: Connection,
    request: BranchRequest,
    branch: BranchRow,
    pins: tuple[PinRow, ...],
) -> None:
    branch_id = branch.branch_id
    head, serving = branch.head_commit_id, branch.serving_commit_id
    seq = branch.head_seq + 1
    is_one = head is None or head == serving
    manifest_id = _manifest_of(connection, head)
    commit_id = record(
        connection,
        request,
        branch,
        Recorded(
            kind=CommitKind.UNDELETE_BRANCH,
            seq=seq,
            manifest_id=manifest_id,
            bundle_sha256=_bundle_of(connection, head),
            state=CommitState.FINALIZED if is_one else CommitState.COMMITTED,
        ),
    )
    for pin in pins:
        on_pins.delete_pin(connection, pin.pin_id)
    if head is None:
        on_branches.change_branch(connection, branch_id, head_seq=seq)
        return
    deploy(connection, branch, commit_id, manifest_id, seq=seq)
    if is_one:
        serve(connection, branch, commit_id, manifest_id, seq=seq)
    else:
        if serving is not None:
            on_pins.insert_pin(
                connection,
                manifest_id=on_commits.read_commit(connection, serving).planned_manifest_id,
                branch_id=branch_id,
                commit_id=serving,
                holder="serving",
            )
        _open_as(connection, commit_id, head)
    resume_jobs(connection, [pin.manifest_id for pin in pins])


def protect(connection: Connection, tenant: TenantId, name: str, actor: str, *, to: bool) -> None:
    """Set whether a person must approve each promotion of a branch."""
    branch = on_branches.lock_branch_of(connection, tenant, name)
    if branch is None:
        raise NotFound(f"branch `{name}` does not exist")
    on_branches.change_branch(connection, branch.branch_id, is_protected=to)
    on_commits.insert_event(
        connection,
        "branch_protected" if to else "branch_unprotected",
        actor=actor,
        detail={"branch": name},
    )


def listed(connection: Connection, tenant: TenantId) -> tuple[BranchView, ...]:
    """List the active branches, then the deleted ones that can be restored."""
    return tuple(branch_view(row) for row in on_branches.branch_rows(connection, tenant))


def replayed(connection: Connection, request: BranchRequest) -> BranchId | None:
    """Find the branch that the same request changed before; None for a new request."""
    row = on_branches.find_commit_of_key(connection, request.tenant, request.idempotency_key)
    if row is None:
        return None
    if row.request_sha256 != request.request_sha256:
        raise IdempotencyKeyReused(
            "the idempotency key was used for another request",
            detail={"commit_id": str(row.commit_id)},
            hint="give each request a key of its own",
        )
    return row.branch_id


def replayed_or_taken(connection: Connection, request: BranchRequest) -> BranchId:
    """Return the branch of a taken name if this request created it; else raise `BranchExists`."""
    before = replayed(connection, request)
    if before is None:
        raise BranchExists(f"branch `{request.name}` already exists", hint="take another name")
    return before


def refuse_obsolete(connection: Connection, *manifests: UUID) -> None:
    """Raise if one of the manifests binds assets whose rows are being erased."""
    if any(on_erasures.binds_obsolete(connection, manifest) for manifest in manifests):
        raise LedgerRefused(
            "some of its rows are being erased",
            hint="look at `narthex erasures list`, and wait for the end of the erasure",
        )


def refuse_busy(connection: Connection, branch_id: BranchId) -> None:
    """Raise while a commit is in flight on the branch, which is locked."""
    busy = on_commits.in_flight(connection, branch_id)
    if busy is not None:
        raise CommitInProgress(busy)


def record(
    connection: Connection, request: BranchRequest, branch: BranchRow, change: Recorded
) -> UUID:
    """Insert the commit that records a change; return its id."""
    commit_id, key = request.commit_id, request.idempotency_key
    if change.part:
        digest = hashlib.sha256(f"{commit_id}/{change.part}".encode()).digest()
        commit_id, key = UUID(bytes=digest[:16], version=4), digest.hex()
    statement = head_statement(
        request.tenant,
        branch.branch_id,
        branch.name,
        commit_id=commit_id,
        manifest_id=change.manifest_id,
    )
    on_branches.insert_done(
        connection,
        request,
        branch=branch,
        kind=change.kind,
        state=change.state,
        bundle_sha256=change.bundle_sha256,
        manifest_id=change.manifest_id,
        plan_sha256=sha256_of([change.kind.value, str(change.manifest_id), change.seq]),
        commit_id=commit_id,
        key=key,
        seq=change.seq,
        head_signature=attest(connection, statement),
    )
    on_commits.insert_event(
        connection,
        change.kind.value,
        actor=request.actor,
        commit_id=commit_id,
        detail={"branch": request.name, "seq": change.seq},
    )
    return commit_id


def deploy(
    connection: Connection,
    branch: BranchRow,
    commit_id: UUID,
    manifest_id: UUID | None,
    *,
    seq: int,
) -> None:
    """Point the head of a branch, which has no head pin, at a pinned manifest."""
    _pin(connection, branch, commit_id, manifest_id, holder="head")
    on_branches.change_branch(connection, branch.branch_id, head_commit_id=commit_id, head_seq=seq)


def serve(
    connection: Connection,
    branch: BranchRow,
    commit_id: UUID,
    manifest_id: UUID | None,
    *,
    seq: int,
) -> None:
    """Point the readers of a branch, which has no serving pin, at a pinned manifest."""
    branch_id = branch.branch_id
    _pin(connection, branch, commit_id, manifest_id, holder="serving")
    head_seq = max(seq, int(on_commits.read_branch(connection, branch_id).head_seq))
    on_branches.change_branch(
        connection,
        branch_id,
        serving_commit_id=commit_id,
        serving_seq=seq,
        head_seq=head_seq,
    )
    on_branches.insert_promoted(connection, commit_id, branch_id)


def _pin(
    connection: Connection,
    branch: BranchRow,
    commit_id: UUID,
    manifest_id: UUID | None,
    *,
    holder: str,
) -> None:
    if manifest_id is None:
        raise LedgerRefused(f"commit `{commit_id}` binds nothing")
    on_pins.insert_pin(
        connection,
        manifest_id=manifest_id,
        branch_id=branch.branch_id,
        commit_id=commit_id,
        holder=holder,
    )


def _open_as(connection: Connection, commit_id: UUID, like: UUID) -> None:
    """Open a promotion with the policy of another commit's promotion."""
    policy = on_branches.policy_of(connection, like)
    on_commits.change_commit(connection, commit_id, promotion_policy=policy)
    open_promotion(connection, on_commits.read_commit(connection, commit_id))


def _bundle_of(connection: Connection, commit_id: UUID | None) -> bytes:
    if commit_id is None:
        return _NOTHING
    return bytes(on_commits.read_commit(connection, commit_id).bundle_sha256)


def _manifest_of(connection: Connection, commit_id: UUID | None) -> UUID | None:
    if commit_id is None:
        return None
    return on_commits.read_commit(connection, commit_id).manifest_id


def _insert(connection: Connection, request: BranchRequest, rules: Rules) -> BranchId | None:
    """Insert an active branch; None when the name is taken.

    Raises:
        LedgerRefused: The actor has made too many.
    """
    most = rules.most_branches_each
    if on_branches.count_branches_made_by(connection, request.tenant, request.actor) >= most:
        raise LedgerRefused(
            f"`{request.actor}` has made {most} branches, with those that can be restored",
            hint="delete some that are not needed, or ask the operator to raise "
            "`NARTHEX_MOST_BRANCHES`",
        )
    return on_branches.insert_branch(connection, request.tenant, request.name)


def view_of(connection: Connection, branch_id: BranchId) -> BranchView:
    """Read a branch, including a deleted one."""
    return branch_view(on_commits.read_branch(connection, branch_id))

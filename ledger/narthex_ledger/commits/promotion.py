"""T_promote: flip readers to a commit, on evidence that is still true at the flip."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex._ir import AssetKind
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import erased_sinks as on_sinks
from narthex_ledger.db.statements import jobs as on_jobs
from narthex_ledger.db.statements import pins as on_pins
from narthex_ledger.db.statements import promotions as on_promotions
from narthex_ledger.db.statements import quality_audits as on_audits
from narthex_ledger.errors import LedgerRefused, NotReady, QualityBroken, WrongState
from narthex_ledger.jobs_and_slots.job_registry import is_bounded, owes_backfill
from narthex_ledger.model.rows import BoundJobRow, CommitRow, PromotionRow, ShardRow
from narthex_ledger.model.states import (
    CommitKind,
    CommitState,
    Desired,
    Phase,
    PromotionPolicy,
    PromotionState,
)
from narthex_ledger.model.views import (
    ApprovalView,
    BranchId,
    Epoch,
    Fence,
    JobEvidence,
    Readiness,
    Rules,
    WaitingJob,
)
from narthex_ledger.requests.commit_requests import hold_fence

REJECTED: Final = "rejected"
"""The transition that records a person's rejection; its detail has the reason."""

_COMMITTED = (CommitState.COMMITTED, CommitState.FINALIZED)


def open_promotion(connection: Connection, commit: CommitRow) -> None:
    """Open the promotion at the commit point, and supersede older ones of the branch."""
    on_promotions.supersede(connection, commit.branch_id)
    branch = on_commits.read_branch(connection, commit.branch_id)
    # An erasure deploys what is deployed already: it needs no approval.
    needs_approval = branch.is_protected and commit.kind != CommitKind.ERASE.value
    policy = PromotionPolicy.MANUAL.value if needs_approval else commit.promotion_policy
    on_promotions.insert_promotion(connection, commit.commit_id, commit.branch_id, policy)


def promotion_state(connection: Connection, commit_id: UUID) -> PromotionState:
    """Read whether readers have flipped."""
    return PromotionState(on_promotions.lock_promotion(connection, commit_id).state)


def readiness(connection: Connection, commit_id: UUID, rules: Rules) -> Readiness:
    """Judge every job of the commit, with jobs, shards and slots locked for consistency."""
    commit = on_commits.read_commit(connection, commit_id)
    jobs = _checked_jobs(connection, commit.manifest_id)
    shards: dict[int, tuple[ShardRow, ...]] = {}
    for shard in on_jobs.share_shards(connection, [job.asset_id for job in jobs]):
        shards[shard.asset_id] = (*shards.get(shard.asset_id, ()), shard)
    waiting: list[WaitingJob] = []
    evidence: list[JobEvidence] = []
    for job in jobs:
        match _judge(job, shards.get(job.asset_id, ()), rules):
            case WaitingJob() as unready:
                waiting.append(unready)
            case JobEvidence() as proof:
                evidence.append(proof)
    return Readiness(waiting_for=tuple(waiting), evidence=tuple(evidence))


def _checked_jobs(connection: Connection, manifest_id: UUID | None) -> tuple[BoundJobRow, ...]:
    """Lock the jobs of a commit, except sinks that write only when readers have flipped."""
    if manifest_id is None:
        return ()
    waiting = on_sinks.waiting_sinks(connection, manifest_id)
    jobs = on_jobs.lock_jobs(connection, manifest_id)
    return tuple(job for job in jobs if job.asset_id not in waiting)


def approve(connection: Connection, commit_id: UUID, actor: str) -> None:
    """Record a person's approval of the promotion; the first decision is kept."""
    promotion = on_promotions.lock_promotion(connection, commit_id)
    if promotion.approved_by is not None:
        return
    if promotion.state != PromotionState.PENDING.value:
        raise WrongState(
            f"commit `{commit_id}` does not wait for an approval; it is {promotion.state}",
            detail=promotion.state,
        )
    on_promotions.change_promotion(
        connection, commit_id, approved_by=actor, approved_at=on_commits.NOW
    )
    on_commits.insert_event(connection, "approved", actor=actor, commit_id=commit_id)


def record_rejection(connection: Connection, commit_id: UUID, actor: str, reason: str) -> None:
    """Record that a person rejects the promotion, which the caller then supersedes."""
    promotion = on_promotions.lock_promotion(connection, commit_id)
    if promotion.approved_by is not None:
        raise WrongState(
            f"{promotion.approved_by} has approved commit `{commit_id}`",
            detail=promotion.state,
            hint="revert it with `narthex rollback`",
        )
    if not _needs_approval(promotion):
        raise WrongState(
            f"commit `{commit_id}` does not wait for an approval; it is {promotion.state}",
            detail=promotion.state,
        )
    on_commits.insert_event(
        connection, REJECTED, actor=actor, commit_id=commit_id, detail={"reason": reason}
    )


def approval(connection: Connection, commit_id: UUID) -> ApprovalView:
    """Read whether approval is required, and who decided; without a promotion it is not."""
    row = on_promotions.find_promotion(connection, commit_id)
    if row is None:
        return ApprovalView(is_needed=False, approved_by=None, approved_at=None)
    may_be_rejected = row.state == PromotionState.SUPERSEDED.value and row.approved_by is None
    return ApprovalView(
        is_needed=_needs_approval(row),
        approved_by=row.approved_by,
        approved_at=row.approved_at,
        rejection=on_commits.find_event(connection, commit_id, REJECTED)
        if may_be_rejected
        else None,
    )


def _needs_approval(promotion: PromotionRow) -> bool:
    """Return whether readers flip only after an approval, which may be recorded already."""
    return (
        promotion.policy == PromotionPolicy.MANUAL.value
        and promotion.state == PromotionState.PENDING.value
    )


def promote(
    connection: Connection,
    commit_id: UUID,
    fence: Fence,
    evidence: tuple[JobEvidence, ...],
    rules: Rules,
    gates: Collection[str],
) -> int:
    """T_promote: move the serving pin and pointer; return the number that readers now see."""
    branch_id = on_commits.read_commit(connection, commit_id).branch_id
    branch = on_commits.lock_branch(connection, branch_id)
    commit = hold_fence(connection, commit_id, fence, *_COMMITTED)
    promotion = on_promotions.lock_promotion(connection, commit_id)
    match PromotionState(promotion.state):
        case PromotionState.DONE:
            return commit.committed_seq
        case PromotionState.SUPERSEDED:
            raise WrongState("a later commit took over", detail=promotion.state)
        case PromotionState.PENDING:
            pass
    if commit.committed_seq <= branch.serving_seq:
        raise WrongState("readers already read a later commit", detail=branch.serving_seq)
    _pass_gates(connection, commit_id, gates)
    proof = _proof(connection, commit, promotion, evidence, rules)
    flip(connection, commit, proof, rules)
    return commit.committed_seq


def _pass_gates(connection: Connection, commit_id: UUID, gates: Collection[str]) -> None:
    """Refuse a flip while a gate has no outcome, or if one broke a critical expectation."""
    outcomes = on_audits.gate_rows(connection, commit_id)
    broken = [outcome.dataset for outcome in outcomes if outcome.is_critical]
    if broken:
        raise QualityBroken(commit_id, broken)
    missing = sorted(frozenset(gates) - {outcome.dataset for outcome in outcomes})
    if missing:
        raise NotReady("the history of datasets is not checked yet", detail=[*missing])


def flip(connection: Connection, commit: CommitRow, proof: Json, rules: Rules) -> None:
    """Move the readers of a branch, which is locked, to a commit whose promotion is due."""
    commit_id, branch_id = commit.commit_id, commit.branch_id
    _derive_pin(connection, commit, branch_id, rules)
    on_commits.move_serving(connection, branch_id, commit_id, commit.committed_seq)
    on_promotions.change_promotion(
        connection,
        commit_id,
        state=PromotionState.DONE.value,
        evidence=proof,
        decided_at=on_commits.NOW,
    )
    on_commits.insert_event(
        connection,
        "promoted",
        actor=commit.owner or commit.actor,
        commit_id=commit_id,
        fence=commit.fence,
        detail={"serving_seq": commit.seq, "evidence": proof},
    )


def _derive_pin(
    connection: Connection, commit: CommitRow, branch_id: BranchId, rules: Rules
) -> None:
    if not on_pins.lock_pins(connection, commit.planned_manifest_id):
        raise LedgerRefused(f"commit `{commit.commit_id}` has no pins")
    on_pins.retire_pin(
        connection, branch_id, "serving", hot=rules.history_hot, cold=rules.history_cold
    )
    on_pins.insert_pin(
        connection,
        manifest_id=commit.planned_manifest_id,
        branch_id=branch_id,
        commit_id=commit.commit_id,
        holder="serving",
    )


def _proof(
    connection: Connection,
    commit: CommitRow,
    promotion: PromotionRow,
    evidence: tuple[JobEvidence, ...],
    rules: Rules,
) -> Json:
    policy = PromotionPolicy(promotion.policy)
    if policy is PromotionPolicy.NOW:
        return {"policy": policy.value}
    if policy is PromotionPolicy.MANUAL and promotion.approved_by is None:
        raise NotReady("the promotion is not approved", detail=["approval"])
    fresh = readiness(connection, commit.commit_id, rules)
    if not fresh.ready:
        raise NotReady(
            f"{len(fresh.waiting_for)} jobs are not ready",
            detail=[f"{job.label}: {job.why}" for job in fresh.waiting_for],
        )
    if frozenset(evidence) != frozenset(fresh.evidence):
        raise NotReady("the evidence is stale", detail=["evidence"], hint="read it again")
    return [
        {
            "asset_id": proof.asset_id,
            "generation": proof.generation,
            "spec_sha256": proof.spec_sha256.hex(),
            "epochs": list(proof.epochs),
            "backfilled": proof.backfilled,
        }
        for proof in fresh.evidence
    ]


def _judge(
    job: BoundJobRow, shards: tuple[ShardRow, ...], rules: Rules
) -> JobEvidence | WaitingJob:
    why = ""
    error = _backfill_error(shards)
    waiting = next((s for s in shards if _why_not(job, s, rules)), shards[0] if shards else None)
    if owes_backfill(job):
        why = f"its backfill failed: {error}" if error else "not backfilled"
    elif not is_bounded(job):
        why = _why_not_caught_up(job, shards, rules)
    if why:
        return WaitingJob(
            asset_id=job.asset_id,
            kind=AssetKind(job.kind),
            label=_label(job),
            phase=Phase(waiting.phase) if waiting else Phase.PENDING,
            lag_ms=waiting.lag_ms if waiting else None,
            why=why,
            error=error if owes_backfill(job) else None,
        )
    return JobEvidence(
        asset_id=job.asset_id,
        generation=job.generation,
        spec_sha256=job.spec_sha256,
        epochs=() if is_bounded(job) else tuple(Epoch(s.slot_epoch) for s in shards),
        backfilled=job.backfilled_at is not None,
    )


def _backfill_error(shards: tuple[ShardRow, ...]) -> str | None:
    """Return why the last bounded run failed; None when it did not fail, or runs again."""
    errors = [shard.backfill.get("error") for shard in shards if shard.backfill]
    return next((str(error) for error in errors if error), None)


def _why_not_caught_up(job: BoundJobRow, shards: tuple[ShardRow, ...], rules: Rules) -> str:
    if job.desired != Desired.RUNNING.value:
        return f"should be {job.desired}"
    if len(shards) != job.shard_count:
        return "has no shards"
    for shard in shards:
        why = _why_not(job, shard, rules)
        if why:
            return f"shard {shard.shard} of {len(shards)}: {why}" if len(shards) > 1 else why
    return ""


def _why_not(job: BoundJobRow, shard: ShardRow, rules: Rules) -> str:
    if shard.slot_owner is None or not shard.slot_held:
        return f"no supervisor holds slot {shard.slot}"
    if shard.seen_epoch != shard.slot_epoch:
        return "its new owner has not reported yet"
    if shard.seen_generation != job.generation:
        return "its newest generation has not reported yet"
    if shard.phase != Phase.CAUGHT_UP.value:
        return f"is {shard.phase}"
    if shard.caught_up_reports < rules.caught_up_reports:
        return "has only just caught up"
    return ""


def _label(job: BoundJobRow) -> str:
    dataset = job.spec.get("dataset")
    return f"{dataset} ({job.kind})" if dataset else str(job.physical_name)

"""The parts of the ledger for the deployment core: commits, their assets and promotions."""

import hashlib
from collections.abc import Collection, Iterable
from uuid import UUID

import attrs
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex._ir import AssetRef, Blueprint
from narthex_ledger.commits import creation, ending, planning, promotion
from narthex_ledger.commits.planning import NameOf, PlanRequest
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import reading as on_reading
from narthex_ledger.errors import CommitRejected
from narthex_ledger.model.plans import CommitPlan
from narthex_ledger.model.states import CommitState
from narthex_ledger.model.views import (
    Accepted,
    ApprovalView,
    BranchId,
    CommitRequest,
    CommitView,
    EventView,
    Fence,
    IntentOutcome,
    JobEvidence,
    Readiness,
    Replayed,
    RetainedAssetView,
    TenantId,
)
from narthex_ledger.reading import queries
from narthex_ledger.requests import commit_requests
from narthex_ledger.session import LedgerDatabase
from narthex_ledger.signing.signatures import commit_statement


@attrs.frozen
class Commits:
    """Commits from request to end; each method is one transaction and may be repeated as it is."""

    _db: LedgerDatabase

    def accept(self, request: CommitRequest) -> Accepted | Replayed:
        """T0: queue a commit; the bundle is stored by content in the same transaction.

        Raises:
            IdempotencyKeyReused: The key was used with another request before.
            NotFound: The tenant has no active branch of that id.
            LedgerRefused: The actor has `Rules.most_queued_each` queued commits.
        """
        most_queued = self._db.rules.most_queued_each
        digest = hashlib.sha256(request.bundle).digest()
        signature = self._db.attest(
            commit_statement(request.tenant, request.branch, request.commit_id, digest)
        )
        return self._db.run(
            "accept",
            lambda c: commit_requests.accept(c, request, digest, signature, most_queued),
        )

    def claim(self, commit_id: UUID, owner: str) -> Fence:
        """Lease a commit for 30 s, to execute it; `owner` names one run of one process.

        The fence grows when the owner changes. While its lease lasts, the same owner gets the same
        fence again, so its threads may share it.

        Raises:
            LeaseHeld: Another owner's lease has not expired.
            WrongState: The commit has ended.
        """
        lease_s = self._db.rules.commit_lease_s
        return self._db.run("claim", lambda c: commit_requests.claim(c, commit_id, owner, lease_s))

    def renew(self, commit_id: UUID, fence: Fence) -> None:
        """Extend a claim, every 10 s or so; trust it until 25 s after the call *began*.

        Raises:
            Fenced: The lease expired or another executor took over; stop at once.
        """
        lease_s = self._db.rules.commit_lease_s
        self._db.run("renew", lambda c: commit_requests.renew(c, commit_id, fence, lease_s))

    def release(self, commit_id: UUID, fence: Fence) -> None:
        """Release a claim; with an old fence this changes nothing."""
        self._db.run("release", lambda c: on_commits.end_lease(c, commit_id, fence))

    def claimable(self, limit: int = 20) -> tuple[UUID, ...]:
        """List commits with work to do and no live lease, the oldest first."""
        return self._db.run("claimable", lambda c: on_commits.free_commits(c, limit))

    def unended(self, limit: int = 100) -> tuple[UUID, ...]:
        """List commits that have not ended, leased or not, the oldest first."""
        return self._db.run("unended", lambda c: on_commits.unended_commits(c, limit))

    def plan(
        self,
        commit_id: UUID,
        fence: Fence,
        *,
        blueprint: Blueprint,
        name_of: NameOf,
        content: Json = None,
    ) -> CommitPlan:
        """T1: decide which assets to create and share, and reserve them; QUEUED to PLANNED.

        `content` is kept in the manifest for readers. A second call returns the stored plan.

        Raises:
            CommitRejected: `stale_base`, `plan_changed`, `would_backfill`, `quarantined` or
                `branch_deleted`; nothing is reserved and the commit is REJECTED.
            CommitInProgress: The branch has another commit in flight; this one stays QUEUED.
            Fenced: Another executor took over.
        """
        plan_request = PlanRequest(
            blueprint=blueprint, content=content, name_of=name_of, attest=self._db.attest
        )
        made = self._db.run("plan", lambda c: planning.plan(c, commit_id, fence, plan_request))
        if isinstance(made, CommitRejected):
            raise made
        return made

    def preview(
        self,
        request: CommitRequest,
        *,
        blueprint: Blueprint,
        name_of: NameOf,
        content: Json = None,
    ) -> CommitPlan:
        """Plan the request on the current head and change nothing: the same code, rolled back.

        Raises:
            CommitRejected: As `plan` would.
        """
        plan_request = PlanRequest(
            blueprint=blueprint, content=content, name_of=name_of, attest=self._db.attest
        )
        return self._db.transactions.dry_run(
            "preview", lambda c: planning.preview(c, request, plan_request)
        )

    def ready(self, commit_id: UUID, fence: Fence) -> None:
        """T_ready: all bound assets are live; APPLYING to READY.

        Raises:
            NotReady: Some assets are not live; `detail` lists their ids.
        """
        self._db.run("ready", lambda c: creation.ready(c, commit_id, fence))

    def commit_point(self, commit_id: UUID, fence: Fence) -> int:
        """T_commit: move the head and start feeds; return the commit's number on the branch.

        After a lost answer it reads, under the row's lock, whether the change happened.

        Raises:
            CommitCancelled: A cancel came first; abort.
            OutcomeUnknown: The database did not answer; call again, and don't abort before that.
        """
        return self._db.run(
            "commit_point", lambda c: ending.commit(c, commit_id, fence, self._db.rules)
        )

    def finalize(self, commit_id: UUID, fence: Fence) -> None:
        """Move a commit from COMMITTED to FINALIZED, after the promotion is done or superseded.

        Raises:
            NotReady: The promotion is pending.
        """
        self._db.run("finalize", lambda c: ending.finalize(c, commit_id, fence))

    def cancel(self, commit_id: UUID, *, actor: str) -> CommitState:
        """Request the cancellation of a commit; its executor then aborts it.

        A commit that is still QUEUED is REJECTED at once.

        Raises:
            AlreadyCommitted: The commit point came first.
        """
        return self._db.run("cancel", lambda c: commit_requests.cancel(c, commit_id, actor))

    def abort(self, commit_id: UUID, *, error: Json, actor: str) -> CommitState:
        """T_abort and T_unref: abort the commit and release its assets.

        The commit becomes ABORTING, or REJECTED from QUEUED; an ended commit does not change. Then
        the collector destroys its assets, and `aborted` ends it.

        Raises:
            AlreadyCommitted: The commit point came first.
        """
        return self._db.run("abort", lambda c: ending.abort(c, commit_id, error=error, actor=actor))

    def aborted(self, commit_id: UUID) -> CommitState:
        """T_aborted: ABORTED once no asset of the commit is left; ABORTING until then."""
        return self._db.run("aborted", lambda c: ending.aborted(c, commit_id))

    def get(self, commit_id: UUID) -> CommitView:
        """Read a commit with its assets in dependency order.

        Raises:
            NotFound: No commit has that id.
        """
        return self._db.run("commit", lambda c: queries.commit(c, commit_id))()

    def get_by_key(self, tenant: TenantId, key: str) -> CommitView:
        """Read the commit created by a request with an idempotency key.

        Raises:
            NotFound: No commit has that key.
        """

        def work(connection: Connection) -> queries.Conversion[CommitView]:
            return queries.commit(
                connection, on_commits.commit_of_key(connection, tenant, key).commit_id
            )

        return self._db.run("commit_of_key", work)()

    def newest(
        self, limit: int = 50, *, branch: BranchId | None = None, only_unended: bool = False
    ) -> tuple[CommitView, ...]:
        """List commits, the newest first, without their assets.

        Args:
            limit: The greatest number of commits.
            branch: The branch; by default, all.
            only_unended: Whether only commits that have not ended are listed.
        """
        return self._db.run(
            "commits", lambda c: queries.commits(c, limit, branch, only_unended=only_unended)
        )

    def events(self, commit_id: UUID) -> tuple[EventView, ...]:
        """Read the events of a commit and, while it was driving them, of its assets."""
        return self._db.run("events", lambda c: on_reading.event_rows(c, commit_id))


@attrs.frozen
class Assets:
    """Assets and their creation; each method is one transaction and may be repeated as it is."""

    _db: LedgerDatabase

    def intend(
        self, asset_id: int, commit_id: UUID, fence: Fence, *, call_timeout_s: float
    ) -> IntentOutcome:
        """Ta: record the intent before each call of a store's `create`; return how to proceed.

        Raises:
            Fenced: Another executor took over; make no call.
            WrongState: The asset can't be created from its current state.
        """
        return self._db.run(
            "intend",
            lambda c: creation.intend(
                c, asset_id, commit_id, fence, call_timeout_s, checker=self._db.checker
            ),
        )

    def created(self, asset_id: int, commit_id: UUID, fence: Fence, *, external_id: str) -> None:
        """Td: record the creation, only after a probe matched; `external_id` is the probe's.

        Raises:
            Fenced: Another executor took over.
            WrongState: The asset has no intent, or another commit creates it.
        """
        self._db.run(
            "created", lambda c: creation.created(c, asset_id, commit_id, fence, external_id)
        )

    def create_row(self, asset_id: int, commit_id: UUID, fence: Fence) -> IntentOutcome:
        """Create an asset of `states.ROW_KINDS` in one transaction: AlreadyLive or Waiting.

        Jobs begin stopped, at generation 1.
        """
        return self._db.run(
            "create_row_asset",
            lambda c: creation.create_row_asset(
                c, asset_id, commit_id, fence, self._db.rules, checker=self._db.checker
            ),
        )

    def create_failed(self, asset_id: int, commit_id: UUID, fence: Fence, *, error: Json) -> None:
        """Store the error of a call or a probe, for people; the intent stays."""
        self._db.run("create_failed", lambda c: creation.fail(c, asset_id, commit_id, fence, error))

    def quarantine(self, asset_id: int, commit_id: UUID, fence: Fence, *, difference: Json) -> None:
        """Quarantine an asset whose probe returned a mismatch; then abort the commit."""
        self._db.run(
            "quarantine",
            lambda c: creation.quarantine(c, asset_id, commit_id, fence, difference),
        )

    def physical_names(self, tenant: TenantId, assets: Iterable[AssetRef]) -> dict[AssetRef, str]:
        """Return the physical names of those assets that are not destroyed."""
        wanted = sorted(set(assets), key=lambda ref: (ref.kind.value, ref.fingerprint))
        return self._db.run("physical_names", lambda c: queries.physical_names(c, tenant, wanted))

    def retained(
        self,
        tenant: TenantId,
        *,
        after: int = 0,
        limit: int = 200,
        branches: Collection[str] | None = None,
    ) -> tuple[RetainedAssetView, ...]:
        """List assets that are not destroyed, by id, after a given id.

        With `branches`, only the assets that these branches hold, and only these branches' names.
        """
        return self._db.run(
            "retained_assets",
            lambda c: queries.retained_assets(
                c, tenant, after=after, limit=limit, branches=branches
            ),
        )

    def held_paths(self, tenant: TenantId, branches: Collection[str]) -> dict[int, frozenset[str]]:
        """Return the assets that branches hold, with their paths on these branches."""
        rows = self._db.run("held_paths", lambda c: on_reading.held_rows(c, tenant, branches))
        found: dict[int, frozenset[str]] = {}
        for row in rows:
            known = found.get(row.asset_id, frozenset())
            found[row.asset_id] = known | {row.logical_path}
        return found


@attrs.frozen
class Promotions:
    """Promotions of commits; each method is one transaction and may be repeated as it is."""

    _db: LedgerDatabase

    def readiness(self, commit_id: UUID) -> Readiness:
        """Judge all jobs of a commit at one moment; return the evidence for `promote`."""
        return self._db.run(
            "readiness", lambda c: promotion.readiness(c, commit_id, self._db.rules)
        )

    def approval(self, commit_id: UUID) -> ApprovalView:
        """Read whether a commit's promotion requires approval, and the person's decision."""
        return self._db.run("approval", lambda c: promotion.approval(c, commit_id))

    def approve(self, commit_id: UUID, *, actor: str) -> None:
        """Approve the promotion of a commit with policy MANUAL; the first approval is kept.

        Raises:
            WrongState: The promotion is over without an approval.
            NotFound: The commit has no promotion yet.
        """
        self._db.run("approve", lambda c: promotion.approve(c, commit_id, actor))

    def promote(
        self,
        commit_id: UUID,
        fence: Fence,
        *,
        evidence: tuple[JobEvidence, ...],
        gates: Collection[str] = (),
    ) -> int:
        """T_promote: flip readers to the commit; return the number that they see.

        Args:
            commit_id: The commit.
            fence: Its claim.
            evidence: The evidence of `readiness`.
            gates: The datasets whose history must have passed a quality gate.

        Raises:
            NotReady: A job is not ready, its current evidence differs from the given one, or a
                dataset is not checked yet.
            QualityBroken: A dataset breaks a critical expectation.
            WrongState: A later commit took over.
        """
        return self._db.run(
            "promote",
            lambda c: promotion.promote(c, commit_id, fence, evidence, self._db.rules, gates),
        )

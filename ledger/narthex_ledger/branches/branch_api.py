"""The part of the ledger that changes branches as a whole."""

from uuid import UUID

import attrs

from narthex_ledger.branches import lifecycle, rollback
from narthex_ledger.db.listening import BRANCHES, Listener
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import reading as on_reading
from narthex_ledger.model.views import (
    BranchId,
    BranchRequest,
    BranchView,
    RolledBack,
    TenantId,
)
from narthex_ledger.reading import queries
from narthex_ledger.session import LedgerDatabase


@attrs.frozen
class Branches:
    """Branches; each method is one transaction, and idempotent for the same key."""

    _db: LedgerDatabase

    def init(self, request: BranchRequest) -> BranchView:
        """Create an empty branch.

        Raises:
            BranchExists: The name is taken.
            LedgerRefused: The actor has made `Rules.most_branches_each` of them.
        """
        return self._db.run("init_branch", lambda c: lifecycle.init(c, request, self._db.rules))

    def clone(self, request: BranchRequest, *, source: str) -> BranchView:
        """Create a branch with another branch's deployed and served manifests; nothing is copied.

        Raises:
            BranchExists: The name is taken.
            NotFound: The branch to clone does not exist.
            LedgerRefused: The actor has made `Rules.most_branches_each` of them.
        """
        return self._db.run(
            "clone_branch", lambda c: lifecycle.clone(c, request, source, self._db.rules)
        )

    def delete(self, request: BranchRequest) -> BranchView:
        """Delete a branch; its assets are kept for `Rules.undelete_window`.

        Raises:
            CommitInProgress: A commit is in flight on it.
            MainStays: The branch is the main branch.
            NotFound: No branch has that name.
        """
        return self._db.run("delete_branch", lambda c: lifecycle.delete(c, request, self._db.rules))

    def undelete(self, request: BranchRequest) -> BranchView:
        """Restore the newest deleted branch of a name, and resume its jobs.

        Raises:
            BranchExists: Another branch has the name by now.
            NotFound: No deleted branch has that name.
            LedgerRefused: The branch's assets are not kept any more.
        """
        return self._db.run("undelete_branch", lambda c: lifecycle.undelete(c, request))

    def roll_back(self, request: BranchRequest, *, to_seq: int | None = None) -> RolledBack:
        """Redeploy the branch's commit of a number, or else the one that readers read before.

        Readers flip in the same transaction if the old jobs are still running.

        Raises:
            CommitInProgress: A commit is in flight on the branch.
            NotFound: The branch has no commit to roll back to.
            NotPinned: The commit is not kept any more; `detail` has the bundle to commit again.
        """
        return self._db.run(
            "roll_back", lambda c: rollback.roll_back(c, request, to_seq, self._db.rules)
        )

    def revert(self, request: BranchRequest, commit_id: UUID) -> RolledBack | None:
        """Roll back a commit that readers have not flipped to; None if it can't be reverted."""
        return self._db.run(
            "revert", lambda c: rollback.revert(c, request, commit_id, self._db.rules)
        )

    def reject(self, request: BranchRequest, commit_id: UUID, *, reason: str) -> RolledBack:
        """Roll back a commit that waits for an approval, in the name of the request's actor.

        Readers stay on what they read. The first decision counts: an approved commit is not
        rejected, and a rejected one is not approved.

        Raises:
            WrongState: The commit does not wait for an approval, or has one.
            CommitInProgress: Another commit is in flight on the branch.
            NotFound: The commit has no promotion, or the branch does not exist.
            NotPinned: The commit that readers read is not kept any more.
        """
        return self._db.run(
            "reject", lambda c: rollback.reject(c, request, commit_id, reason, self._db.rules)
        )

    def protect(self, tenant: TenantId, name: str, *, actor: str) -> None:
        """Require a person's approval for each promotion of a branch from now on.

        Raises:
            NotFound: No branch has that name.
        """
        self._db.run("protect_branch", lambda c: lifecycle.protect(c, tenant, name, actor, to=True))

    def unprotect(self, tenant: TenantId, name: str, *, actor: str) -> None:
        """Allow promotions of a branch without a person's approval.

        Raises:
            NotFound: No branch has that name.
        """
        self._db.run(
            "unprotect_branch", lambda c: lifecycle.protect(c, tenant, name, actor, to=False)
        )

    def ensure(self, tenant: TenantId, name: str) -> BranchId:
        """Find or create an active, empty branch; `main` is the tenant's main branch."""
        return self._db.run("ensure_branch", lambda c: on_commits.put_branch(c, tenant, name))

    def get(self, tenant: TenantId, name: str) -> BranchView:
        """Read an active branch.

        Raises:
            NotFound: No active branch has that name.
            NotSigned: Its head, or the commit that readers see, was never committed to it.
        """
        return self._db.run("branch", lambda c: queries.branch(c, tenant, name, self._db.checker))

    def get_by_id(self, branch_id: BranchId) -> BranchView:
        """Read a branch by id, including deleted branches.

        Raises:
            NotFound: No branch has that id.
        """
        return self._db.run("branch_of", lambda c: lifecycle.view_of(c, branch_id))

    def all(self, tenant: TenantId) -> tuple[BranchView, ...]:
        """List the active branches by name, then the deleted ones that can be restored."""
        return self._db.run("branches", lambda c: lifecycle.listed(c, tenant))

    def changes(self) -> Listener:
        """Return a listener of changes of any branch; the caller closes it."""
        return self._db.transactions.listener(BRANCHES)

    def first_binders(self, tenant: TenantId) -> dict[str, tuple[str, ...]]:
        """Return the active branches that have bound an endpoint's path, the earliest first."""
        rows = self._db.run("first_binders", lambda c: on_reading.first_binder_rows(c, tenant))
        found: dict[str, tuple[str, ...]] = {}
        for row in rows:
            path = row.logical_path
            found[path] = (*found.get(path, ()), row.name)
        return found

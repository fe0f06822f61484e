"""The part of the ledger's API that changes branches as a whole."""

from uuid import UUID

from narthex_ledger.branches import lifecycle, rollback
from narthex_ledger.commits import promotion
from narthex_ledger.model.views import (
    ApprovalView,
    BranchId,
    BranchRequest,
    BranchView,
    RolledBack,
    TenantId,
)
from narthex_ledger.session import LedgerDatabase


class BranchApi(LedgerDatabase):
    """The API of branches; each method is one transaction, and idempotent for the same key."""

    def init_branch(self, request: BranchRequest) -> BranchView:
        """Create an empty branch.

        Raises:
            BranchExists: The name is taken.
        """
        return self._run("init_branch", lambda c: lifecycle.init(c, request))

    def clone_branch(self, request: BranchRequest, *, source: str) -> BranchView:
        """Create a branch with another branch's deployed and served manifests; nothing is copied.

        Raises:
            BranchExists: The name is taken.
            NotFound: The branch to clone does not exist.
        """
        return self._run("clone_branch", lambda c: lifecycle.clone(c, request, source))

    def delete_branch(self, request: BranchRequest) -> BranchView:
        """Delete a branch; its assets are kept for `Rules.undelete_window`.

        Raises:
            CommitInProgress: A commit is in flight on it.
            MainStays: The branch is the main branch.
            NotFound: No branch has that name.
        """
        return self._run("delete_branch", lambda c: lifecycle.delete(c, request, self._rules))

    def undelete_branch(self, request: BranchRequest) -> BranchView:
        """Restore the newest deleted branch of a name, and resume its jobs.

        Raises:
            BranchExists: Another branch has the name by now.
            NotFound: No deleted branch has that name.
            LedgerRefused: The branch's assets are not kept any more.
        """
        return self._run("undelete_branch", lambda c: lifecycle.undelete(c, request))

    def roll_back(self, request: BranchRequest, *, to_seq: int | None = None) -> RolledBack:
        """Redeploy the branch's commit of a number, or else the one that readers read before.

        Readers flip in the same transaction if the old jobs are still running.

        Raises:
            CommitInProgress: A commit is in flight on the branch.
            NotFound: The branch has no commit to roll back to.
            NotPinned: The commit is not kept any more; `detail` has the bundle to commit again.
        """
        return self._run("roll_back", lambda c: rollback.roll_back(c, request, to_seq, self._rules))

    def revert(self, request: BranchRequest, commit_id: UUID) -> RolledBack | None:
        """Roll back a commit that readers have not flipped to; None if it can't be reverted."""
        return self._run("withdraw", lambda c: rollback.revert(c, request, commit_id, self._rules))

    def protect_branch(self, tenant: TenantId, name: str, *, actor: str) -> None:
        """Require a person's approval for each promotion of a branch from now on.

        Raises:
            NotFound: No branch has that name.
        """
        self._run("protect_branch", lambda c: lifecycle.protect(c, tenant, name, actor, to=True))

    def unprotect_branch(self, tenant: TenantId, name: str, *, actor: str) -> None:
        """Allow promotions of a branch without a person's approval.

        Raises:
            NotFound: No branch has that name.
        """
        self._run("unprotect_branch", lambda c: lifecycle.protect(c, tenant, name, actor, to=False))

    def approval(self, commit_id: UUID) -> ApprovalView:
        """Read whether a commit's promotion requires approval, and who approved it."""
        return self._run("approval", lambda c: promotion.approval(c, commit_id))

    def branch_of(self, branch_id: BranchId) -> BranchView:
        """Read a branch by id, including deleted branches.

        Raises:
            NotFound: No branch has that id.
        """
        return self._run("branch_of", lambda c: lifecycle.view_of(c, branch_id))

    def branches(self, tenant: TenantId) -> tuple[BranchView, ...]:
        """List the active branches by name, then the deleted ones that can be restored."""
        return self._run("branches", lambda c: lifecycle.listed(c, tenant))

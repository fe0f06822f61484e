"""The part of the front door that changes branches as a whole."""

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
    """Each method is one transaction; with the same key a second call changes nothing more."""

    def init_branch(self, request: BranchRequest) -> BranchView:
        """Make an empty branch.

        Raises:
            BranchExists: The name is taken.
        """
        return self._run("init_branch", lambda c: lifecycle.init(c, request))

    def clone_branch(self, request: BranchRequest, *, source: str) -> BranchView:
        """Make a branch that deploys and reads what another one does; nothing is copied.

        Raises:
            BranchExists: The name is taken.
            NotFound: There is no branch to clone.
        """
        return self._run("clone_branch", lambda c: lifecycle.clone(c, request, source))

    def delete_branch(self, request: BranchRequest) -> BranchView:
        """Delete a branch; its assets are kept for `Rules.undelete_window`.

        Raises:
            CommitInProgress: A commit is in flight on it.
            MainStays: It is the main branch.
            NotFound: There is none of that name.
        """
        return self._run("delete_branch", lambda c: lifecycle.delete(c, request, self._rules))

    def undelete_branch(self, request: BranchRequest) -> BranchView:
        """Bring the newest deleted branch of a name back, and let its jobs run again.

        Raises:
            BranchExists: Another branch has the name by now.
            NotFound: None of that name was deleted.
            Refused: What it held is not kept any more.
        """
        return self._run("undelete_branch", lambda c: lifecycle.undelete(c, request))

    def roll_back(self, request: BranchRequest, *, to_seq: int | None = None) -> RolledBack:
        """Deploy again what the branch had at a number, else what readers read before.

        Readers flip in the same transaction if the old jobs run still.

        Raises:
            CommitInProgress: A commit is in flight on the branch.
            NotFound: There is nothing to roll back to.
            NotPinned: It is not kept any more; `detail` has the bundle to commit again.
        """
        return self._run("roll_back", lambda c: rollback.roll_back(c, request, to_seq, self._rules))

    def revert(self, request: BranchRequest, commit_id: UUID) -> RolledBack | None:
        """Roll back a commit past its commit point that no reader reads; None if there is none."""
        return self._run("withdraw", lambda c: rollback.revert(c, request, commit_id, self._rules))

    def protect_branch(self, tenant: TenantId, name: str, *, actor: str) -> None:
        """Let a person approve each promotion of a branch from now on.

        Raises:
            NotFound: There is none of that name.
        """
        self._run("protect_branch", lambda c: lifecycle.protect(c, tenant, name, actor, to=True))

    def unprotect_branch(self, tenant: TenantId, name: str, *, actor: str) -> None:
        """Let promotions of a branch be made without a person.

        Raises:
            NotFound: There is none of that name.
        """
        self._run("unprotect_branch", lambda c: lifecycle.protect(c, tenant, name, actor, to=False))

    def approval(self, commit_id: UUID) -> ApprovalView:
        """Read whether a person has to approve a commit's promotion, and who did."""
        return self._run("approval", lambda c: promotion.approval(c, commit_id))

    def branch_of(self, branch_id: BranchId) -> BranchView:
        """Read a branch, a deleted one too, by id.

        Raises:
            NotFound: There is none of that id.
        """
        return self._run("branch_of", lambda c: lifecycle.view_of(c, branch_id))

    def branches(self, tenant: TenantId) -> tuple[BranchView, ...]:
        """List the active branches by name, then the deleted ones that can be brought back."""
        return self._run("branches", lambda c: lifecycle.listed(c, tenant))

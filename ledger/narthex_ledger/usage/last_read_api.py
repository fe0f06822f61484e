"""The part of the ledger for when datasets, features and branches were last read."""

import datetime as dt
from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

import attrs
from sqlalchemy.engine import Connection

from narthex_ledger.db import last_read_rows as on_reads
from narthex_ledger.model.usage_views import WHOLE_BRANCH, LastRead, ReadAges, ReadEntity
from narthex_ledger.model.views import BranchId, TenantId
from narthex_ledger.session import LedgerDatabase

STEP: Final = dt.timedelta(minutes=10)
"""A read is stored if it is newer than the stored one by at least this: rows change seldom."""


@attrs.frozen
class LastReads:
    """When entities of branches were last read; each method is one transaction."""

    _db: LedgerDatabase

    def follow(
        self, branch_id: BranchId, commit_id: UUID | None, entities: Collection[ReadEntity]
    ) -> bool:
        """Count the reads of what a branch serves, and of nothing else; return whether it does.

        New entities are counted from now on; those that are gone are forgotten. Nothing is done if
        the branch serves another commit meanwhile, or was deleted.

        Args:
            branch_id: The branch.
            commit_id: The commit that it serves; None if it serves nothing.
            entities: The datasets and features of the commit.
        """

        def work(connection: Connection) -> bool:
            if not on_reads.lock_serving(connection, branch_id, commit_id):
                return False
            on_reads.put_entities(connection, branch_id, [WHOLE_BRANCH, *entities])
            return True

        return self._db.run("follow_reads", work)

    def advance(self, tenant: TenantId, ages: ReadAges) -> None:
        """Store how long ago entities were read; an earlier read than the stored changes nothing.

        The branches of the entities count as read, too. Branches that do not exist are ignored.
        """
        whole: dict[tuple[str, ReadEntity], dt.timedelta] = {}
        for (branch, _), age in ages.items():
            whole[branch, WHOLE_BRANCH] = min(age, whole.get((branch, WHOLE_BRANCH), age))
        if whole:
            self._db.run(
                "advance_reads",
                lambda c: on_reads.raise_reads(c, tenant, {**ages, **whole}, step=STEP),
            )

    def forget(self) -> int:
        """Delete what is known of branches that can no longer be restored; return how many rows."""
        window = self._db.rules.undelete_window
        return self._db.run("forget_reads", lambda c: on_reads.delete_reads(c, deleted_for=window))

    def of_branch(self, branch_id: BranchId) -> Mapping[ReadEntity, LastRead]:
        """Return when the datasets and features of a branch were last read, and the branch."""
        return self._db.run("reads_of_branch", lambda c: on_reads.reads_of(c, branch_id))

    def of_branches(self) -> Mapping[BranchId, LastRead]:
        """Return when each branch was last read."""
        return self._db.run("reads_of_branches", on_reads.branch_reads)

"""The part of the ledger for training sets."""

from collections.abc import Collection
from uuid import UUID

import attrs
from sqlalchemy.engine import Connection

from narthex_ledger.db.statements import training_sets as on_sets
from narthex_ledger.errors import LedgerRefused, NotFound
from narthex_ledger.model.offline_views import TrainingSetView
from narthex_ledger.session import LedgerDatabase
from narthex_ledger.signing.signatures import training_set_statement


@attrs.frozen
class TrainingSets:
    """Training sets; each method is one transaction and may be repeated as it is.

    A set is never changed: the database refuses it, and one that was changed nevertheless has no
    valid signature. Methods that return sets raise NotSigned for one.
    """

    _db: LedgerDatabase

    def store(self, fresh: TrainingSetView) -> TrainingSetView:
        """Store a training set, and return it with its time.

        If the branch has one of that name for the same request, return that one.

        Raises:
            LedgerRefused: The branch has one of that name for another request.
        """
        signature = self._db.attest(training_set_statement(fresh))

        def run(connection: Connection) -> TrainingSetView:
            on_sets.insert_set(connection, fresh, signature)
            stored = on_sets.find_set(connection, fresh.branch, fresh.name)
            if stored is None:
                raise NotFound(f"there is no training set `{fresh.name}`")
            if stored.content_sha256 != fresh.content_sha256:
                raise LedgerRefused(
                    f"training set `{fresh.name}` exists with another spine, other features or "
                    "other offsets; choose another name, or delete it first"
                )
            self._db.checker.training_set(stored)
            return stored

        return self._db.run("store_training_set", run)

    def get(self, branch: str, name: str) -> TrainingSetView:
        """Read a training set.

        Raises:
            NotFound: The branch has none of that name.
        """
        found = self.find(branch, name)
        if found is None:
            raise NotFound(f"there is no training set `{name}`")
        return found

    def find(self, branch: str, name: str) -> TrainingSetView | None:
        """Read a training set; None if the branch has none of that name."""
        found = self._db.run("training_set", lambda c: on_sets.find_set(c, branch, name))
        if found is not None:
            self._db.checker.training_set(found)
        return found

    def newest(
        self, branch: str, *, limit: int, before: str | None = None
    ) -> tuple[TrainingSetView, ...]:
        """List the training sets of a branch, the newest first.

        Args:
            branch: The name of the branch.
            limit: The greatest number of sets to return.
            before: The name of a set; only those that were stored before it are listed.
        """
        found = self._db.run(
            "newest_training_sets", lambda c: on_sets.newest_sets(c, branch, limit, before)
        )
        for view in found:
            self._db.checker.training_set(view)
        return found

    def delete(self, training_set_id: UUID) -> bool:
        """Delete a training set; return whether there was one of that id."""
        return self._db.run("delete_training_set", lambda c: on_sets.delete_set(c, training_set_id))

    def known(self, ids: Collection[UUID]) -> frozenset[UUID]:
        """Return those of the ids that training sets have."""
        return self._db.run("known_training_sets", lambda c: on_sets.known_ids(c, ids))

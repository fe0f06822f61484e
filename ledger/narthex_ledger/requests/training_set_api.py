"""The part of the ledger for training sets."""

from collections.abc import Collection
from uuid import UUID

import attrs
from sqlalchemy.engine import Connection

from narthex_ledger.db.statements import training_sets as on_sets
from narthex_ledger.errors import NotFound
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

    def store(
        self, fresh: TrainingSetView, *, beside: Collection[UUID] = frozenset()
    ) -> TrainingSetView:
        """Store a training set, and return it with its time.

        If the branch has one of that name already, return the oldest one instead.

        Args:
            fresh: The set.
            beside: The ids of sets of that name that do not count.
        """
        signature = self._db.attest(training_set_statement(fresh))

        def run(connection: Connection) -> TrainingSetView:
            on_sets.lock_name(connection, fresh.branch, fresh.name)
            stored = _first(connection, fresh, beside)
            if stored is None:
                on_sets.insert_set(connection, fresh, signature)
                stored = _first(connection, fresh, beside)
            if stored is None:
                raise NotFound(f"there is no training set `{fresh.name}`")
            self._db.checker.training_set(stored)
            return stored

        return self._db.run("store_training_set", run)

    def get(self, branch: str, name: str) -> TrainingSetView:
        """Read a training set, the oldest one of its name.

        Raises:
            NotFound: The branch has none of that name.
        """
        found = self.named(branch, name)
        if not found:
            raise NotFound(f"there is no training set `{name}`")
        return found[0]

    def named(self, branch: str, name: str) -> tuple[TrainingSetView, ...]:
        """List the training sets of a name, the oldest first.

        There are several if the makers of later ones did not see those before.
        """
        found = self._db.run("training_set", lambda c: on_sets.sets_named(c, branch, name))
        for view in found:
            self._db.checker.training_set(view)
        return found

    def newest(
        self, branch: str, *, limit: int, before: UUID | None = None
    ) -> tuple[TrainingSetView, ...]:
        """List the training sets of a branch, the newest first.

        Args:
            branch: The name of the branch.
            limit: The greatest number of sets to return.
            before: The id of a set; only those that were stored before it are listed.
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


def _first(
    connection: Connection, like: TrainingSetView, beside: Collection[UUID]
) -> TrainingSetView | None:
    """Return the oldest set of the name of another one that counts."""
    named = on_sets.sets_named(connection, like.branch, like.name)
    return next((one for one in named if one.training_set_id not in beside), None)

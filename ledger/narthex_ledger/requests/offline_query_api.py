"""The part of the ledger for offline queries."""

from collections.abc import Collection
from uuid import UUID

import attrs

from narthex._base import Json
from narthex_ledger.db.statements import offline as on_offline
from narthex_ledger.errors import Fenced
from narthex_ledger.model.offline_views import OfflineView
from narthex_ledger.model.states import OfflineState
from narthex_ledger.model.views import Epoch
from narthex_ledger.requests import offline_queries
from narthex_ledger.session import LedgerDatabase
from narthex_ledger.signing.signatures import offline_statement


@attrs.frozen
class OfflineQueries:
    """Offline queries; each method is one transaction and may be repeated as it is."""

    _db: LedgerDatabase

    def submit(
        self,
        request_id: UUID,
        *,
        manifest_id: UUID,
        request: Json,
        actor: str,
        most_of_actor: int | None = None,
    ) -> OfflineView:
        """Queue an offline query and pin its manifest; the same id returns the existing query.

        Args:
            request_id: The id of the query.
            manifest_id: The manifest of the commit that it reads.
            request: The query, for its engine.
            actor: The token that asks.
            most_of_actor: How many queries of this token may wait or run; None for any number.

        Raises:
            NotPinned: The manifest is not pinned any more.
            TooManyOfflineQueries: As many queries of the token wait or run.
        """
        signature = self._db.attest(offline_statement(request_id, manifest_id, actor, request))
        return self._db.run(
            "submit_offline",
            lambda c: offline_queries.submit(
                c,
                request_id,
                manifest_id,
                request=request,
                actor=actor,
                signature=signature,
                most_of_actor=most_of_actor,
            ),
        )

    def get(self, request_id: UUID) -> OfflineView:
        """Read an offline query.

        Raises:
            NotFound: No offline query has that id.
        """
        return self._db.run("offline", lambda c: offline_queries.view(c, request_id))

    def newest(
        self, branch: str, *, limit: int, before: UUID | None = None
    ) -> tuple[OfflineView, ...]:
        """List the offline queries of a branch, the newest first.

        Args:
            branch: The name of the branch.
            limit: The greatest number of queries to return.
            before: A query; only those that were queued before it are listed.
        """
        return self._db.run(
            "newest_offline", lambda c: offline_queries.newest(c, branch, limit, before)
        )

    def for_set(self, branch: str, training_set: Json) -> UUID | None:
        """Return the newest query of a branch that names a training set in its request.

        Queries that failed or were cancelled do not count.
        """
        return self._db.run(
            "offline_for_set",
            lambda c: on_offline.find_sound(c, branch, {"training_set": training_set}),
        )

    def cancel(self, request_id: UUID) -> OfflineState:
        """End an offline query that has not ended; its engine is fenced."""
        return self._db.run("cancel_offline", lambda c: offline_queries.cancel(c, request_id))

    def claim(self, owner: str, *, at_once: int = 1) -> OfflineView | None:
        """Lease the next offline query that is queued or abandoned, for 60 s.

        Tokens take turns, and the branches of a token: it is the oldest query of the one whose last
        query began longest ago.

        Args:
            owner: The engine that will run it.
            at_once: How many queries of one token the engine runs at once; of several, a branch
                gets all but one, so that another branch need not wait for it.
        """
        lease_s, checker = self._db.rules.offline_lease_s, self._db.checker
        return self._db.run(
            "claim_offline",
            lambda c: offline_queries.claim(c, owner, lease_s, checker, at_once=at_once),
        )

    def extend(self, request_id: UUID, epoch: Epoch, *, within_s: float | None = None) -> None:
        """Extend the lease of a query, to 60 s from now.

        Args:
            request_id: The query.
            epoch: The fence of its engine.
            within_s: The greatest time that it may run, in seconds; after that it is failed.

        Raises:
            Fenced: The query was cancelled or taken over, or its time is over; stop.
        """
        lease_s = self._db.rules.offline_lease_s
        is_extended = self._db.run(
            "extend_offline",
            lambda c: offline_queries.extend(c, request_id, epoch, lease_s, within_s=within_s),
        )
        if not is_extended:
            raise Fenced(f"offline query `{request_id}` took longer than {within_s:g} s")

    def report(self, request_id: UUID, epoch: Epoch, *, progress: Json) -> None:
        """Store a query's progress.

        Raises:
            Fenced: The query was cancelled or taken over; stop.
        """
        self._db.run(
            "report_offline", lambda c: offline_queries.progress(c, request_id, epoch, progress)
        )

    def finish(self, request_id: UUID, epoch: Epoch, *, result: Json) -> None:
        """End a query with its result.

        Raises:
            Fenced: The query was cancelled or taken over.
        """
        done = OfflineState.DONE
        self._db.run(
            "finish_offline", lambda c: offline_queries.finish(c, request_id, epoch, done, result)
        )

    def fail(self, request_id: UUID, epoch: Epoch, *, error: Json) -> None:
        """End a query with the reason why it can't be answered.

        Raises:
            Fenced: The query was cancelled or taken over.
        """
        failed = OfflineState.FAILED
        self._db.run(
            "fail_offline", lambda c: offline_queries.finish(c, request_id, epoch, failed, error)
        )

    def kept(self, ids: Collection[UUID]) -> frozenset[UUID]:
        """Return those of the ids whose queries have not ended, or ended within the last 7 days."""
        keep = self._db.rules.offline_kept
        return self._db.run("kept_offline", lambda c: offline_queries.kept(c, ids, keep))

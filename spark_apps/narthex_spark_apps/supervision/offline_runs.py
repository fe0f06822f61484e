"""The offline queries that a supervisor's driver answers: their leases, reports and ends.

A supervisor claims a few queries at once, not all of them of one branch. It extends their leases
with those of its slots, however long the driver computes without a report; when the time of a
query is over, the ledger fails it instead. A query that was failed, cancelled or taken over is
forgotten, and the driver stops it, because it is not among its work any more. The last report is
stored again until the ledger has it: the driver sends it once.
"""

from typing import Final
from uuid import UUID

import attrs
import structlog

from narthex_ledger import Epoch, Fenced, Ledger, OfflineState
from narthex_spark_apps.supervision.runner_messages import OfflineReport, OfflineRun

log = structlog.get_logger()

ATTEMPTS: Final = 3
"""The number of drivers that may end while they answer a query, until it is failed."""

_LEAST_AT_ONCE: Final = 2
_MOST_AT_ONCE: Final = 4
"""A driver answers queries beside its live jobs, in threads of one Python process."""


def usual_at_once(cores: int) -> int:
    """Return how many offline queries run at once on a machine, unless its operator decides.

    They are at least two, so that an endless one is never the only one that runs.
    """
    return max(_LEAST_AT_ONCE, min(cores, _MOST_AT_ONCE))


@attrs.define
class _Claimed:
    """A query that this supervisor has leased.

    Attributes:
        restarts: How often the driver had been restarted when it was claimed.
        report: The newest report that the ledger does not have yet.
    """

    run: OfflineRun
    restarts: int
    report: OfflineReport | None = None


class OfflineRuns:
    """The offline queries of one supervisor, a few at once."""

    def __init__(
        self, ledger: Ledger, owner: str, *, at_once: int = 1, within_s: float | None = None
    ) -> None:
        """Start without a query.

        Args:
            ledger: The queries and their leases.
            owner: The name for leases.
            at_once: The greatest number of queries of one token at once. Beside several, there
                is one more place, for which no token can wait that has filled the others.
            within_s: The greatest time of each, in seconds; None for any.
        """
        self._ledger = ledger
        self._owner = owner
        self._at_once = at_once
        self._places = at_once + 1 if at_once > 1 else 1
        self._within_s = within_s
        self._claimed: dict[tuple[UUID, Epoch], _Claimed] = {}

    @property
    def runs(self) -> tuple[OfflineRun, ...]:
        """The queries that the driver should answer."""
        return tuple(claimed.run for claimed in self._claimed.values())

    def take(self, *, restarts: int) -> None:
        """Claim queries until there are as many as may run at once, or none waits.

        Args:
            restarts: How often the driver has been restarted until now.
        """
        while len(self._claimed) < self._places:
            query = self._ledger.offline_queries.claim(self._owner, at_once=self._at_once)
            if query is None:
                return
            run = OfflineRun(
                request_id=str(query.request_id), epoch=int(query.epoch), request=query.request
            )
            self._claimed[query.request_id, query.epoch] = _Claimed(run, restarts)

    def hold(self, *, restarts: int) -> None:
        """Extend the leases; fail a query at which several drivers have ended.

        Args:
            restarts: How often the driver has been restarted until now.
        """
        for identity, claimed in [*self._claimed.items()]:
            if restarts - claimed.restarts >= ATTEMPTS:
                self.note(
                    _failed(claimed.run, f"the driver ended {ATTEMPTS} times while answering")
                )
                self._pass_on(identity)
                continue
            try:
                self._ledger.offline_queries.extend(*identity, within_s=self._within_s)
            except Fenced as error:
                self._lose(identity, error)

    def note(self, report: OfflineReport) -> None:
        """Note a report of the driver; one about another query is of a query that was forgotten."""
        claimed = self._claimed.get(_identity(report))
        if claimed is None:
            return
        if claimed.report is None or claimed.report.state == OfflineState.RUNNING:
            claimed.report = report

    def pass_on(self) -> None:
        """Store the newest reports in the ledger; forget queries that they end, or that were lost.

        Raises:
            LedgerError: The ledger did not answer; the reports are stored at the next call.
        """
        for identity in [*self._claimed]:
            self._pass_on(identity)

    def let_go(self) -> None:
        """Forget the queries; each is answered again once its lease has ended."""
        self._claimed.clear()

    def _pass_on(self, identity: tuple[UUID, Epoch]) -> None:
        claimed = self._claimed[identity]
        if claimed.report is None:
            return
        try:
            self._store(claimed.report)
        except Fenced as error:
            self._lose(identity, error)
            return
        has_ended = claimed.report.state != OfflineState.RUNNING
        claimed.report = None
        if has_ended:
            del self._claimed[identity]

    def _store(self, report: OfflineReport) -> None:
        request_id, epoch = _identity(report)
        queries = self._ledger.offline_queries
        match OfflineState(report.state):
            case OfflineState.DONE:
                queries.finish(request_id, epoch, result=report.progress)
            case OfflineState.FAILED:
                queries.fail(request_id, epoch, error=report.error)
            case _:
                queries.report(request_id, epoch, progress=report.progress)

    def _lose(self, identity: tuple[UUID, Epoch], error: Fenced) -> None:
        log.info("offline_query_lost", reason=str(error))
        del self._claimed[identity]


def _identity(of: OfflineRun | OfflineReport) -> tuple[UUID, Epoch]:
    return UUID(of.request_id), Epoch(of.epoch)


def _failed(run: OfflineRun, error: str) -> OfflineReport:
    return OfflineReport(
        request_id=run.request_id, epoch=run.epoch, state=OfflineState.FAILED.value, error=error
    )

"""The offline query that a supervisor's driver answers: its lease, its reports and its end.

A supervisor claims one query at a time. It extends the lease with those of its slots, however long
the driver computes without a report. A query that was cancelled or taken over is forgotten, and
the driver stops it, because it is not among its work any more. The last report is stored again
until the ledger has it: the driver sends it once.
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
    """The offline query of one supervisor, at most one."""

    def __init__(self, ledger: Ledger, owner: str) -> None:
        """Start without a query; `owner` is the name for leases."""
        self._ledger = ledger
        self._owner = owner
        self._claimed: _Claimed | None = None

    @property
    def runs(self) -> tuple[OfflineRun, ...]:
        """The query that the driver should answer; empty without one."""
        return () if self._claimed is None else (self._claimed.run,)

    def take(self, *, restarts: int) -> None:
        """Claim a query if there is none yet.

        Args:
            restarts: How often the driver has been restarted until now.
        """
        query = None if self._claimed else self._ledger.offline_queries.claim(self._owner)
        if query is not None:
            run = OfflineRun(
                request_id=str(query.request_id), epoch=int(query.epoch), request=query.request
            )
            self._claimed = _Claimed(run, restarts)

    def hold(self, *, restarts: int) -> None:
        """Extend the lease; fail a query at which several drivers have ended.

        Args:
            restarts: How often the driver has been restarted until now.
        """
        claimed = self._claimed
        if claimed is None:
            return
        if restarts - claimed.restarts >= ATTEMPTS:
            self.note(_failed(claimed.run, f"the driver ended {ATTEMPTS} times while answering"))
            self.pass_on()
            return
        request_id, epoch = _identity(claimed.run)
        try:
            self._ledger.offline_queries.extend(request_id, epoch)
        except Fenced as error:
            self._lose(error)

    def note(self, report: OfflineReport) -> None:
        """Note a report of the driver; one about another query is of a query that was forgotten."""
        claimed = self._claimed
        if claimed is None or _identity(claimed.run) != _identity(report):
            return
        if claimed.report is None or claimed.report.state == OfflineState.RUNNING:
            claimed.report = report

    def pass_on(self) -> None:
        """Store the newest report in the ledger; forget a query that it ends, or that was lost.

        Raises:
            LedgerError: The ledger did not answer; the report is stored at the next call.
        """
        claimed = self._claimed
        if claimed is None or claimed.report is None:
            return
        try:
            self._store(claimed.report)
        except Fenced as error:
            self._lose(error)
            return
        has_ended = claimed.report.state != OfflineState.RUNNING
        claimed.report = None
        if has_ended:
            self._claimed = None

    def let_go(self) -> None:
        """Forget the query; it is answered again once its lease has ended."""
        self._claimed = None

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

    def _lose(self, error: Fenced) -> None:
        log.info("offline_query_lost", reason=str(error))
        self._claimed = None


def _identity(of: OfflineRun | OfflineReport) -> tuple[UUID, Epoch]:
    return UUID(of.request_id), Epoch(of.epoch)


def _failed(run: OfflineRun, error: str) -> OfflineReport:
    return OfflineReport(
        request_id=run.request_id, epoch=run.epoch, state=OfflineState.FAILED.value, error=error
    )

"""Offline queries and small backfills: a driver runs each once, beside its live jobs.

Each runs in a thread of its own, on the Spark session of the driver.
"""

import functools
import threading
from collections.abc import Callable
from uuid import UUID

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from narthex._base import Json
from narthex._runtime.workers import WorkerPool
from narthex.errors import NarthexError
from narthex.settings import Settings
from narthex_ledger import Ledger, Verifier
from narthex_spark_apps.jobs.backfill import Backfill
from narthex_spark_apps.offline.queries import answer_query, parse_query
from narthex_spark_apps.supervision.runner import describe_error
from narthex_spark_apps.supervision.runner.lease_inbox import Send
from narthex_spark_apps.supervision.runner_messages import (
    BackfillEnded,
    DesiredAssignments,
    OfflineReport,
    OfflineRun,
)
from narthex_stores import StoreError

log = structlog.get_logger()


class Requests:
    """The offline queries and backfills of one driver; each is begun once."""

    def __init__(self, settings: Settings, session: SparkSession, send: Send) -> None:
        """Prepare; `send` sends to the supervisor, from any thread."""
        self._settings = settings
        self._session = session
        self._send = send
        self._begun: set[str] = set()

    def __call__(self, desired: DesiredAssignments) -> None:
        """Begin what is new in the newest assignments."""
        for run in desired.offline:
            self._begin(f"offline-{run.request_id}", functools.partial(self._answer, run))
        for commit_id in desired.backfills:
            self._begin(f"backfill-{commit_id}", functools.partial(self._fill, commit_id))

    def _begin(self, name: str, work: Callable[[], None]) -> None:
        if name not in self._begun:
            self._begun.add(name)
            threading.Thread(target=work, name=name, daemon=True).start()

    def _answer(self, run: OfflineRun) -> None:
        def report(progress: dict[str, Json]) -> None:
            self._send(_offline(run, "running", progress))

        report({})
        try:
            query = parse_query(run.request, self._settings.offline_directory(run.request_id))
            with WorkerPool(size=1) as workers:
                rows = answer_query(self._session, query, workers=workers, progress=report)
        except (
            NarthexError,
            PySparkException,
            StoreError,
            OSError,
            ValueError,
            TypeError,
            KeyError,
        ) as error:
            log.warning("offline_query_failed", request_id=run.request_id, error=str(error))
            self._send(_offline(run, "failed", {}, error=str(error)))
        else:
            self._send(_offline(run, "done", {"rows": rows}))

    def _fill(self, commit_id: str) -> None:
        def progress(line: str) -> None:
            log.info("backfill", commit_id=commit_id, step=line.strip())

        ledger = Ledger(
            self._settings.ledger_dsn, verifier=Verifier.find(self._settings.verifying_key)
        )
        error = ""
        try:
            Backfill(
                UUID(commit_id),
                ledger=ledger,
                settings=self._settings,
                session=lambda: self._session,
            ).run(progress=progress)
        except Exception as failed:  # noqa: BLE001 - any failure is repeated elsewhere, and told
            error = describe_error(failed)
            log.warning("backfill_failed", commit_id=commit_id, error=error)
        finally:
            ledger.close()
        self._send(BackfillEnded(commit_id=commit_id, error=error))


def _offline(
    run: OfflineRun, state: str, progress: dict[str, Json], *, error: str | None = None
) -> OfflineReport:
    return OfflineReport(
        request_id=run.request_id, epoch=run.epoch, state=state, progress=progress, error=error
    )

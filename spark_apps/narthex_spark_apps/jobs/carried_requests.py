"""An offline query and a backfill, carried out once in a driver.

These need the ledger and its database client, which the live jobs of a driver do not: `requests`
imports this module at the first request.
"""

from contextlib import closing
from uuid import UUID

import structlog
from pyspark.sql import SparkSession

from narthex._base import Json
from narthex._runtime.workers import WorkerPool
from narthex.errors import NarthexError
from narthex.settings import Settings
from narthex_ledger import Ledger, Verifier
from narthex_spark_apps.jobs.backfill import Backfill
from narthex_spark_apps.jobs.requests import Stop, StoppedError
from narthex_spark_apps.offline.offline_request import parse_query
from narthex_spark_apps.offline.queries import answer_query
from narthex_spark_apps.supervision.runner import describe_error
from narthex_spark_apps.supervision.runner.lease_inbox import Send
from narthex_spark_apps.supervision.runner_messages import (
    BackfillEnded,
    OfflineReport,
    OfflineRun,
)
from narthex_stores import StoreError

log = structlog.get_logger()

_REFUSALS = (NarthexError, StoreError, OSError, ValueError, TypeError, KeyError)
"""Errors whose messages are for the author of the query."""


def answer(
    run: OfflineRun, settings: Settings, session: SparkSession, send: Send, stop: Stop
) -> None:
    """Answer an offline query; report its start, its progress and its end."""

    def report(progress: dict[str, Json]) -> None:
        send(_offline(run, "running", progress))

    report({})
    try:
        query = parse_query(run.request, settings, request_id=run.request_id, epoch=run.epoch)
        with WorkerPool(size=1) as workers:
            stop.then(workers.kill)
            result = answer_query(lambda: session, query, workers=workers, progress=report)
    except StoppedError:
        raise
    except _REFUSALS as error:
        log.warning("offline_query_failed", request_id=run.request_id, error=str(error))
        send(_offline(run, "failed", {}, error=str(error)))
    except Exception as error:
        log.exception("offline_query_failed", request_id=run.request_id)
        send(_offline(run, "failed", {}, error=describe_error(error)))
    else:
        send(_offline(run, "done", {"rows": result.rows, "offsets": result.offsets}))


def fill(commit_id: str, settings: Settings, session: SparkSession, send: Send) -> None:
    """Run the backfill of a commit; report its end."""

    def progress(line: str) -> None:
        log.info("backfill", commit_id=commit_id, step=line.strip())

    error = ""
    try:
        verifier = Verifier.load(settings.verifying_key)
        with closing(Ledger(settings.ledger_dsn, verifier=verifier)) as ledger:
            Backfill(
                UUID(commit_id), ledger=ledger, settings=settings, session=lambda: session
            ).run(progress=progress)
    except Exception as failed:  # noqa: BLE001 - any failure is repeated elsewhere, and told
        error = describe_error(failed)
        log.warning("backfill_failed", commit_id=commit_id, error=error)
    send(BackfillEnded(commit_id=commit_id, error=error))


def _offline(
    run: OfflineRun, state: str, progress: dict[str, Json], *, error: str | None = None
) -> OfflineReport:
    return OfflineReport(
        request_id=run.request_id, epoch=run.epoch, state=state, progress=progress, error=error
    )

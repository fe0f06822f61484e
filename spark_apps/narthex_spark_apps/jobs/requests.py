"""Offline queries and small backfills: a driver runs each once, beside its live jobs.

Each runs in a thread of its own, on the Spark session of the driver. An offline query that is no
longer assigned is stopped: its Spark jobs are cancelled, it sends nothing more, and it ends with
its next report.
"""

import functools
import pkgutil
import threading
from collections.abc import Callable
from typing import Final

import attrs
import structlog
from pyspark.sql import SparkSession

from narthex.settings import Settings
from narthex_spark_apps.supervision.runner.lease_inbox import Send
from narthex_spark_apps.supervision.runner_messages import (
    DesiredAssignments,
    OfflineRun,
    RunnerMessage,
)

log = structlog.get_logger()

ANSWER: Final = "narthex_spark_apps.jobs.carried_requests:answer"
FILL: Final = "narthex_spark_apps.jobs.carried_requests:fill"


class StoppedError(Exception):
    """An offline query is not assigned any more."""


@attrs.frozen(eq=False)
class _Answering:
    """A run of an offline query.

    Attributes:
        before: The previous run of the same query, which must have ended before this one begins.
    """

    run: OfflineRun
    before: "_Answering | None"
    stopped: threading.Event = attrs.field(factory=threading.Event)
    ended: threading.Event = attrs.field(factory=threading.Event)

    @property
    def job_group(self) -> str:
        """The name of its jobs in Spark."""
        return f"offline-{self.run.request_id}-{self.run.epoch}"


class Requests:
    """The offline queries and backfills of one driver; each is begun once."""

    def __init__(
        self,
        settings: Settings,
        session: SparkSession,
        send: Send,
        *,
        answer: str = ANSWER,
        fill: str = FILL,
    ) -> None:
        """Prepare.

        Args:
            settings: The installation's settings.
            session: The Spark session of the driver.
            send: Sends to the supervisor, from any thread.
            answer: The name of the function that answers an offline query.
            fill: The name of the function that runs a backfill.
        """
        self._settings = settings
        self._session = session
        self._send = send
        self._answer_name, self._fill_name = answer, fill
        self._filled: set[str] = set()
        self._answering: dict[tuple[str, int], _Answering] = {}

    def __call__(self, desired: DesiredAssignments) -> None:
        """Begin what is new in the newest assignments; stop the queries that are not in them."""
        wanted = {(run.request_id, run.epoch): run for run in desired.offline}
        for name, answering in self._answering.items():
            if name not in wanted:
                self._stop(answering)
        for name, run in wanted.items():
            before = self._answering.get(name)
            if before is None or before.stopped.is_set():
                self._answering[name] = _Answering(run, before)
                _begin(functools.partial(self._answer, self._answering[name]))
        for commit_id in desired.backfills:
            if commit_id not in self._filled:
                self._filled.add(commit_id)
                _begin(functools.partial(self._fill, commit_id))

    def _stop(self, answering: _Answering) -> None:
        if not answering.stopped.is_set():
            answering.stopped.set()
            # A job that begins at this moment runs to its end; then the query stops.
            self._session.sparkContext.cancelJobGroup(answering.job_group)

    def _answer(self, answering: _Answering) -> None:
        try:
            if answering.before is not None:
                answering.before.ended.wait()
            self._session.sparkContext.setJobGroup(answering.job_group, "offline query")
            send = functools.partial(self._send_assigned, answering)
            self._carry_out(self._answer_name, answering.run, send)
        except Exception as error:
            # A stopped query ends by the error of a cancelled job, or by its next report.
            if not answering.stopped.is_set():
                raise
            log.info("offline_query_stopped", run=answering.job_group, error=type(error).__name__)
        finally:
            answering.ended.set()

    def _send_assigned(self, answering: _Answering, message: RunnerMessage) -> None:
        if answering.stopped.is_set():
            raise StoppedError
        self._send(message)

    def _fill(self, commit_id: str) -> None:
        self._carry_out(self._fill_name, commit_id, self._send)

    def _carry_out(self, function: str, request: OfflineRun | str, send: Send) -> None:
        # Imported now: a driver starts faster without the ledger, which no live job needs.
        pkgutil.resolve_name(function)(request, self._settings, self._session, send)


def _begin(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="request", daemon=True).start()

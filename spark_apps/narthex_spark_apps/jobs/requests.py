"""Offline queries and small backfills: a driver runs each once, beside its live jobs.

Each runs in a thread of its own, on the Spark session of the driver. An offline query that is no
longer assigned is stopped: its Spark jobs are cancelled and its workers are killed, it sends
nothing more, and it ends with its next report.
"""

import functools
import itertools
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

_RUNS: Final = itertools.count(1)
"""The numbers of runs in this process: Spark starts no job again of a group that was cancelled."""


class StoppedError(Exception):
    """An offline query is not assigned any more."""


@attrs.define(eq=False)
class Stop:
    """Whether a run has to stop, and what ends its work then; any thread may use it."""

    is_asked: bool = False
    _ends: list[Callable[[], None]] = attrs.field(factory=list)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def then(self, end: Callable[[], None]) -> None:
        """Call a function once the run has to stop, or now if it has to already."""
        with self._lock:
            self._ends.append(end)
            if not self.is_asked:
                return
        end()

    def ask(self) -> None:
        """Stop the run; asking again does nothing."""
        with self._lock:
            if self.is_asked:
                return
            self.is_asked = True
            ends = [*self._ends]
        for end in ends:
            end()


@attrs.frozen(eq=False)
class _Answering:
    """A run of an offline query.

    Attributes:
        job_group: The name of its jobs in Spark; no other run has it.
        before: The previous run of the same query, which must have ended before this one begins.
    """

    run: OfflineRun
    job_group: str
    before: "_Answering | None"
    stop: Stop = attrs.field(factory=Stop)
    ended: threading.Event = attrs.field(factory=threading.Event)


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
            answer: The name of the function that answers an offline query. Its module is imported
                at the first one: a driver starts faster without the ledger.
            fill: The name of the function that runs a backfill, likewise.
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
                answering.stop.ask()
        for name, run in wanted.items():
            before = self._answering.get(name)
            if before is None or before.stop.is_asked:
                self._answering[name] = self._new(run, before)
                _begin(functools.partial(self._answer, self._answering[name]))
        for commit_id in desired.backfills:
            if commit_id not in self._filled:
                self._filled.add(commit_id)
                _begin(functools.partial(self._fill, commit_id))

    def _new(self, run: OfflineRun, before: _Answering | None) -> _Answering:
        group = f"offline-{run.request_id}-{run.epoch}-{next(_RUNS)}"
        answering = _Answering(run, group, before)
        context = self._session.sparkContext
        # PySpark's own method does not cancel a job that begins at this moment.
        answering.stop.then(lambda: context._jsc.sc().cancelJobGroupAndFutureJobs(group))  # noqa: SLF001
        return answering

    def _answer(self, answering: _Answering) -> None:
        try:
            if answering.before is not None:
                answering.before.ended.wait()
            self._session.sparkContext.setJobGroup(answering.job_group, "offline query")
            send = functools.partial(self._send_assigned, answering)
            answer = pkgutil.resolve_name(self._answer_name)
            answer(answering.run, self._settings, self._session, send, answering.stop)
        except Exception as error:
            # A stopped query ends by the error of a cancelled job, or by its next report.
            if not answering.stop.is_asked:
                raise
            log.info("offline_query_stopped", run=answering.job_group, error=type(error).__name__)
        finally:
            answering.ended.set()

    def _send_assigned(self, answering: _Answering, message: RunnerMessage) -> None:
        if answering.stop.is_asked:
            raise StoppedError
        self._send(message)

    def _fill(self, commit_id: str) -> None:
        fill = pkgutil.resolve_name(self._fill_name)
        fill(commit_id, self._settings, self._session, self._send)


def _begin(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="request", daemon=True).start()

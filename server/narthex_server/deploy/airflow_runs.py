"""The runs of commits in Airflow: started and watched in a thread of their own.

A hanging Airflow must not delay the recovery loop, which ends commits.
"""

import time
from collections.abc import Callable
from uuid import UUID

import attrs
import httpx
import structlog

from narthex_ledger import CommitView
from narthex_server.background_loop import BackgroundLoop
from narthex_server.deploy.airflow_client import APPROVE, REJECT, Airflow, run_of
from narthex_server.deploy.commit_traces import traceparent_of

log = structlog.get_logger()

ROUND_EVERY_S = 5.0
SILENT_S = 60.0
UNREACHED_S = 30.0
"""How long to wait for an Airflow that has not taken a run: a busy one answers late."""


@attrs.define
class _Run:
    """The known state of a commit's run.

    Attributes:
        run_id: Its id in Airflow.
        traceparent: The trace of the call that made the commit; empty if there is none.
        heard: When Airflow, or a task of the run, was last known to work on it.
        is_due: The run is to be started, and Airflow has not confirmed that it has it.
        is_taken: Airflow has the run.
        answer: The answer of a person who has decided elsewhere; empty if Airflow may still ask.
        is_ended: The commit has ended; the run may not have.
    """

    run_id: str
    traceparent: str
    last_seen_at: float
    is_due: bool = False
    is_taken: bool = False
    answer: str = ""
    is_ended: bool = False


class AirflowRuns:
    """Offers each commit to Airflow until Airflow has it, and tracks which commits it drives."""

    def __init__(self, airflow: Airflow, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare an empty set of runs; `start` begins the work."""
        self._airflow = airflow
        self._clock = clock
        self._runs: dict[UUID, _Run] = {}
        self._rounds = BackgroundLoop(
            self.look,
            name="airflow-runs",
            event="airflow_round_failed",
            pause_s=lambda: ROUND_EVERY_S,
        )

    @property
    def there(self) -> bool:
        """Whether the settings name an Airflow."""
        return self._airflow.there

    def start(self) -> None:
        """Run rounds in a thread of their own until `stop`."""
        self._rounds.start()

    def ask_to_stop(self) -> None:
        """Let the round in progress be the last one; wait for none: Airflow may hang."""
        self._rounds.ask_to_stop()

    def offer(self, commit: CommitView) -> None:
        """Schedule the start of a commit's run; it is retried until Airflow answers.

        A run that has made its commit exists, so Airflow has it as soon as it answers.
        """
        run = self._run(commit)
        if not (run.is_taken or run.is_due):
            run.is_due = True
            self._rounds.wake()

    def approved(self, commit: CommitView) -> None:
        """Note that a person has approved the commit, so that Airflow's question is answered."""
        self._answer(commit, APPROVE)

    def rejected(self, commit: CommitView) -> None:
        """Note that a person has rejected the commit, so that Airflow's question is answered."""
        self._answer(commit, REJECT)

    def _answer(self, commit: CommitView, answer: str) -> None:
        run = self._run(commit)
        if run.answer != answer:
            run.answer = answer
            self._rounds.wake()

    def step_taken(self, commit_id: UUID) -> None:
        """Note that a step of the commit was taken just now."""
        run = self._runs.get(commit_id)
        if run is not None:
            run.last_seen_at = self._clock()

    def ended(self, commit_id: UUID) -> None:
        """Note that the commit has ended: a run that Airflow does not have is dropped."""
        run = self._runs.get(commit_id)
        if run is not None and run.is_taken:
            run.is_ended = True
        else:
            self._runs.pop(commit_id, None)

    def is_at(self, commit: CommitView) -> bool:
        """Return whether Airflow drives the commit, or may still start to."""
        run = self._run(commit)
        return self._clock() - run.last_seen_at < (SILENT_S if run.is_taken else UNREACHED_S)

    def look(self) -> None:
        """Run one round; when Airflow does not answer, its work stays due."""
        runs = tuple(self._runs.items())
        if not runs:
            return
        try:
            for commit_id, run in runs:
                if run.is_due and self._airflow.start(
                    run.run_id, str(commit_id), traceparent=run.traceparent
                ):
                    run.is_due, run.is_taken, run.last_seen_at = False, True, self._clock()
            if self._airflow.schedules():
                for commit_id, run in runs:
                    self._follow(commit_id, run)
        except (httpx.TransportError, PermissionError) as error:
            log.warning("airflow_unreachable", error=str(error))

    def _run(self, commit: CommitView) -> _Run:
        new = _Run(
            run_id=run_of(commit),
            traceparent=traceparent_of(commit),
            last_seen_at=self._clock(),
        )
        return self._runs.setdefault(commit.commit_id, new)

    def _follow(self, commit_id: UUID, run: _Run) -> None:
        """Read the state of a run without recent steps; forward a person's decision to it."""
        if run.answer:
            self._airflow.answer_approval(run.run_id, run.answer)
        elif not run.is_ended and self._clock() - run.last_seen_at < ROUND_EVERY_S:
            return
        if self._airflow.state(run.run_id) in {"queued", "running"}:
            run.is_taken, run.last_seen_at = True, self._clock()
        elif run.is_ended:
            self._runs.pop(commit_id, None)

"""The tasks of the commit DAG: they post idempotent steps, or wait without a worker."""

import datetime as dt
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from airflow.exceptions import AirflowFailException
from airflow.providers.standard.decorators.python import _PythonDecoratedOperator
from airflow.sdk import BaseOperator, Context, get_current_context
from airflow.sdk.bases.decorator import TaskDecorator, task_decorator_factory
from airflow.sdk.exceptions import DownstreamTasksSkipped
from airflow.triggers.base import StartTriggerArgs
from typing_extensions import override

from narthex._base import Backoff
from narthex_plugins.platform_client import Json, StepRefused, is_deferred, platform
from narthex_plugins.triggers import CaughtUpTrigger

log = logging.getLogger(__name__)

SPARK = {"spark.driver.memory": "1g", "spark.ui.enabled": "false"}

RETRIED_FOR_A_DAY: dict[str, object] = {
    "retries": 288,
    "retry_delay": dt.timedelta(seconds=10),
    "retry_exponential_backoff": True,
    "max_retry_delay": dt.timedelta(minutes=5),
}
"""The retries of a task whose input may arrive late."""

STEPS = Backoff(first_s=0.25, greatest_s=1.0)
"""How long a task waits before it retries a step that cannot be taken yet."""

POLL = Backoff(first_s=0.25, greatest_s=1.0)
"""How often a task looks whether a driver has ended its backfill."""


def take_step(commit_id: str, step: str, *, within_s: float) -> dict[str, Json]:
    """Take a step; retry while it cannot be taken yet.

    Raises:
        StepRefused: The platform refuses the step permanently.
        StepDeferredError: The step could not be taken within the time.
    """
    return STEPS.retry(
        lambda: platform().step(commit_id, step), may_retry=is_deferred, within_s=within_s
    )


def create_one(commit_id: str, asset: Mapping[str, Json], *, within_s: float) -> None:
    """Create one asset of a commit; the task in the UI carries the asset's name."""
    get_current_context()["asset"] = str(asset["label"])
    take_step(commit_id, f"create/{asset['asset_id']}", within_s=within_s)


def move_head(commit_id: str, *, backfill: str, approve: str) -> None:
    """Move the head, and skip those of the two tasks after it that have nothing to do.

    Raises:
        DownstreamTasksSkipped: No backfill is due, or no approval is needed.
    """
    take_step(commit_id, "ready", within_s=60.0)
    take_step(commit_id, "commit", within_s=60.0)
    needless: list[str] = []
    if not take_step(commit_id, "backfill", within_s=60.0).get("jobs"):
        take_step(commit_id, "backfilled", within_s=60.0)
        needless.append(backfill)
    if not waits_for_a_person(platform().read(f"commits/{commit_id}")):
        needless.append(approve)
    if needless:
        raise DownstreamTasksSkipped(tasks=needless)


def datasets_to_check(commit_id: str) -> list[str]:
    """Return the datasets whose history is checked before readers flip."""
    match take_step(commit_id, "quality", within_s=60.0):
        case {"datasets": list(names)}:
            return [str(name) for name in names]
        case _:
            raise StepRefused("the platform's answer lacks `datasets`")


def check_one(commit_id: str, dataset: str, *, within_s: float) -> int | None:
    """Check the history of one dataset; return how many rows were checked.

    The log has a line for each broken expectation. The task in the UI carries the dataset's name.

    Raises:
        AirflowFailException: A critical expectation is broken.
        StepDeferredError: The check did not end within the time.
    """
    get_current_context()["dataset"] = dataset
    checked = take_step(commit_id, f"quality/{quote(dataset, safe='')}", within_s=within_s)[
        "checked"
    ]
    if not isinstance(checked, dict):
        log.info("%s needs no check any more", dataset)
        return None
    rows, broken = checked["rows"], checked["broken"]
    log.info("%s: %s rows checked, up to the offsets %s", dataset, rows, checked["offsets"])
    texts = [str(one["text"]) for one in _dicts(broken)]
    for text in texts or ["every expectation is met"]:
        log.info("%s", text)
    if any(one["examples"] is None for one in _dicts(broken)):
        log.info("`narthex commits %s` also has the keys of such rows", commit_id)
    if checked["is_critical"]:
        raise AirflowFailException("; ".join(texts))
    return rows if isinstance(rows, int) else None


def _dicts(value: Json) -> list[dict[str, Json]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def waits_for_a_person(commit: Json) -> bool:
    """Return whether a commit waits for a person, by the platform's answer about it."""
    match commit:
        case {"approval": {"needed": bool(needed)}}:
            return needed
        case _:
            raise StepRefused("the platform's answer lacks `approval.needed`")


class CommitRun(Protocol):
    """The attributes of a DAG run that are used here."""

    @property
    def run_id(self) -> str: ...
    @property
    def triggering_user_name(self) -> str | None: ...


def roll_back(branch: str, to: Json, *, run: CommitRun) -> str:
    """Roll a branch back for the person who triggered a run, once; return the rollback's commit."""
    return str(_done_once("rollback", {"to": to}, branch=branch, run=run)["commit_id"])


def delete_branch(branch: Json, *, run: CommitRun) -> str:
    """Delete a branch for the person who triggered a run, once; return its name.

    Raises:
        AirflowFailException: The form does not name a branch.
    """
    if not isinstance(branch, str):
        raise AirflowFailException("no branch was named; trigger the DAG with `branch`")
    return str(_done_once("delete", {}, branch=branch, run=run)["name"])


def _done_once(path: str, body: dict[str, Json], *, branch: str, run: CommitRun) -> dict[str, Json]:
    headers = {
        "X-Narthex-Branch": branch,
        "X-Narthex-Actor": run.triggering_user_name or "",
        "Idempotency-Key": key_of(run.run_id),
    }
    return platform().send(path, body, headers=headers)


def key_of(run_id: str) -> str:
    """Return the idempotency key of a run's request: the same when its task runs again."""
    return f"airflow {run_id}"[:200]


def _jars() -> Path:
    return platform().settings.jars_dir


class StepOperator(_PythonDecoratedOperator):
    """A function that takes a step of a commit; its task links to the commit in the console."""


def step_task(function: object = None, **options: object) -> TaskDecorator:
    """Turn a function into a task, as `task` does."""
    return task_decorator_factory(function, decorated_operator_class=StepOperator, **options)


class SparkRun(Protocol):
    """A bounded run that was submitted by `spark-submit`."""

    def on_kill(self) -> None: ...


class BackfillOperator(BaseOperator):
    """Fills a commit's new assets with history.

    A driver of live jobs does it if it is small, else a Spark of its own.
    """

    template_fields: Sequence[str] = ("commit_id",)

    def __init__(self, *, commit_id: str, run_job: str, conn_id: str, **rest: object) -> None:
        """Run the script `run_job` for a commit, on the Spark that the connection names."""
        super().__init__(**rest)
        self.commit_id = commit_id
        self.run_job = run_job
        self.conn_id = conn_id
        self._run: SparkRun | None = None

    @override
    def execute(self, context: Context) -> None:
        before: Json = None
        for _ in POLL.attempts():
            due = self._take("backfill").get("jobs")
            if not due:
                break
            if due != before:
                self.log.info("to backfill: %s", due)
            before = due
            if not self._take("backfill_in_driver").get("in_driver"):
                self._submit()
                break
        self._take("backfilled")

    @override
    def on_kill(self) -> None:
        if self._run is not None:
            self._run.on_kill()

    def _submit(self) -> None:
        # Each task of the DAG imports this module, and this import takes most of that time.
        from airflow.providers.apache.spark.hooks.spark_submit import (  # noqa: PLC0415
            SparkSubmitHook,
        )

        hook = SparkSubmitHook(
            conf=dict(SPARK),
            conn_id=self.conn_id,
            jars=",".join(str(jar) for jar in sorted(_jars().glob("*.jar"))),
            name=f"narthex backfill {self.commit_id}",
            application_args=["--commit", self.commit_id],
        )
        self._run = hook
        hook.submit(self.run_job)

    def _take(self, step: str) -> dict[str, Json]:
        try:
            return take_step(self.commit_id, step, within_s=60.0)
        except StepRefused as refused:
            # The refusal is permanent: a retry would not help.
            raise AirflowFailException(str(refused)) from refused


class CaughtUpOperator(BaseOperator):
    """Waits, without a worker, until every job of a commit has caught up.

    With `start_from_trigger`, no worker starts the wait either; the id then is not a task's result.
    """

    template_fields: Sequence[str] = ("commit_id",)

    def __init__(
        self,
        *,
        commit_id: str,
        within: dt.timedelta,
        start_from_trigger: bool = False,
        **rest: object,
    ) -> None:
        """Wait for at most `within`."""
        super().__init__(**rest)
        self.commit_id = commit_id
        self.within = within
        self.start_from_trigger = start_from_trigger
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls="narthex_plugins.triggers.CaughtUpTrigger",
            trigger_kwargs={"commit_id": commit_id},
            next_method="resume",
            next_kwargs=None,
            timeout=within,
        )

    @override
    def execute(self, context: Context) -> None:
        self.defer(
            trigger=CaughtUpTrigger(self.commit_id), method_name="resume", timeout=self.within
        )

    def resume(self, context: Context, event: Mapping[str, Json]) -> None:
        """Fail, because the commit has ended otherwise."""
        del context
        raise StepRefused(f"commit {self.commit_id} ended as {event.get('state')}")

"""The tasks of the commit DAG: they post idempotent steps, or wait without a worker."""

import datetime as dt
import inspect
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

from airflow.exceptions import AirflowFailException
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.decorators.python import _PythonDecoratedOperator
from airflow.sdk import BaseHook, BaseOperator, Context, get_current_context
from airflow.sdk.bases.decorator import TaskDecorator, task_decorator_factory
from airflow.sdk.exceptions import AirflowSkipException
from airflow.triggers.base import StartTriggerArgs
from typing_extensions import override

from narthex._base import Backoff, OverwrittenPackageError, require_whole_pyspark
from narthex.settings import NotInstalledError, load_settings
from narthex_plugins.dataset_assets import announce
from narthex_plugins.platform_client import Json, StepRefused, is_deferred, platform
from narthex_plugins.triggers import (
    BackfillTrigger,
    CaughtUpTrigger,
    DatasetProgress,
    progress_of,
)

log = logging.getLogger(__name__)

RUN_JOB = Path(__file__).resolve().with_name("spark") / "run_job.py"
"""The application that runs a backfill."""

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

CREATING_TASKS: Final = 8
"""The most tasks that create assets: each starts a process, which takes longer than an asset."""

PLANNED_WITHIN_S: Final = 900.0
"""How long a commit may take to be planned, which includes that the packages of its lock are
installed."""

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


def plan(commit_id: str) -> list[list[dict[str, str]]]:
    """Plan the commit and reserve its assets; return those that must be created, a list a task.

    Nothing outside the ledger changes. The result is empty if the commit only changes descriptions.
    """
    due = _texts(take_step(commit_id, "plan", within_s=PLANNED_WITHIN_S)["assets"])
    log.info("%d assets to create: %s", len(due), ", ".join(one["label"] for one in due))
    return in_tasks(due)


def in_tasks(
    assets: Sequence[dict[str, str]], *, most: int = CREATING_TASKS
) -> list[list[dict[str, str]]]:
    """Divide assets into at most so many lists, in the order of their creation.

    An asset may wait for those before it, which are in the same list or in an earlier one. So no
    task waits for one that starts later.
    """
    length = max(1, -(-len(assets) // most))
    return [list(assets[at : at + length]) for at in range(0, len(assets), length)]


def create_assets(assets: Sequence[Mapping[str, str]], commit_id: str) -> None:
    """Create some assets, such as Kafka topics, indexes and jobs, in order, and verify each.

    Until the head has moved, a failure undoes the whole commit: nothing remains.
    """
    more = f" and {len(assets) - 1} more" if assets[1:] else ""
    get_current_context()["created"] = f"{assets[0]['label']}{more}"
    for asset in assets:
        take_step(commit_id, f"create/{asset['asset_id']}", within_s=1800.0)
        log.info("%s is live", asset["label"])


def commit_point(commit_id: str) -> list[str | None]:
    """Move the head of the branch, in one transaction: the commit point.

    Before it, a failure leaves nothing behind. After it, a failure leaves readers on the commit
    that they read. Returns the tasks of the backfill: first the one that runs it, then one for each
    dataset that it fills; none if no history has to be read.
    """
    take_step(commit_id, "ready", within_s=60.0)
    take_step(commit_id, "commit", within_s=60.0)
    log.info("the head of the branch is at commit %s", commit_id)
    datasets = take_step(commit_id, "backfill", within_s=60.0).get("datasets")
    if not isinstance(datasets, list) or not datasets:
        take_step(commit_id, "backfilled", within_s=60.0)
        log.info("no history has to be read")
        return []
    log.info("history is read for %s", ", ".join(map(str, datasets)))
    return [None, *map(str, datasets)]


def quality_checks(commit_id: str) -> list[str]:
    """List the new and changed datasets whose history is checked before readers flip."""
    match take_step(commit_id, "quality", within_s=60.0):
        case {"datasets": list(names)}:
            return [str(name) for name in names]
        case _:
            raise StepRefused("the platform's answer lacks `datasets`")


def quality(dataset: str, commit_id: str) -> int | None:
    """Check the whole history of one dataset against its expectations; return the number of rows.

    A broken critical expectation fails the task: readers do not flip, and the commit is rolled
    back. A broken warning is reported. The log has a line for each broken expectation.

    Raises:
        AirflowFailException: A critical expectation is broken.
        StepDeferredError: The check did not end within an hour.
    """
    get_current_context()["dataset"] = dataset
    step = f"quality/{quote(dataset, safe='')}"
    checked = take_step(commit_id, step, within_s=3600.0)["checked"]
    if not isinstance(checked, dict):
        log.info("%s needs no check any more", dataset)
        return None
    rows, broken = checked["rows"], _dicts(checked["broken"])
    log.info("%s: %s rows checked, up to the offsets %s", dataset, rows, checked["offsets"])
    texts = [str(one["text"]) for one in broken]
    for text in texts or ["every expectation is met"]:
        log.info("%s", text)
    if any(one["examples"] is None for one in broken):
        log.info("with rights to read data, `narthex commits %s --json` has keys", commit_id)
    if checked["is_critical"]:
        raise AirflowFailException("; ".join(texts))
    return rows if isinstance(rows, int) else None


def promote(commit_id: str) -> list[str]:
    """Let readers flip to the commit, in one transaction; return the datasets that changed.

    Each of them is an Airflow asset, which gets an event.
    """
    match take_step(commit_id, "promote", within_s=120.0):
        case {"branch": str(branch), "datasets": list(datasets)}:
            names = [str(name) for name in datasets]
        case _:
            log.info("readers read a later commit")
            return []
    log.info("readers of %s read commit %s; changed: %s", branch, commit_id, ", ".join(names))
    announce(branch, names, {"event": "promotion", "commit_id": commit_id})
    return names


def undo(commit_id: str) -> None:
    """Undo the commit if something failed: readers stay on, or return to, what they read.

    Raises:
        AirflowSkipException: Nothing failed, so there is nothing to undo.
    """
    context = get_current_context()
    task, run_id = context["ti"], context["dag_run"].run_id
    states = task.get_task_states(dag_id=task.dag_id, run_ids=[run_id]).get(run_id, {})
    failed = sorted(name for name, state in states.items() if state == "failed")
    if not failed:
        raise AirflowSkipException("no task failed: there is nothing to undo")
    log.info("failed: %s; readers stay on what they read", ", ".join(failed))
    state = take_step(commit_id, "rollback", within_s=300.0).get("state")
    log.info("commit %s is %s", commit_id, state)


def _texts(value: Json) -> list[dict[str, str]]:
    return [{name: str(one[name]) for name in one} for one in _dicts(value)]


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


def _jars() -> str | None:
    """Return the connectors of an installation on this machine; a cluster has its own."""
    try:
        return ",".join(map(str, sorted(load_settings().jars_dir.glob("*.jar")))) or None
    except NotInstalledError:
        return None


class StepOperator(_PythonDecoratedOperator):
    """A function of the platform; its task links to a page of the console."""


class AuditOperator(StepOperator):
    """A function of an audit; its task links to the Data Docs too."""


def step_task(
    function: object = None,
    *,
    operator: type[StepOperator] = StepOperator,
    **options: object,
) -> TaskDecorator:
    """Turn a function into a task, as `task` does; its docstring is the documentation of the task.

    Airflow would take it only for tasks that are not mapped.
    """
    if function is None:
        decorator: TaskDecorator = partial(step_task, operator=operator, **options)
        return decorator
    options.setdefault("doc_md", inspect.getdoc(function))
    return task_decorator_factory(function, decorated_operator_class=operator, **options)


class BackfillOperator(SparkSubmitOperator):
    """Fills a commit's new assets with history.

    Its first task, `all`, runs the whole backfill: in a driver of live jobs if it is small, else by
    `spark-submit`, on the master that the connection names. Each other task is about one dataset:
    it waits without a worker, and its log has how many rows are read, of how many.
    """

    jars: str | None
    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "commit_id", "dataset")

    def __init__(
        self,
        *,
        commit_id: str,
        dataset: str | None,
        conn_id: str = "spark_narthex",
        **rest: object,
    ) -> None:
        """Run the backfill of a commit, on the Spark that the connection names.

        With a dataset, wait for its part of the backfill instead. The other arguments are those of
        `SparkSubmitOperator`.
        """
        own: dict[str, object] = {
            "doc_md": BackfillOperator.__doc__,
            "application": str(RUN_JOB),
            "name": f"narthex backfill {commit_id}",
            "conf": SPARK,
        }
        super().__init__(conn_id=conn_id, **own | rest)
        self.commit_id = commit_id
        self.dataset = dataset

    @override
    def execute(self, context: Context) -> dict[str, Json] | None:
        if self.dataset is None:
            context["label"] = "all"
            self._run_all(context)
            return None
        context["label"] = self.dataset
        found = STEPS.retry(
            lambda: platform().read(f"commits/{self.commit_id}/backfill"),
            may_retry=is_deferred,
            within_s=60.0,
        )
        filled = progress_of(found, self.dataset)
        if filled.is_done:
            return self._filled(context, filled)
        self.log.info("%s", filled.line)
        self.defer(trigger=BackfillTrigger(self.commit_id, self.dataset), method_name="resume")
        return None

    def resume(self, context: Context, event: Mapping[str, Json]) -> dict[str, Json]:
        """End the wait for one dataset, whose part of the backfill has ended."""
        return self._filled(context, progress_of(event, str(self.dataset)))

    def _filled(self, context: Context, filled: DatasetProgress) -> dict[str, Json]:
        context["label"] = f"{self.dataset}: {filled.rows} rows"
        self.log.info("%s", filled.line)
        return {"dataset": self.dataset, "rows": filled.rows}

    def _run_all(self, context: Context) -> None:
        before: Json = None
        for _ in POLL.attempts():
            due = self._take("backfill").get("jobs")
            if not due:
                break
            if due != before:
                self.log.info("to backfill: %s", due)
            before = due
            if not self._take("backfill_in_driver").get("in_driver"):
                self.submit(context)
                break
        self._take("backfilled")

    def submit(self, context: Context) -> None:
        """Run the backfill by `spark-submit` and wait for it; its output is in the task's log.

        Raises:
            AirflowFailException: `spark-submit` or the connection is missing, the connection has no
                host, or another package has overwritten files of PySpark.
            AirflowException: `spark-submit` failed.
        """
        try:
            require_whole_pyspark()
        except OverwrittenPackageError as error:
            raise AirflowFailException(str(error)) from error
        # Without a connection, the hook would take a YARN.
        if not BaseHook.get_connection(self._conn_id).host:
            raise AirflowFailException(
                f"the connection `{self._conn_id}` has no host; set it to the master of your Spark"
            )
        self.jars = self.jars or _jars()
        self.application_args = ["--commit", self.commit_id]
        try:
            super().execute(context)
        except FileNotFoundError as error:
            raise AirflowFailException(
                f"`{error.filename}` is not on the PATH; install `narthex[platform]` on the workers"
            ) from error

    @override
    def on_kill(self) -> None:
        if self._hook is not None:
            super().on_kill()

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

    template_fields: Sequence[str] = ("commit_id", "run_id")

    def __init__(
        self,
        *,
        commit_id: str,
        within: dt.timedelta,
        run_id: str = "",
        start_from_trigger: bool = False,
        **rest: object,
    ) -> None:
        """Wait for at most `within`; without `commit_id`, for the commit of the run `run_id`."""
        super().__init__(**{"doc_md": CaughtUpOperator.__doc__} | rest)
        self.commit_id = commit_id
        self.run_id = run_id
        self.within = within
        self.start_from_trigger = start_from_trigger
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls="narthex_plugins.triggers.CaughtUpTrigger",
            trigger_kwargs={"commit_id": commit_id, "run_id": run_id},
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
        raise StepRefused(f"commit {event.get('commit_id')} ended as {event.get('state')}")

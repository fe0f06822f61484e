"""The tasks of the DAGs for upkeep after commits: each may run at any time, and repeatedly.

The platform does the same by itself; Airflow shows it, and when it was last done.
"""

import datetime as dt
import uuid
from collections.abc import Callable

import pendulum
from airflow.sdk import CronDataIntervalTimetable, dag

from narthex._base import Backoff
from narthex_plugins.platform_client import Json, is_deferred, platform

OWNED: dict[str, object] = {"owner": "narthex"}
"""The default arguments of the tasks of every DAG."""

LISTED: dict[str, object] = {"retries": 2, "retry_delay": dt.timedelta(seconds=10)}
"""The retries of a task that lists things: just after a start, Airflow's API may not answer it."""

POLL = Backoff(first_s=2.0, greatest_s=4.0)
ANSWERS_WITHIN_S = 120.0


class NotSoundError(RuntimeError):
    """The ledger and the stores differ, or a store did not answer."""


class NotRecoveredError(RuntimeError):
    """No process took over a commit whose own process had died."""


Declared = Callable[[Callable[[], None]], Callable[[], object]]
"""A decorator that turns a function of tasks into one that returns a DAG."""


def upkeep(dag_id: str, *, cron: str, doc: str, **options: object) -> Declared:
    """Declare a DAG of upkeep: scheduled, one run at a time, without catch-up of missed runs.

    Args:
        dag_id: The DAG's id in Airflow.
        cron: The schedule, in UTC.
        doc: Its documentation; the first line is `Airflow DAG …: `, then the description.
        options: Further options of a DAG, such as another first data interval.
    """
    usual = {"start_date": pendulum.datetime(2026, 1, 1, tz="UTC"), "max_active_runs": 1}
    declared: Declared = dag(
        dag_id=dag_id,
        schedule=CronDataIntervalTimetable(cron, timezone="UTC"),
        catchup=False,
        is_paused_upon_creation=False,
        tags=["narthex"],
        default_args=OWNED,
        description=described(doc),
        doc_md=doc,
        **(usual | options),
    )
    return declared


def described(doc: str) -> str:
    """Return the description of a DAG: the first line of its documentation, without its name."""
    return doc.partition("\n")[0].partition(": ")[2].capitalize()


def ask(path: str, *, within_s: float = ANSWERS_WITHIN_S) -> dict[str, Json]:
    """Request a piece of upkeep; retry while the server does not answer.

    Raises:
        StepDeferredError: The server did not answer within the time.
    """
    return POLL.retry(lambda: platform().ask(path), may_retry=is_deferred, within_s=within_s)


def look_up(path: str, *, branch: str = "main") -> dict[str, Json]:
    """Read a path of the API about a branch; retry while the server does not answer.

    Raises:
        StepDeferredError: The server did not answer within the time.
    """
    return POLL.retry(
        lambda: platform().read(path, branch=branch),
        may_retry=is_deferred,
        within_s=ANSWERS_WITHIN_S,
    )


def judge(audit: dict[str, Json]) -> int:
    """Return the number of listed objects, if all of them match the ledger.

    Raises:
        NotSoundError: Something differs; the message has the findings, store by store.
    """
    systems = [one for one in _list(audit["systems"]) if isinstance(one, dict)]
    if audit["sound"]:
        return sum(int(str(system["listed"])) for system in systems)
    wrong = [
        f"{system['kind']}: {system['error'] or system['tripped'] or system['findings']}"
        for system in systems
        if system["error"] or system["tripped"] or system["findings"]
    ]
    raise NotSoundError("; ".join(wrong))


def drill_id(run_id: str) -> str:
    """Return the id of the drill of a run: the same when the task runs again."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"narthex:recovery-drill:{run_id}"))


def await_takeover(commit_id: str, *, within_s: float) -> int:
    """Wait until a dead process's commit has ended; return how often its owner changed.

    Raises:
        NotRecoveredError: It has not ended, or its dead owner ended it.
    """
    state: Json = None
    for _ in POLL.attempts(within_s=within_s):
        shown = ask(f"upkeep/drill/{commit_id}", within_s=within_s)
        if shown["state"] == "FINALIZED":
            hands = int(str(shown["fence"]))
            if hands < 2:  # noqa: PLR2004 - the first claim was the dead owner's
                raise NotRecoveredError(f"commit {commit_id} was never taken over")
            return hands
        state = shown["state"]
    raise NotRecoveredError(f"commit {commit_id} is still {state}")


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []

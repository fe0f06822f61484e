"""People's decisions in Airflow, verified with Airflow itself rather than taken from its tasks.

The token of Airflow's processes alone can point at a decision, but cannot make one.
"""

from collections.abc import Mapping
from urllib.parse import quote

import httpx

from narthex._base import Json
from narthex_ledger import CommitView
from narthex_server.deploy.airflow_client import (
    APPROVE,
    REJECT,
    Airflow,
    approval_of,
    path_of_run,
    run_of,
    task_of,
)
from narthex_server.deploy.executor import StepDeferred, StepImpossible


def approver(airflow: Airflow, commit: CommitView) -> str:
    """Return who has approved a commit in its run: the person whom Airflow signed in.

    If the task failed and the question was asked again, the last answer counts.

    Raises:
        StepDeferred: The commit is not approved yet, or Airflow does not answer.
        StepImpossible: A person has rejected it.
    """
    answer = _last_answer(airflow, run_of(commit))
    if name := _author_of(answer, APPROVE):
        return name
    if name := _author_of(answer, REJECT):
        raise StepImpossible(f"{name} has rejected commit {commit.commit_id} in Airflow")
    raise StepDeferred(f"commit {commit.commit_id} is not approved in Airflow")


def rejecter(airflow: Airflow, commit: CommitView) -> str:
    """Return who has rejected a commit in its run, as `approver` does; empty if no person has.

    Raises:
        StepDeferred: Airflow does not answer.
    """
    return _author_of(_last_answer(airflow, run_of(commit)), REJECT)


def _author_of(answer: Json, option: str) -> str:
    """Return the person who has given this answer to a run's question; empty if it is another."""
    match answer:
        case {
            "response_received": True,
            "chosen_options": [str(chosen)],
            "responded_by_user": {"name": str(name)},
            "responded_at": str(),
        } if chosen == option:
            return name
        case _:
            return ""


def _last_answer(airflow: Airflow, run_id: str) -> Json:
    """Return the last answer to the run's question; without one, its current state."""
    approval_path = approval_of(run_id)
    stands = _read(airflow, approval_path)
    if _is_answered(stands):
        return stands
    match _read(airflow, task_of(run_id)):
        case {"try_number": int(tries)}:
            earlier = (
                _read(airflow, f"{approval_path}/tries/{n}") for n in range(tries - 1, 0, -1)
            )
            return next(filter(_is_answered, earlier), stands)
        case _:
            return stands


def _is_answered(state: Json) -> bool:
    match state:
        case {"response_received": True}:
            return True
        case _:
            return False


def has_asked_to_roll_back(
    airflow: Airflow, run_id: str, *, who: str, wanted: Mapping[str, Json]
) -> bool:
    """Return whether a person has triggered this run of the DAG `rollback`, for this target.

    Raises:
        StepDeferred: Airflow does not answer.
    """
    match _read(airflow, f"dags/rollback/dagRuns/{quote(run_id, safe='')}"):
        case {"triggering_user_name": str(name), "conf": dict(conf)} if name:
            return name == who and {"branch": "main", "to": None} | conf == dict(wanted)
        case _:
            return False


def has_asked_to_commit(
    airflow: Airflow, run_id: str, *, who: str, branch: str, preview: bool
) -> bool:
    """Return whether a person has triggered this run of the DAG `commit`, for this branch.

    A run that was triggered for a preview may not commit, and one for an accepted commit makes
    none.

    Raises:
        StepDeferred: Airflow does not answer.
    """
    match _read(airflow, path_of_run(run_id)):
        case {"triggering_user_name": str(name), "conf": dict(conf)} if name:
            asked = {"branch": "main", "preview": False, "commit_id": None} | conf
            may_commit = preview or not asked["preview"]
            return (
                name == who
                and asked["branch"] == branch
                and may_commit
                and (asked["commit_id"] is None)
            )
        case _:
            return False


def _read(airflow: Airflow, path: str) -> Json:
    try:
        return airflow.read(path)
    except (httpx.TransportError, PermissionError) as error:
        raise StepDeferred(f"Airflow did not return what a person decided: {error}") from error

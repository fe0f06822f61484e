"""On a new installation, to which nothing is committed, every scheduled DAG succeeds."""

from ipaddress import ip_address

import psutil
import pytest

from narthex._processes import environment_of
from narthex_stack.processes.leftovers import OPERATOR_HOME
from tests.acceptance.platform import Platform, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

SCHEDULED = (
    "auditor",
    "collector",
    "drift",
    "profile",
    "prove",
    "quality_audit",
    "reconcile",
    "recovery_drill",
)
NOW = {"logical_date": None}
RUNS_S = 300.0


def run_of(platform: Platform, dag: str) -> str:
    """Return the newest run of a DAG; start one if the schedule has not."""
    runs = platform.airflow("GET", f"dags/{dag}/dagRuns?order_by=-run_after&limit=1")["dag_runs"]
    run = runs[0] if runs else platform.airflow("POST", f"dags/{dag}/dagRuns", NOW)
    return str(run["dag_run_id"])


def test_no_scheduled_dag_fails_on_a_new_installation(platform: Platform) -> None:
    runs = {dag: run_of(platform, dag) for dag in SCHEDULED}

    def states() -> dict[str, str]:
        return {
            dag: platform.airflow("GET", f"dags/{dag}/dagRuns/{run_id}")["state"]
            for dag, run_id in runs.items()
        }

    wait_until(
        lambda: set(states().values()) <= {"success", "failed"},
        within_s=RUNS_S,
        what="all runs end",
        so_far=states,
    )

    assert states() == dict.fromkeys(SCHEDULED, "success")
    failed = platform.airflow("GET", "dags/~/dagRuns?state=failed")["dag_runs"]
    assert [(run["dag_id"], run["dag_run_id"]) for run in failed] == []


def is_loopback(address: str) -> bool:
    return ip_address(address.removeprefix("::ffff:")).is_loopback


def test_no_process_of_the_platform_listens_beyond_this_machine(platform: Platform) -> None:
    home = str(platform.stack.layout.home)
    listening = {
        (psutil.Process(one.pid).name(), one.laddr.ip)
        for one in psutil.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN
        and one.pid
        and environment_of(one.pid).get(OPERATOR_HOME) == home
    }

    assert {name for name, _ in listening} == {"java", "postgres", "python"}
    assert [one for one in listening if not is_loopback(one[1])] == []


def test_each_dag_has_a_description(platform: Platform) -> None:
    dags = platform.airflow("GET", "dags?tags=narthex&limit=50")["dags"]

    assert {dag["dag_id"] for dag in dags} >= {"commit", "rollback", *SCHEDULED}
    assert [dag["dag_id"] for dag in dags if not dag["description"]] == []

"""Airflow audits expectations; the platform stores and shows the results."""

import pytest

from tests.acceptance.conftest import Market
from tests.acceptance.platform import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

RUN_S = 150.0


def test_an_audit_of_airflow_is_stored_and_shown(market: Market) -> None:
    platform = market.platform
    run = platform.airflow("POST", "dags/quality_audit/dagRuns", {"logical_date": None})
    run_id = run["dag_run_id"]

    ended = wait_until(
        lambda: (
            found
            if (found := platform.airflow("GET", f"dags/quality_audit/dagRuns/{run_id}"))["state"]
            in {"success", "failed"}
            else None
        ),
        within_s=RUN_S,
        what="the audit ends",
    )

    tasks = platform.tasks_of(run_id, dag="quality_audit")
    assert ended["state"] == "success", [(t["task_id"], t["state"]) for t in tasks]
    assert [t["rendered_map_index"] for t in tasks if t["task_id"] == "audit"] == ["Orders"]
    audits = platform.client.read("audits")["audits"]
    assert isinstance(audits, list)
    (newest, *_) = [a for a in audits if isinstance(a, dict) and a["dataset"] == "Orders"]
    assert newest["success"] is True
    assert newest["rows"] >= 1

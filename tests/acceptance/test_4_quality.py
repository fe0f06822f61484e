"""Expectations are checked before readers flip and every hour, and Airflow shows it."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest
from playwright.sync_api import Browser, expect

from narthex.client import Client
from narthex.errors import CommitFailed, DefinitionErrors
from tests.acceptance import parcels
from tests.acceptance.conftest import Market
from tests.acceptance.platform import COMMIT_S, STREAM_S, Platform, wait_until
from tests.acceptance.windows import signed_in_to_airflow

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

RUN_S = 600.0
BRANCH = "weighed"
ROWS = [
    {"parcel": "p1", "grams": 1500, "at": "2026-05-01T08:00:00Z"},
    {"parcel": "p2", "grams": 0, "at": "2026-05-01T08:10:00Z"},
    {"parcel": "p3", "grams": -20, "at": "2026-05-01T08:20:00Z"},
]
NOON = "2026-05-01T12:00:00Z"


def run_ended(platform: Platform, dag: str, run_id: str) -> dict[str, Any]:
    """Wait until a run of a DAG has ended."""
    return wait_until(
        lambda: (
            found
            if (found := platform.airflow("GET", f"dags/{dag}/dagRuns/{run_id}"))["state"]
            in {"success", "failed"}
            else None
        ),
        within_s=RUN_S,
        what=f"the run of {dag} ends",
        so_far=lambda: platform.tasks_of(run_id, dag=dag),
    )


def audited(platform: Platform) -> tuple[str, dict[str, Any]]:
    """Run the audit of all datasets; return its run and the state of its end."""
    run = platform.airflow("POST", "dags/quality_audit/dagRuns", {"logical_date": None})
    run_id = str(run["dag_run_id"])
    return run_id, run_ended(platform, "quality_audit", run_id)


def log_of(platform: Platform, run_id: str, task: str, *, of: str, dag: str = "commit") -> str:
    """Return the log of the instance of a mapped task for a dataset, at its last try."""
    (found,) = [
        one
        for one in platform.tasks_of(run_id, dag=dag)
        if (one["task_id"], one["rendered_map_index"]) == (task, of)
    ]
    path = f"dags/{dag}/dagRuns/{run_id}/taskInstances/{task}/logs/{found['try_number']}"
    return str(platform.airflow("GET", f"{path}?map_index={found['map_index']}&full_content=true"))


def events_of(platform: Platform, run_id: str, *, dag: str) -> dict[str, dict[str, Any]]:
    """Return the extra of the asset events of a run, by the address of the asset."""
    path = f"assets/events?source_dag_id={dag}&source_run_id={quote(run_id)}&limit=100"
    events = platform.airflow("GET", path)["asset_events"]
    return {str(event["uri"]): event["extra"] for event in events}


def by_arrival(audits: list[Any], dataset: str) -> dict[str, Any]:
    """Return the newest audit of a dataset by arrival; its rows have old event times."""
    chosen = (dataset, "arrival")
    return next(dict(one) for one in audits if (one["dataset"], one["by"]) == chosen)


@pytest.fixture(scope="module")
def weighed(platform: Platform) -> Iterator[Client]:
    """A branch with three parcels, of which two weigh nothing or less."""
    client = Client(platform.settings.server_url, platform.settings.token)
    client.init_branch(BRANCH)
    client.commit("parcels", *parcels.FIRST, timeout_s=COMMIT_S)
    client.log("parcels", "weighed", pd.DataFrame(ROWS))
    wait_until(lambda: grams(client) == -20, within_s=STREAM_S, what="the parcels are there")
    yield client
    client.close()


def grams(client: Client) -> object:
    answers, _ = client.query_columns(
        ["Parcel.parcel"], ["Parcel.grams"], {"Parcel.parcel": ["p3"]}, as_of=NOON
    )
    return answers["Parcel.grams"][0]


def test_readers_do_not_flip_to_rows_that_break_a_critical_expectation(
    platform: Platform, weighed: Client
) -> None:
    with pytest.raises(CommitFailed) as refused:
        weighed.commit("kilograms", *parcels.second("critical"), timeout_s=COMMIT_S)

    said = str(refused.value)
    assert "critical: Kilograms.kilograms: expect_column_values_to_be_between(" in said
    assert "2 of 3 rows break it, such as parcel=p2; parcel=p3" in said
    commits = weighed.read("commits")["commits"]
    assert isinstance(commits, list)
    (commit_id,) = [str(one["commit_id"]) for one in commits if one["message"] == "kilograms"]
    run = run_ended(platform, "commit", commit_id)
    assert run["state"] == "failed"
    tasks = {task["task_id"]: task for task in platform.tasks_of(commit_id)}
    assert tasks["quality"]["state"] == "failed"
    assert tasks["quality"]["rendered_map_index"] == "Kilograms"
    assert tasks["quality"]["try_number"] == 1
    assert tasks["promote"]["state"] == "upstream_failed"
    assert tasks["roll_back"]["state"] == "success"
    log = log_of(platform, commit_id, "quality", of="Kilograms")
    assert "Kilograms: 3 rows checked, up to the offsets" in log
    assert "2 of 3 rows break it" in log
    # The token of Airflow's tasks may not read rows: their keys are not in its logs.
    assert "parcel=p2" not in log
    found = platform.commit_of(commit_id)
    assert (found["promotion"], found["quality"][0]["is_critical"]) == ("SUPERSEDED", True)
    assert grams(weighed) == -20
    with pytest.raises(DefinitionErrors, match="kilograms"):
        weighed.query_columns(["Parcel.parcel"], ["Parcel.kilograms"], {"Parcel.parcel": ["p1"]})


def test_a_broken_warning_is_reported_and_readers_flip(platform: Platform, weighed: Client) -> None:
    told: list[str] = []

    answer = weighed.commit(
        "warned", *parcels.second("warning"), timeout_s=COMMIT_S, tell=told.append
    )

    commit_id = str(answer.body["commit_id"])
    (warning,) = platform.commit_of(commit_id)["approval"]["warnings"]
    assert warning.startswith("warning: Kilograms.kilograms: ")
    assert "2 of 3 rows break it" in warning
    assert any(line.startswith("warning: Kilograms.kilograms: ") for line in told)
    assert run_ended(platform, "commit", commit_id)["state"] == "success"
    states = {task["task_id"]: task["state"] for task in platform.tasks_of(commit_id)}
    assert (states["quality"], states["promote"]) == ("success", "success")
    events = events_of(platform, commit_id, dag="commit")
    assert events[f"narthex://{BRANCH}/Kilograms"]["commit_id"] == commit_id


@pytest.mark.usefixtures("weighed")
def test_every_branch_is_audited_and_the_results_are_stored_and_shown(market: Market) -> None:
    platform = market.platform

    run_id, ended = audited(platform)

    # Other branches of the platform may have datasets whose audits fail.
    assert ended["state"] in {"success", "failed"}
    states = {
        task["rendered_map_index"]: task["state"]
        for task in platform.tasks_of(run_id, dag="quality_audit")
        if task["task_id"] == "audit"
    }
    mine = {"Orders", f"Kilograms on {BRANCH}"}
    assert {name: states.get(name) for name in mine} == dict.fromkeys(mine, "success")
    audits = platform.client.read("audits")["audits"]
    assert isinstance(audits, list)
    newest = by_arrival(audits, "Orders")
    assert (newest["success"], newest["commit_id"]) == (True, None)
    assert newest["rows"] >= 1
    events = events_of(platform, run_id, dag="quality_audit")
    audited_now = {uri for uri, one in events.items() if one["event"] == "audit"}
    assert {"narthex://main/Orders", f"narthex://{BRANCH}/Kilograms"} <= audited_now, log_of(
        platform, run_id, "audit", dag="quality_audit", of="Orders"
    )


def test_an_audit_that_finds_a_critical_expectation_broken_is_red(
    platform: Platform, weighed: Client
) -> None:
    weighed.log("parcels", "weighed", pd.DataFrame([{**row, "grams": 5} for row in ROWS]))
    wait_until(lambda: grams(weighed) == 5, within_s=STREAM_S, what="the parcels weigh something")
    weighed.commit("strict", *parcels.second("critical"), timeout_s=COMMIT_S)
    light = {"parcel": "p4", "grams": -1, "at": "2026-05-01T08:30:00Z"}
    weighed.log("parcels", "weighed", pd.DataFrame([light]))
    wait_until(
        lambda: "p4" in set(weighed.inspect("Kilograms", n=1)["parcel"]),
        within_s=STREAM_S,
        what="the light parcel is in the history",
    )

    run_id, ended = audited(platform)

    tasks = platform.tasks_of(run_id, dag="quality_audit")
    states = {t["rendered_map_index"]: t["state"] for t in tasks if t["task_id"] == "audit"}
    assert ended["state"] == "failed"
    assert states[f"Kilograms on {BRANCH}"] == "failed"
    assert states["Orders"] == "success"
    audits = platform.client.read("audits")["audits"]
    assert isinstance(audits, list)
    newest = by_arrival(audits, "Kilograms")
    assert (newest["branch"], newest["is_critical"], newest["failed"]) == (BRANCH, True, 1)


@pytest.mark.usefixtures("weighed")
def test_a_task_of_an_audit_links_to_its_data_docs(platform: Platform, browser: Browser) -> None:
    run_id, _ = audited(platform)
    path = f"dags/quality_audit/dagRuns/{run_id}/taskInstances/audit/links?map_index=0"
    link = str(platform.airflow("GET", path)["extra_links"]["Data Docs"])

    with signed_in_to_airflow(browser, platform.settings) as page:
        page.goto(link)
        page.get_by_role("link", name=f"{BRANCH}:Kilograms@1", exact=False).first.click()
        expect(page.get_by_role("heading", name=f"{BRANCH}:Kilograms@1").first).to_be_visible()
        page.locator("a[href*='validations']").first.click()
        expect(page.locator("body")).to_contain_text("unexpected values found")
        assert page.url.startswith(f"{platform.settings.airflow_url}/narthex/console/data-docs/")

"""A commit goes through Airflow and comes out serving."""

import json
import re

import pytest

from tests.acceptance.conftest import Market
from tests.acceptance.platform import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.acceptance, pytest.mark.path]


def test_a_commit_through_airflow_serves_its_history(market: Market) -> None:
    platform = market.platform

    assert (market.shown["state"], market.shown["promotion"]) == ("FINALIZED", "DONE")
    found = platform.ask(["Buyer"], as_of="2026-03-01T09:10:00Z", user="ann")
    assert found == {
        "user": "ann",
        "country": None,
        "orders_1h": 2,
        "orders_1d": 3,
        "orders_ever": 3,
        "quantity_ever": 4,
        "value_1d": pytest.approx(8.5 / 3),
        "items": ["tea", "salt", "tea"],
        "is_new": True,
        "weight": pytest.approx(8.5),
    }


def test_a_window_ends_at_the_queried_instant(market: Market) -> None:
    before = market.platform.ask(["Buyer"], as_of="2026-03-01T08:10:00Z", user="ann")
    unborn = market.platform.ask(["Buyer"], as_of="2026-02-01T08:10:00Z", user="ann")

    assert (before["orders_ever"], before["items"]) == (1, ["tea"])
    assert (unborn["orders_ever"], unborn["items"], unborn["value_1d"]) == (0, None, 0.0)


def test_the_run_in_airflow_succeeded_and_its_tasks_create_all_assets(market: Market) -> None:
    platform = market.platform
    run = wait_until(
        lambda: (
            found
            if (found := platform.run_of(market.commit_id))["state"] in {"success", "failed"}
            else None
        ),
        within_s=60.0,
        what="the run ends",
    )
    tasks = platform.tasks_of(market.commit_id)

    assert run["state"] == "success", [(t["task_id"], t["state"]) for t in tasks]
    created = [t["rendered_map_index"] for t in tasks if t["task_id"] == "create_assets"]
    others = [
        int(found[1]) if (found := re.search(r" and (\d+) more$", one)) else 0 for one in created
    ]
    assert len(created) <= 8
    assert len(created) + sum(others) == len(market.shown["assets"])
    filled = [t["rendered_map_index"] for t in tasks if t["task_id"] == "backfill"]
    assert filled[0] == "all"
    (orders,) = [at for at, label in enumerate(filled) if re.fullmatch(r"Orders: \d+ rows", label)]
    log = f"dags/commit/dagRuns/{market.commit_id}/taskInstances/backfill/logs/1?map_index={orders}"
    assert re.search(
        r"Orders: [\d,]+( of [\d,]+)? rows, done", json.dumps(platform.airflow("GET", log))
    )
    # Nobody has to approve on this branch, and nothing has failed.
    skipped = dict.fromkeys(("approve", "roll_back"), "skipped")
    assert {t["task_id"]: t["state"] for t in tasks} == skipped | dict.fromkeys(
        (
            "compile",
            "plan",
            "create_assets",
            "commit_point",
            "backfill",
            "caught_up",
            "quality_checks",
            "quality",
            "promote",
        ),
        "success",
    )


def test_progress_is_reported_during_the_run(market: Market) -> None:
    assert any("creating assets" in line for line in market.told)
    assert any(line.startswith("+ dataset `Orders`") for line in market.told)


def test_the_ledger_records_events_in_order(market: Market) -> None:
    transitions = [event["transition"] for event in market.shown["events"]]

    for earlier, later in (("COMMITTED", "jobs_started"), ("jobs_started", "FINALIZED")):
        assert transitions.index(earlier) < transitions.index(later)
    assert {asset["state"] for asset in market.shown["assets"]} == {"live"}


def test_the_archive_is_admitted_and_what_does_not_fit_is_quarantined(market: Market) -> None:
    platform = market.platform
    refused = platform.records(platform.topic("dataset/Orders/quarantine"))
    datasets = {d["name"]: d for d in platform.client.read("datasets")["datasets"]}  # type: ignore[union-attr,index,call-overload]

    archived = [r for r in refused if b"archive" in (r.value or b"")]
    assert len(archived) == 1
    assert b"`item`: found null" in (archived[0].value or b"")
    assert datasets["Orders"]["rows"] >= 5
    assert str(datasets["Orders"]["newest_event"]).startswith("2026-03-01T09:00:00")
    assert len(platform.client.inspect("Orders", n=3)) == 3

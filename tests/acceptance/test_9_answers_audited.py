"""Answers are audited and compared with earlier ones, and a real receiver gets the alerts."""

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import pytest

from narthex.client import Client
from tests.acceptance.kiosks import DEFINITIONS
from tests.acceptance.platform import COMMIT_S, STREAM_S, Platform, wait_until
from tests.acceptance.test_4_quality import audited, log_of, run_ended
from tests.acceptance.test_5_alerts import wait_sent
from tests.server.alerts.local_receivers import HttpReceiver, http_receiver

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

BRANCH = "kiosks"
NAMES = [f"k{number}" for number in range(200)]
TASK = f"Kiosk on {BRANCH}"
FILE = """
evaluate_every = "1s"
group_wait = "1s"
group_interval = "1s"

[[receivers]]
name = "kiosks"
kind = "webhook"
url = "{url}/kiosks"
branches = ["kiosks"]
rules = ["broken_expectation", "drift"]
"""


@pytest.fixture(scope="module")
def receiver(platform: Platform) -> Iterator[HttpReceiver]:
    """A receiver of the alerts of the branch."""
    path = platform.settings.alerts_file
    before = path.read_text()
    with http_receiver() as found:
        path.write_text(FILE.format(url=found.url))
        yield found
        path.write_text(before)


def ask(client: Client, *, log: bool) -> Sequence[object]:
    answers, _ = client.query_columns(
        ["Kiosk.kiosk"], ["Kiosk.price", "Kiosk.colour"], {"Kiosk.kiosk": NAMES}, log=log
    )
    return list(answers["Kiosk.price"])


def prices(client: Client, factor: float) -> None:
    """Set the price of every kiosk, and wait until answers have it."""
    at = dt.datetime.now(tz=dt.UTC).isoformat()
    wanted = [factor * (10.0 + number % 10) for number in range(len(NAMES))]
    rows = [
        {"kiosk": name, "price": price, "colour": "red" if price < 100 else "blue", "at": at}
        for name, price in zip(NAMES, wanted, strict=True)
    ]
    client.log("kiosks", "prices", pd.DataFrame(rows))
    wait_until(
        lambda: ask(client, log=False) == wanted, within_s=STREAM_S, what="the prices are there"
    )


@pytest.fixture(scope="module")
def kiosks(platform: Platform) -> Iterator[Client]:
    """A branch with the prices of kiosks, for which every reader has asked once."""
    client = Client(platform.settings.server_url, platform.settings.token)
    client.init_branch(BRANCH)
    client.commit("kiosks", *DEFINITIONS, timeout_s=COMMIT_S)
    prices(client, 1.0)
    ask(client, log=True)
    yield client
    client.close()


def newest_audit(client: Client) -> dict[str, Any]:
    """Return the newest audit of the featureset."""
    found = client.read("audits")["audits"]
    assert isinstance(found, list)
    return next(
        dict(one)
        for one in found
        if isinstance(one, dict) and (one["branch"], one["dataset"]) == (BRANCH, "Kiosk")
    )


def state_of(platform: Platform, run_id: str) -> object:
    """Return the state of the audit of the featureset in a run."""
    tasks = platform.tasks_of(run_id, dag="quality_audit")
    (state,) = [one["state"] for one in tasks if one["rendered_map_index"] == TASK]
    return state


def drifted(platform: Platform, reference: str) -> tuple[str, object]:
    """Run the DAG `drift`; return its run, and the state of the comparison with a reference."""
    started = platform.airflow("POST", "dags/drift/dagRuns", {"logical_date": None})
    run_id = str(started["dag_run_id"])
    run_ended(platform, "drift", run_id)
    tasks = platform.tasks_of(run_id, dag="drift")
    states = {one["rendered_map_index"]: one["state"] for one in tasks}
    return run_id, states.get(f"{reference} on {BRANCH}")


def test_answers_that_meet_their_expectations_are_audited_green(
    platform: Platform, kiosks: Client
) -> None:
    run_id, _ = audited(platform)

    assert state_of(platform, run_id) == "success"
    found = newest_audit(kiosks)
    assert (found["by"], found["success"], found["is_critical"]) == ("logged", True, False)
    assert found["rows"] == len(NAMES)
    (served,) = [
        one
        for one in kiosks.read("featuresets")["featuresets"]  # type: ignore[union-attr]
        if isinstance(one, dict)
    ]
    assert (served["name"], served["expectations"]) == ("Kiosk", 2)


def test_a_dataset_without_expectations_is_profiled_in_a_log(
    platform: Platform, kiosks: Client
) -> None:
    wait_until(
        lambda: len(kiosks.inspect("Prices", n=500)) == len(NAMES),
        within_s=COMMIT_S,
        what="the history has the prices",
    )
    started = platform.airflow(
        "POST", "dags/profile/dagRuns", {"logical_date": None, "conf": {"branch": BRANCH}}
    )
    run_id = str(started["dag_run_id"])

    assert run_ended(platform, "profile", run_id)["state"] == "success"

    log = log_of(platform, run_id, "propose", of=f"Prices on {BRANCH}", dag="profile")
    assert "expectations, from 200 rows of its history; 200 rows meet them" in log
    assert "expect_column_values_to_be_between(" in log
    profiled = {one["rendered_map_index"] for one in platform.tasks_of(run_id, dag="profile")}
    # The datasets of other branches are left out, and `Kiosk` is a featureset.
    assert profiled == {None, f"Prices on {BRANCH}"}


def test_a_window_of_answers_is_pinned(platform: Platform, kiosks: Client) -> None:
    drifted(platform, "none yet")
    now = dt.datetime.now(tz=dt.UTC)

    pinned = kiosks.pin_window("calm", start=now - dt.timedelta(hours=1), end=now)

    assert set(pinned) == {"Kiosk.price", "Kiosk.colour", "Prices.price", "Prices.colour"}
    assert drifted(platform, "calm")[1] == "success"


def test_columns_have_statistics_of_the_rows_that_arrived(
    platform: Platform, kiosks: Client
) -> None:
    drifted(platform, "calm")

    found = {str(one["column"]): one for one in kiosks.column_statistics(datasets=["Prices"])}

    assert set(found) == {"Prices.price", "Prices.colour"}
    price: Any = found["Prices.price"]["statistics"]
    assert (price["rows"], price["nulls"], price["mean"]) == (len(NAMES), 0, 14.5)
    assert (price["least"], price["greatest"], price["distinct"]) == (10.0, 19.0, 10)
    colours: Any = found["Prices.colour"]["statistics"]
    assert colours["top"] == [["red", len(NAMES)]]
    histogram: Any = found["Prices.price"]["histogram"]
    assert sum(count for _, count in histogram) == len(NAMES)


def test_answers_that_break_a_critical_expectation_are_red_and_sent(
    platform: Platform, kiosks: Client, receiver: HttpReceiver
) -> None:
    prices(kiosks, 20.0)
    ask(kiosks, log=True)

    run_id, ended = audited(platform)

    assert (ended["state"], state_of(platform, run_id)) == ("failed", "failed")
    log = log_of(platform, run_id, "audit", of=TASK, dag="quality_audit")
    assert "critical: Kiosk: expect_column_values_to_be_between" in log
    assert "200 of 400 rows by logged" in log
    found = newest_audit(kiosks)
    assert (found["rows"], found["failed"], found["is_critical"]) == (2 * len(NAMES), 1, True)
    sent = wait_sent(receiver, "broken_expectation", "firing", BRANCH)
    (alert,) = sent["alerts"]
    assert (alert["subject"], alert["severity"]) == ("Kiosk", "critical")
    assert "The newest audit of 400 answers of featureset `Kiosk`" in alert["summary"]


def test_a_drift_that_the_dag_stores_is_sent(
    platform: Platform, kiosks: Client, receiver: HttpReceiver
) -> None:
    run_id, state = drifted(platform, "calm")

    assert state == "failed"
    log = log_of(platform, run_id, "compare", of=f"calm on {BRANCH}", dag="drift")
    assert "Kiosk.price: critical psi" in log
    assert "Prices.price: critical psi" in log
    stored = {
        str(one["feature"]): one["severity"]
        for one in kiosks.drift_findings()
        if one["branch"] == BRANCH
    }
    sent = wait_sent(receiver, "drift", "firing", BRANCH)
    alerts = {one["subject"]: one for one in sent["alerts"]}
    for name, values in (
        ("Kiosk.price", "answers of feature"),
        ("Prices.price", "values of column"),
    ):
        assert (stored[name], alerts[name]["severity"]) == ("critical", "critical")
        assert f"The {values} `{name}` on branch" in alerts[name]["summary"]
        assert "drifted from window `calm`" in alerts[name]["summary"]
        assert "psi" in alerts[name]["summary"]

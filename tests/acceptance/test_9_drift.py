"""Drift on the running platform: real flights of January and July, and an injected shift."""

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import polars as pl
import pytest

from narthex.client import Client
from tests.acceptance.departures import DEFINITIONS, departures
from tests.acceptance.platform import COMMIT_S, STREAM_S, Platform, wait_until
from tests.acceptance.test_4_quality import log_of, run_ended

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

BRANCH = "departures"
REFERENCE = f"january on {BRANCH}"
FEATURES = ["Departure.carrier", "Departure.distance", "Departure.temp"]
ROWS = 600
AS_OF = "2014-01-01T00:00:00Z"


def log_rows(client: Client, rows: pl.DataFrame) -> None:
    columns = {name: rows[name].to_list() for name in rows.columns}
    client.log("departures", "left", pd.DataFrame(columns))


def ask(client: Client, keys: Sequence[str], *, log: bool) -> dict[str, list[Any]]:
    answers, _ = client.query_columns(
        ["Departure.flight"], FEATURES, {"Departure.flight": [*keys]}, log=log
    )
    return {name: list(values) for name, values in answers.items()}


def offline(client: Client, keys: Sequence[str]) -> list[object]:
    answers = client.query_offline_columns(
        ["Departure.flight"],
        ["Departure.distance"],
        {"Departure.flight": keys, "at": [AS_OF] * len(keys)},
        timestamp_column="at",
    )
    return answers["Departure.distance"]


@pytest.fixture(scope="module")
def january() -> pl.DataFrame:
    return departures(1, ROWS)


@pytest.fixture(scope="module")
def july() -> pl.DataFrame:
    return departures(7, ROWS // 2)


@pytest.fixture(scope="module")
def flown(platform: Platform, january: pl.DataFrame, july: pl.DataFrame) -> Iterator[Client]:
    """A branch with departures, and a training set of half of those of January."""
    client = Client(platform.settings.server_url, platform.settings.token)
    client.init_branch(BRANCH)
    client.commit("departures", *DEFINITIONS, timeout_s=COMMIT_S)
    for rows in (january, july):
        log_rows(client, rows)
    keys = [*january["flight"], *july["flight"]]
    wait_until(
        lambda: None not in ask(client, keys, log=False)["Departure.distance"],
        within_s=STREAM_S,
        what="all departures are there",
    )
    half = january["flight"][: ROWS // 2].to_list()
    wait_until(
        lambda: None not in offline(client, half),
        within_s=COMMIT_S,
        what="the history has all departures",
    )
    spine = pd.DataFrame({"Departure.flight": half})
    spine["timestamp"] = pd.Timestamp(AS_OF)
    client.training_set("january", spine, FEATURES)
    yield client
    client.close()


def run(platform: Platform) -> tuple[str, dict[str, Any]]:
    """Run the DAG; return its run and the task of the reference."""
    started = platform.airflow("POST", "dags/drift/dagRuns", {"logical_date": None})
    run_id = str(started["dag_run_id"])
    run_ended(platform, "drift", run_id)
    (task,) = [
        one
        for one in platform.tasks_of(run_id, dag="drift")
        if (one["task_id"], one["rendered_map_index"]) == ("compare", REFERENCE)
    ]
    return run_id, task


def drifting(client: Client, reference: str = "january") -> dict[str, object]:
    """Return the severities of the current findings of the branch."""
    return {
        str(one["feature"]): one["severity"]
        for one in client.drift_findings()
        if (one["branch"], one["reference"]) == (BRANCH, reference)
    }


def test_the_other_half_of_january_does_not_drift(
    platform: Platform, flown: Client, january: pl.DataFrame
) -> None:
    ask(flown, january["flight"][ROWS // 2 :].to_list(), log=True)

    run_id, task = run(platform)

    assert task["state"] == "success", log_of(
        platform, run_id, "compare", of=REFERENCE, dag="drift"
    )
    compared = flown.drift(training_set="january")
    assert {one["feature"]: one["severity"] for one in compared} == dict.fromkeys(FEATURES)
    assert {one["rows"] for one in compared} == {ROWS // 2}
    assert all(one["is_compared"] for one in compared)
    assert drifting(flown) == {}
    now = dt.datetime.now(tz=dt.UTC)
    pinned = flown.pin_window("calm", start=now - dt.timedelta(hours=1), end=now)
    # The rows of both months have arrived, so columns do not drift from the window.
    columns = ["Departures.carrier", "Departures.distance", "Departures.temp"]
    assert pinned == [*FEATURES, *columns]


def test_statistics_of_logged_answers_are_those_of_the_flights(
    flown: Client, january: pl.DataFrame
) -> None:
    logged = january[ROWS // 2 :]

    found = {
        str(one["feature"]): one for one in flown.feature_statistics(featuresets=["Departure"])
    }

    statistics: Any = found["Departure.temp"]["statistics"]
    exact = logged["temp"].drop_nulls()
    assert statistics["mean"] == pytest.approx(exact.mean())
    assert statistics["stddev"] == pytest.approx(exact.std())
    assert statistics["nulls"] == logged["temp"].null_count()
    carriers: Any = found["Departure.carrier"]["statistics"]
    (first, count), *_ = carriers["top"]
    assert count == logged["carrier"].value_counts().max()["count"][0]
    assert count == (logged["carrier"] == first).sum()


def test_july_is_found_by_its_weather_alone_and_fails_the_task(
    platform: Platform, flown: Client, july: pl.DataFrame
) -> None:
    ask(flown, july["flight"].to_list(), log=True)

    run_id, task = run(platform)

    assert task["state"] == "failed"
    log = log_of(platform, run_id, "compare", of=REFERENCE, dag="drift")
    assert "Departure.temp: critical psi" in log
    assert drifting(flown) == {"Departure.temp": "critical"}
    assert drifting(flown, "calm") == {"Departure.temp": "critical"}
    (one,) = [
        one for one in flown.drift(training_set="january") if one["feature"] == "Departure.temp"
    ]
    assert one["rows"] == ROWS


def test_an_injected_shift_is_found_within_the_hour(
    platform: Platform, flown: Client, january: pl.DataFrame
) -> None:
    moved = january.with_columns(pl.col("distance") * 3)
    log_rows(flown, moved)
    keys, wanted = moved["flight"].to_list(), moved["distance"].to_list()
    wait_until(
        lambda: ask(flown, keys, log=False)["Departure.distance"] == wanted,
        within_s=STREAM_S,
        what="the distances are longer",
    )
    ask(flown, keys, log=True)

    _, task = run(platform)

    assert task["state"] == "failed"
    assert drifting(flown).get("Departure.distance") == "critical"
    assert "Departure.carrier" not in drifting(flown)

"""Rows are audited by arrival and by event time, past intervals again, and history is profiled."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from narthex.client import Client
from narthex.settings import environment_of
from tests.acceptance.platform import COMMIT_S, STREAM_S, Platform, wait_until
from tests.acceptance.readings import DEFINITIONS
from tests.acceptance.test_4_quality import RUN_S, audited

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

BRANCH = "gauges"
HOUR = "2026-05-01T08:00:00"
GOOD = [
    {"gauge": "g1", "level": number / 10, "at": f"2026-05-01T08:{number:02}:00Z"}
    for number in range(40)
]
FUTURE = {"gauge": "g2", "level": -1.0, "at": "2027-05-01T00:00:00Z"}


@pytest.fixture(scope="module")
def gauges(platform: Platform) -> Iterator[Client]:
    """A branch with readings of one hour in the past, and a bad one that is dated next year."""
    client = Client(platform.settings.server_url, platform.settings.token)
    client.init_branch(BRANCH)
    client.commit("gauges", *DEFINITIONS, timeout_s=COMMIT_S)
    client.log("gauges", "readings", pd.DataFrame([*GOOD, FUTURE]))
    wait_until(
        lambda: len(client.inspect("Readings", n=100)) == len(GOOD) + 1,
        within_s=STREAM_S,
        what="the readings are in the history",
    )
    yield client
    client.close()


def audits_of(platform: Platform, dataset: str, by: str) -> list[dict[str, Any]]:
    """Return the audits of a dataset of the branch by a time of rows, the newest first."""
    found = platform.client.read("audits", {"limit": 500})["audits"]
    assert isinstance(found, list)
    return [
        one
        for one in found
        if isinstance(one, dict)
        and (one["branch"], one["dataset"], one["by"]) == (BRANCH, dataset, by)
        and one["commit_id"] is None
    ]


@pytest.mark.usefixtures("gauges")
def test_a_row_of_next_year_hides_no_hour_and_is_found_when_it_arrives(platform: Platform) -> None:
    _, ended = audited(platform)

    assert ended["state"] in {"success", "failed"}
    (arrived, *_) = audits_of(platform, "Readings", "arrival")
    assert (arrived["rows"], arrived["success"], arrived["failed"]) == (len(GOOD) + 1, False, 1)
    (recent, *_) = audits_of(platform, "Readings", "event_time")
    assert (recent["rows"], recent["success"]) == (0, True)


def reaudited(platform: Platform, known: int) -> dict[str, Any]:
    """Backfill the audits of one hour; return the new audit of the readings by event time."""
    platform.airflow(
        "POST",
        "backfills",
        {
            "dag_id": "quality_audit",
            "from_date": f"{HOUR}Z",
            "to_date": f"{HOUR}Z",
            "reprocess_behavior": "completed",
        },
    )

    def of_hour() -> list[dict[str, Any]]:
        found = audits_of(platform, "Readings", "event_time")
        return [one for one in found if str(one["from"]).startswith(HOUR)]

    wait_until(lambda: len(of_hour()) > known, within_s=RUN_S, what="the hour is audited")
    # There may be one backfill of a DAG at a time.
    wait_until(
        lambda: all(
            one["completed_at"]
            for one in platform.airflow("GET", "backfills?dag_id=quality_audit")["backfills"]
        ),
        within_s=RUN_S,
        what="the backfill ends",
    )
    return of_hour()[0]


@pytest.mark.slow
@pytest.mark.usefixtures("gauges")
def test_a_backfill_in_airflow_audits_the_same_interval_again(platform: Platform) -> None:
    first = reaudited(platform, 0)

    again = reaudited(platform, 1)

    assert (first["rows"], first["success"]) == (len(GOOD), True)
    assert (again["rows"], again["from"], again["to"]) == (
        first["rows"],
        first["from"],
        first["to"],
    )
    counts = [
        one
        for one in audits_of(platform, "ReadingCounts", "event_time")
        if str(one["from"]).startswith(HOUR)
    ]
    # The gauge was read 40 times until the end of the hour.
    assert [(one["rows"], one["failed"]) for one in counts] == [(1, 1)] * len(counts)
    assert counts[0]["result"]["as_of"] == "2026-05-01T08:59:59.999999Z"


@pytest.mark.usefixtures("gauges")
def test_a_history_is_profiled_with_expectations_that_it_meets(platform: Platform) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "narthex.cli", "profile", "Readings"),
            *("--branch", BRANCH, "--json"),
        ],
        env={**os.environ, **environment_of(platform.settings)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["rows"], found["success"]) == (len(GOOD) + 1, True)
    assert 'expect_column_values_to_be_between("level"' in found["source"].replace("'", '"')

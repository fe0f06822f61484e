"""Rows that break enforced expectations are kept out, counted, shown and replayed."""

from collections.abc import Iterator
from typing import Any

import httpx
import pandas as pd
import pytest

from narthex.client import Client
from tests.acceptance import meters
from tests.acceptance.platform import COMMIT_S, STREAM_S, Platform, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

BRANCH = "metered"
FIRST = [
    {"meter": "m1", "watts": 500, "at": "2026-05-01T08:00:00Z"},
    {"meter": "m1", "watts": -7, "at": "2026-05-01T08:10:00Z"},
    {"meter": "m2", "watts": 900, "at": "2026-05-01T08:00:00Z"},
    {"meter": "m2", "watts": 12000, "at": "2026-05-01T08:20:00Z"},
]
NOON = "2026-05-01T12:00:00Z"
NEGATIVE = "watts: expect_column_values_to_be_between(min_value=0, "
GREAT = "kilowatts: expect_column_values_to_be_between(max_value=10, "


@pytest.fixture(scope="module")
def metered(platform: Platform) -> Iterator[Client]:
    """A branch with four readings, of which one is negative and one is great."""
    client = Client(platform.settings.server_url, platform.settings.token)
    client.init_branch(BRANCH)
    client.commit("meters", meters.DATASETS, meters.FEATURESETS, timeout_s=COMMIT_S)
    client.log("meters", "readings", pd.DataFrame(FIRST))
    wait_until(
        lambda: read(client, "m2")["watts"] == 12000, within_s=STREAM_S, what="the rows are read"
    )
    yield client
    client.close()


def read(client: Client, meter: str) -> dict[str, Any]:
    """Look up the features of a meter."""
    answers, _ = client.query_columns(
        ["Meter.meter"],
        ["Meter.watts", "Meter.kilowatts"],
        {"Meter.meter": [meter]},
        as_of=NOON,
    )
    return {name.partition(".")[2]: values[0] for name, values in answers.items()}


def jobs_with_counts(client: Client) -> dict[str, dict[str, Any]]:
    """Return what the jobs of the branch report of expectations, by the label of the job."""
    jobs: Any = client.read("jobs")["jobs"]
    return {
        str(job["label"]): job["expectations"]
        for job in jobs
        if job["expectations"] and str(job["label"]).startswith(("Readings", "Kilowatts"))
    }


def test_rows_that_break_enforced_expectations_are_kept_out_and_counted(
    platform: Platform, metered: Client
) -> None:
    counted = wait_until(
        lambda: found if len(found := jobs_with_counts(metered)) == 2 else None,
        within_s=STREAM_S,
        what="the jobs report broken rows",
    )

    # The former row of each key stays current.
    assert read(metered, "m1") == {"watts": 500, "kilowatts": 0.5}
    wait_until(
        lambda: read(metered, "m2") == {"watts": 12000, "kilowatts": 0.9},
        within_s=STREAM_S,
        what="the great reading is dropped",
    )
    (negative,) = counted["Readings ← webhook:meters/readings"].items()
    (great,) = counted["Kilowatts.of_readings"].items()
    assert negative[0].startswith(NEGATIVE)
    assert (negative[1]["quarantined"], negative[1]["dropped"]) == (1, 0)
    assert sum(negative[1]["minutes"].values()) == 1
    assert great[0].startswith(GREAT)
    assert (great[1]["quarantined"], great[1]["dropped"]) == (0, 1)
    metrics = httpx.get(
        f"{platform.settings.server_url}/api/v1/metrics",
        headers={"authorization": f"Bearer {platform.settings.token}"},
        timeout=60.0,
    ).text
    lines = [one for one in metrics.splitlines() if one.startswith("narthex_expectation_broken")]
    assert any('action="dropped"' in one and one.endswith(" 1") for one in lines)


def test_quarantined_and_late_rows_are_shown_and_replayed_through_the_server(
    platform: Platform, metered: Client
) -> None:
    found: Any = metered.quarantined_rows("Readings")
    (row,) = found["rows"]
    (still,) = metered.replay_rows("Readings", every=True)
    corrected = {"meter": "m1", "watts": 7, "at": "2026-05-01T08:10:00Z"}
    (done,) = metered.replay_rows("Readings", [row["row"]], payload=corrected)
    late = {"meter": "m3", "watts": 3, "at": "2026-05-01T06:00:00Z"}
    metered.log("meters", "readings", pd.DataFrame([late]))

    assert row["expectations"][0].startswith(NEGATIVE)
    assert '"watts": -7' in row["payload"]
    assert isinstance(still, dict)
    assert isinstance(done, dict)
    assert (still["outcome"], done["outcome"]) == ("rejected", "accepted")
    wait_until(
        lambda: read(metered, "m1") == {"watts": 7, "kilowatts": 0.007},
        within_s=STREAM_S,
        what="the replayed row is read",
    )
    assert metered.quarantined_rows("Readings")["rows"] == []
    came: Any = wait_until(
        lambda: rows if (rows := metered.late_rows("Readings")["rows"]) else None,
        within_s=STREAM_S,
        what="the late row is listed",
    )
    assert (came[0]["key"], came[0]["values"]) == ({"meter": "m3"}, {"watts": 3})
    assert came[0]["late_s"] == 80 * 60.0
    assert came[0]["changed_datasets"] == ["Kilowatts"]
    page = httpx.get(
        f"{platform.settings.server_url}/console/datasets/Readings/late?branch={BRANCH}",
        headers={"authorization": f"Bearer {platform.settings.token}"},
        timeout=60.0,
    )
    assert "m3" in page.text
    log: Any = metered.read("control-log", {"after": 0})["entries"]
    assert "/datasets/{name}/quarantine/replay" in {
        one["entry"]["path"].removeprefix("/api/v1") for one in log
    }

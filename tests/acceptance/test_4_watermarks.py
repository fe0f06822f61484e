"""People see up to which instant a dataset is complete, before and after a crash."""

from collections.abc import Iterator
from typing import Any

import httpx
import pandas as pd
import pytest

from narthex.client import Client
from narthex_spark_apps.jobs.application import HISTORY_WRITER
from tests.acceptance import tides
from tests.acceptance.platform import COMMIT_S, STREAM_S, Platform, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

BRANCH = "tidal"
STATION = {"station": "brest", "name": "Brest", "since": "2020-01-01T00:00:00Z"}


@pytest.fixture(scope="module")
def tidal(platform: Platform) -> Iterator[Client]:
    """A branch with one station and two heights of it; no buoy ever sends one."""
    client = Client(platform.settings.server_url, platform.settings.token)
    client.init_branch(BRANCH)
    client.commit("tides", tides.DATASETS, [], timeout_s=COMMIT_S)
    client.log("tides", "stations", pd.DataFrame([STATION]))
    measure(client, "2026-06-01T09:00:00Z")
    measure(client, "2026-06-01T08:30:00Z")
    yield client
    client.close()


def measure(client: Client, at: str) -> None:
    row = {"station": "brest", "metres": 4.5, "at": at}
    client.log("tides", "harbours", pd.DataFrame([row]))


def watermarks(client: Client) -> dict[str, Any]:
    """Return up to which event time each dataset of the branch is complete."""
    found: Any = client.read("datasets")["datasets"]
    return {str(one["name"]): one["watermark"] for one in found}


def wait_complete(client: Client, instant: str) -> None:
    """Wait until the measured and the computed dataset are complete up to an instant."""
    wait_until(
        lambda: {watermarks(client)[name] for name in ("Tides", "NamedTides")} == {instant},
        within_s=STREAM_S,
        what=f"complete up to {instant}",
        so_far=lambda: watermarks(client),
    )


def text_of(platform: Platform, path: str) -> str:
    return httpx.get(
        f"{platform.settings.server_url}/{path}",
        headers={"authorization": f"Bearer {platform.settings.token}"},
        timeout=60.0,
    ).text


def test_a_computed_dataset_is_as_complete_as_its_inputs_that_are_not_idle(
    platform: Platform, tidal: Client
) -> None:
    wait_complete(tidal, "2026-06-01T08:00:00.000000Z")

    name = "narthex_dataset_watermark_seconds"
    lines = [one for one in text_of(platform, "api/v1/metrics").splitlines() if name in one]
    assert f'{name}{{dataset="NamedTides"}} 1780300800' in "\n".join(lines)
    jobs = {(job["label"], job["kind"]): job["watermark"] for job in platform.jobs()}
    assert jobs["Tides", "history_feed"] == "2026-06-01T08:00:00.000000Z"
    assert "2026-06-01" in text_of(platform, f"console/datasets?branch={BRANCH}")


def test_a_restart_of_the_history_writer_moves_no_watermark_back(
    platform: Platform, tidal: Client
) -> None:
    measure(tidal, "2026-06-01T12:00:00Z")
    wait_complete(tidal, "2026-06-01T11:00:00.000000Z")

    old = platform.kill_runner(HISTORY_WRITER)
    platform.wait_back(HISTORY_WRITER, other_than=old)
    # An older row is the only one that the new process sees.
    measure(tidal, "2026-06-01T11:30:00Z")
    platform.settle()
    assert watermarks(tidal)["Tides"] == "2026-06-01T11:00:00.000000Z"

    measure(tidal, "2026-06-01T14:00:00Z")
    wait_complete(tidal, "2026-06-01T13:00:00.000000Z")

"""Alerts of a real platform reach a real receiver, survive the death of the server, and end."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import httpx
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from narthex.cli import make_app
from narthex.client import Client
from narthex.errors import CommitFailed
from narthex.settings import environment_of
from tests.acceptance import market as features
from tests.acceptance import parcels, thermometers
from tests.acceptance.conftest import Market
from tests.acceptance.platform import COMMIT_S, STREAM_S, Platform, wait_until
from tests.server.alerts.local_receivers import HttpReceiver, http_receiver

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

ALERT_S = 120.0
"""A lease of a server that was killed, and several evaluations."""

FILE = """
evaluate_every = "1s"
group_wait = "1s"
group_interval = "1s"

[[receivers]]
name = "on-call"
kind = "webhook"
url = "{url}/on-call"
branches = ["attic", "scales", "main"]
rules = ["freshness", "failed_commit", "quarantine_rate"]

[rules.quarantine_rate]
max_rate = 0.5
window = "40s"
branches = ["main"]
"""


@pytest.fixture(scope="module")
def receiver(platform: Platform) -> Iterator[HttpReceiver]:
    """The operator's receiver; the alerts file names it while the tests of this file run."""
    path = platform.settings.alerts_file
    before = path.read_text()
    with http_receiver() as found:
        path.write_text(FILE.format(url=found.url))
        yield found
        path.write_text(before)


def sent(receiver: HttpReceiver, rule: str, status: str, branch: str) -> dict[str, Any] | None:
    """Return the newest message of a rule about a branch, if it has the status."""
    bodies = [
        call.body
        for call in receiver.calls
        if (call.body["rule"], call.body["branch"]) == (rule, branch)
    ]
    return bodies[-1] if bodies and bodies[-1]["status"] == status else None


def wait_sent(receiver: HttpReceiver, rule: str, status: str, branch: str) -> dict[str, Any]:
    return wait_until(
        lambda: sent(receiver, rule, status, branch),
        within_s=ALERT_S,
        what=f"{rule} on {branch} is {status}",
        so_far=lambda: [call.body for call in receiver.calls],
    )


def read(client: Client) -> None:
    """Send a reading of now."""
    at = datetime.now(UTC).isoformat()
    row = {"thermometer": "attic", "celsius": 20.0, "at": at}
    client.log("thermometers", "readings", pd.DataFrame([row]))


@pytest.fixture(scope="module")
def watched(platform: Platform) -> Iterator[Client]:
    """A branch with a dataset that bounds its freshness."""
    client = Client(platform.settings.server_url, platform.settings.token)
    client.init_branch("attic")
    client.commit("thermometers", [thermometers.Readings], timeout_s=COMMIT_S)
    yield client
    client.close()


def test_a_stale_dataset_is_sent_although_the_server_dies_and_ends_with_a_row(
    platform: Platform, watched: Client, receiver: HttpReceiver
) -> None:
    read(watched)
    receiver.statuses += [503] * 100
    first = wait_sent(receiver, "freshness", "firing", "attic")

    pid = platform.kill_service("server")
    platform.wait_service("server", other_than=pid)
    attempts = len(receiver.calls)
    receiver.statuses.clear()
    wait_until(
        lambda: any(c.body["rule"] == "freshness" for c in receiver.calls[attempts:]),
        within_s=ALERT_S,
        what="it is tried again",
    )

    again = wait_sent(receiver, "freshness", "firing", "attic")
    assert first["id"] == again["id"]
    assert (again["status"], again["severity"]) == ("firing", "critical")
    (alert,) = again["alerts"]
    assert (alert["subject"], alert["is_new"]) == ("Readings", True)
    assert "older than 20 s" in alert["summary"]
    assert alert["link"].startswith(platform.settings.server_url)
    read(watched)
    ended = wait_sent(receiver, "freshness", "resolved", "attic")
    assert ended["alerts"][0]["subject"] == "Readings"
    assert ended["alerts"][0]["started_at"] == alert["started_at"]


def test_a_commit_that_is_withdrawn_for_its_quality_is_sent_until_one_succeeds(
    platform: Platform, receiver: HttpReceiver
) -> None:
    client = Client(platform.settings.server_url, platform.settings.token)
    client.init_branch("scales")
    client.commit("parcels", *parcels.FIRST, timeout_s=COMMIT_S)
    at = datetime.now(UTC).isoformat()
    client.log("parcels", "weighed", pd.DataFrame([{"parcel": "p1", "grams": -5, "at": at}]))
    wait_until(
        lambda: len(client.inspect("Parcels", n=5)), within_s=STREAM_S, what="the parcel is there"
    )

    with pytest.raises(CommitFailed):
        client.commit("kilograms", *parcels.second("critical"), timeout_s=COMMIT_S)

    fires = wait_sent(receiver, "failed_commit", "firing", "scales")
    (alert,) = fires["alerts"]
    assert "was withdrawn, as its history breaks critical expectations" in alert["summary"]
    assert f"console/commits/{alert['subject']}?branch=scales" in alert["link"]
    client.commit("warned", *parcels.second("warning"), timeout_s=COMMIT_S)
    ended = wait_sent(receiver, "failed_commit", "resolved", "scales")
    assert ended["alerts"][0]["subject"] == alert["subject"]
    client.close()


def test_quarantined_rows_beyond_a_rate_are_sent_until_they_are_past(
    market: Market, receiver: HttpReceiver
) -> None:
    market.platform.produce(features.TOPIC, [b"{not json", b"[1, 2]", b"{}"])

    fires = wait_sent(receiver, "quarantine_rate", "firing", "main")

    (alert,) = fires["alerts"]
    assert alert["subject"] == "Orders"
    assert "3 of 3 rows of dataset `Orders`" in alert["summary"]
    wait_sent(receiver, "quarantine_rate", "resolved", "main")


def test_the_commands_list_silence_and_test(
    platform: Platform, watched: Client, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment_of(platform.settings).items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> Result:
        ran = CliRunner().invoke(make_app(), ["alerts", *arguments])
        assert ran.exit_code == 0, f"{arguments}: {ran.output} {ran.exception!r}"
        return ran

    wait_sent(receiver, "freshness", "firing", "attic")
    read(watched)
    wait_sent(receiver, "freshness", "resolved", "attic")
    tested = run("test", "on-call")
    assert tested.stdout == "receiver  outcome\non-call   delivered\n"
    assert receiver.calls[-1].body["rule"] == "test"
    silence_id = run(
        "silence", "--for", "1h", "--reason", "the attic is empty", "--branch", "attic"
    ).stdout.strip()
    count = len(receiver.calls)
    listed: dict[str, Any] = wait_until(
        lambda: (
            found
            if (found := json.loads(run("list", "--json").stdout))
            and any(a["branch"] == "attic" for a in found["alerts"])
            else None
        ),
        within_s=ALERT_S,
        what="the readings are stale again",
    )
    (alert,) = [one for one in listed["alerts"] if one["branch"] == "attic"]
    assert alert["silenced"]
    assert [one["silence_id"] for one in listed["silences"]] == [silence_id]
    text = run("list").stdout
    cells = [re.split(" {2,}", line) for line in text.splitlines()]
    assert ["critical", "freshness", "attic", "Readings"] in [line[:4] for line in cells]
    assert "silenced: " in text
    assert "the attic is empty" in text
    assert not [c for c in receiver.calls[count:] if c.body["branch"] == "attic"]
    run("unsilence", silence_id)
    wait_sent(receiver, "freshness", "firing", "attic")
    metrics = httpx.get(
        f"{platform.settings.server_url}/api/v1/metrics",
        headers={"authorization": f"Bearer {platform.settings.token}"},
        timeout=60.0,
    ).text
    firing = 'narthex_alerts_firing{branch="attic",rule="freshness",severity="critical"} 1'
    assert firing in metrics.splitlines()
    assert 'narthex_alert_deliveries_total{outcome="delivered",receiver="on-call"}' in metrics


def test_a_dag_of_a_user_raises_an_alert_and_ends_it(
    platform: Platform, watched: Client, tmp_path: Path
) -> None:
    settings = attrs.evolve(platform.settings, token=platform.settings.dags_token)
    environment = {**os.environ, **environment_of(settings), "AIRFLOW_HOME": str(tmp_path)}

    def notify(arguments: str) -> None:
        code = (
            "from airflow.sdk import DAG\n"
            "from narthex_plugins.notifier import NarthexNotifier\n"
            f"notifier = NarthexNotifier(branch='attic', {arguments})\n"
            "notifier({'dag': DAG('nightly'), 'run_id': 'r1'})\n"
        )
        done = subprocess.run(
            (sys.executable, "-c", code),
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def fires() -> list[Any]:
        found = watched.alerts()["alerts"]
        assert isinstance(found, list)
        return [a for a in found if isinstance(a, dict) and a["rule"] == "dag_failed"]

    notify("severity='critical'")
    (alert,) = wait_until(fires, within_s=ALERT_S, what="the DAG's alert fires")
    assert (alert["branch"], alert["subject"]) == ("attic", "nightly")
    assert alert["summary"] == "Run `r1` of the DAG `nightly` failed in Airflow."
    notify("fires=False")
    wait_until(lambda: not fires(), within_s=ALERT_S, what="it ends")

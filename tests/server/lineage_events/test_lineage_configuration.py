"""Lineage is configured as other producers of OpenLineage are, and waits for no receiver."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.transport.http import HttpTransport
from starlette.testclient import TestClient

from narthex_server.app import make_app
from narthex_server.lineage_events.configuration import LineageUnconfigured, make_client
from narthex_server.lineage_events.delivery import LineageNotTaken, LineageReceiver, LineageRefused
from narthex_server.lineage_events.environment import (
    configuration_file,
    is_configured,
    namespace_of,
)
from tests.server.alerts.local_receivers import http_receiver
from tests.server.conftest import House

pytestmark = pytest.mark.slow

SECRET = "a-secret-of-tests"
RUN = "00000000-0000-5000-8000-000000000001"


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Hide the configuration of this machine, and undo what the client does to the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def configure(home: Path, **transport: Any) -> None:
    configuration_file(home).write_text(json.dumps({"transport": transport}))


def event() -> RunEvent:
    return RunEvent(
        eventTime="2026-05-01T12:00:00+00:00",
        eventType=RunState.START,
        run=Run(runId=RUN),
        job=Job(namespace="narthex", name="main.commit"),
        producer="https://narthex.dev",
    )


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({"OPENLINEAGE_URL": "http://r"}, True),
        ({"OPENLINEAGE_URL": ""}, False),
        ({"OPENLINEAGE_CONFIG": "/c.yml"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "console"}, True),
        ({"OPENLINEAGE_NAMESPACE": "shop"}, False),
        ({"OPENLINEAGE_URL": "http://r", "OPENLINEAGE_DISABLED": "TRUE"}, False),
    ],
)
def test_lineage_is_off_unless_a_receiver_is_configured(
    tmp_path: Path, variables: dict[str, str], expected: bool
) -> None:
    assert is_configured(tmp_path, variables) is expected


def test_a_file_in_the_home_configures_it(tmp_path: Path) -> None:
    configure(tmp_path, type="console")
    assert is_configured(tmp_path, {})
    assert not is_configured(tmp_path, {"OPENLINEAGE_DISABLED": "true"})
    assert (namespace_of({}), namespace_of({"OPENLINEAGE_NAMESPACE": "s"})) == ("narthex", "s")


def test_a_url_in_the_environment_is_a_receiver_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with http_receiver() as http:
        monkeypatch.setenv("OPENLINEAGE_URL", http.url)
        monkeypatch.setenv("OPENLINEAGE_API_KEY", SECRET)
        LineageReceiver(make_client(tmp_path)).send(event())

    assert http.calls[0].headers["authorization"] == f"Bearer {SECRET}"
    assert http.calls[0].body["run"]["runId"] == RUN


def test_a_receiver_has_five_seconds_and_one_attempt(tmp_path: Path) -> None:
    with http_receiver() as http:
        configure(tmp_path, type="http", url=http.url, timeout=600, retry={"total": 7})
        client = make_client(tmp_path)
        http.statuses += [503]
        with pytest.raises(LineageNotTaken, match="status 503"):
            LineageReceiver(client).send(event())

    assert isinstance(client.transport, HttpTransport)
    assert client.transport.timeout == 5.0
    assert len(http.calls) == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (307, LineageNotTaken),
        (401, LineageNotTaken),
        (404, LineageNotTaken),
        (429, LineageNotTaken),
        (500, LineageNotTaken),
        (400, LineageRefused),
        (422, LineageRefused),
    ],
)
def test_an_event_is_repeated_unless_it_is_invalid(
    tmp_path: Path, status: int, error: type[Exception]
) -> None:
    with http_receiver() as http:
        configure(tmp_path, type="http", url=http.url)
        http.statuses += [status]
        with pytest.raises(error):
            LineageReceiver(make_client(tmp_path)).send(event())

    assert len(http.calls) == 1


def test_neither_errors_nor_logs_have_a_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    configure(
        tmp_path,
        type="http",
        url=f"http://ann:{SECRET}@127.0.0.1:1",
        auth={"type": "api_key", "apiKey": SECRET},
    )
    with pytest.raises(LineageNotTaken) as failed:
        LineageReceiver(make_client(tmp_path)).send(event())
    configuration_file(tmp_path).write_text(f"transport: [{SECRET}")
    with pytest.raises(LineageUnconfigured) as unreadable:
        make_client(tmp_path)
    configure(tmp_path, type="http", url=SECRET)
    with pytest.raises(LineageUnconfigured) as invalid:
        make_client(tmp_path)

    assert "openlineage.yml" in str(unreadable.value)
    said = f"{failed.value}{unreadable.value}{invalid.value}{caplog.text}"
    assert str(failed.value) == "ConnectionError"
    assert SECRET not in said


def test_the_environment_of_the_server_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NARTHEX_TOKEN", SECRET)
    with http_receiver() as http:
        configuration_file(tmp_path).write_text(
            json.dumps(
                {
                    "transport": {"type": "http", "url": http.url},
                    "facets": {
                        "environment_variables": ["NARTHEX_TOKEN"],
                        "source_code_location": {
                            "disabled": False,
                            "repo_url": f"https://{SECRET}@git/x",
                        },
                    },
                    "tags": {"job": {"team": "shop"}},
                }
            )
        )
        LineageReceiver(make_client(tmp_path)).send(event())

    body = http.calls[0].body
    assert SECRET not in json.dumps(body)
    assert "sourceCodeLocation" not in body["job"]["facets"]
    assert body["job"]["facets"]["tags"]["tags"][0]["value"] == "shop"


def test_events_are_written_to_a_file_or_to_the_console(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(tmp_path, type="file", log_file_path=str(tmp_path / "events"), append=True)
    LineageReceiver(make_client(tmp_path)).send(event())
    configure(tmp_path, type="console")
    LineageReceiver(make_client(tmp_path)).send(event())

    assert json.loads((tmp_path / "events").read_text())["run"]["runId"] == RUN
    assert json.loads(capsys.readouterr().out)["run"]["runId"] == RUN


def test_a_transport_that_confirms_nothing_is_refused(tmp_path: Path) -> None:
    configure(tmp_path, type="async_http", url="http://127.0.0.1:1")
    with pytest.raises(LineageUnconfigured, match="`http`, `file` and `console`"):
        make_client(tmp_path)


def test_a_file_without_a_receiver_is_refused_and_nothing_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration_file(tmp_path).write_text("")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(tmp_path / "missing.yml"))
    with pytest.raises(LineageUnconfigured, match="names no receiver"):
        make_client(tmp_path)

    assert capsys.readouterr().out == ""


def test_a_setting_of_the_wrong_type_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    configure(tmp_path, type="http", url="http://127.0.0.1:1", timeout="soon")
    with pytest.raises(LineageUnconfigured, match="TypeError"):
        make_client(tmp_path)


def test_a_server_without_lineage_does_not_import_its_client() -> None:
    code = "import sys, narthex_server.app; print([m for m in sys.modules if 'openlineage' in m])"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(("variables", "expected"), [({}, 0), ({"OPENLINEAGE_URL": "http://x"}, 1)])
def test_a_server_sends_lineage_if_it_is_configured(
    house: House, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: int
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with TestClient(make_app(house.services)):
        threads = [thread.name for thread in threading.enumerate()]
    assert threads.count("lineage") == expected

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner
from typing_extensions import override

from narthex._base.records import Json, to_plain
from narthex._ir import types
from narthex._ir.assets import DatasetPlan, HistorySpec, LogShape, LogSpec
from narthex._ir.entities import Expectation
from narthex._ir.facts import Fact, RowId, Version
from narthex._ir.schema import Column, Field, Role, Schema
from narthex_expectations.audit_command import main
from narthex_stores import HistoryAdapter, HistoryTable, LogRow

pytestmark = pytest.mark.slow

LOG = LogSpec(shape=LogShape.ROWS, keys=(), values=(Column("n", types.Int()),), time_field="at")
PLAN = DatasetPlan(
    name="Orders",
    version=1,
    schema=Schema(
        (
            Field(name="n", type=types.Int()),
            Field(name="at", type=types.Datetime(), role=Role.TIMESTAMP),
        )
    ),
    log=LOG,
    aggregates=(),
    ladder_us=(),
    online=False,
    offline=True,
    expectations=(
        Expectation(
            kind="expect_column_values_to_be_between",
            arguments=(("column", "n"), ("max_value", 1)),
        ),
    ),
)
APP = typer.Typer()
APP.command()(main)


class Platform(ThreadingHTTPServer):
    """The two answers that an audit needs, and its report."""

    def __init__(self, history: str) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.history = history
        self.kept: list[dict[str, Json]] = []


class Answers(BaseHTTPRequestHandler):
    server: Platform

    def do_GET(self) -> None:
        if self.path != "/api/v1/datasets/Orders":
            self._answer(404, {"err_msg": "no such dataset"})
        else:
            self._answer(
                200,
                {"plan": to_plain(PLAN), "history": self.server.history, "topic": "t"},
            )

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Authorization"] == "Bearer secret"
        self.server.kept.append(json.loads(body))
        self._answer(200, {"audit_id": "a"})

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, status: int, body: dict[str, Json]) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    HistoryAdapter(history_dir=str(tmp_path)).create(
        "nx_h", HistorySpec(log=LOG), asset_id=1, timeout_s=10
    )
    path = str(tmp_path / "nx_h")
    facts = [
        Fact(row_id=RowId(b"%d" % n), version=Version(b""), event_time=n, key=(), values=(n,))
        for n in range(3)
    ]
    HistoryTable(path, HistorySpec(log=LOG)).append_rows(
        [LogRow(0, number, fact) for number, fact in enumerate(facts)]
    )
    with Platform("nx_h") as server:
        for name, value in {
            "HOME": str(tmp_path),
            "INSTALL_ID": "7k2m9q4a",
            "LEDGER_DSN": "",
            "KAFKA": "",
            "SERVER_URL": f"http://127.0.0.1:{server.server_port}",
            "TOKEN": "secret",
            "INDEX_DIR": ".",
            "HISTORY_DIR": str(tmp_path),
            "CHECKPOINT_DIR": ".",
            "FILES_ROOT": ".",
            "JARS_DIR": ".",
        }.items():
            monkeypatch.setenv(f"NARTHEX_{name}", value)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_an_audit_prints_and_stores_its_result(platform: Platform) -> None:
    done = CliRunner().invoke(APP, ["Orders", "--last-hour", "--json"])

    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    assert (printed["rows"], printed["success"], printed["failed"]) == (3, False, 1)
    (kept,) = platform.kept
    assert kept["result"] == printed
    assert (kept["dataset"], kept["success"]) == ("Orders", False)


def test_an_audit_of_a_span_holds_its_rows_only(platform: Platform) -> None:
    span = ["--from", "1970-01-01T00:00:00Z", "--to", "1970-01-01T00:00:00.000002Z"]

    done = CliRunner().invoke(APP, ["Orders", *span, "--json"])

    assert json.loads(done.stdout)["rows"] == 2
    assert platform.kept[0]["success"] is True


def test_an_audit_lists_its_expectations_for_people(platform: Platform) -> None:
    done = CliRunner().invoke(APP, ["Orders", "--last-hour"])

    headings, line = done.stdout.splitlines()
    assert headings.split() == ["outcome", "severity", "expectation", "unexpected", "error"]
    assert line.split()[0] == "BROKEN"
    assert done.stderr == "Orders@1: 3 rows by event time\n"
    assert len(platform.kept) == 1


def test_printing_a_suite_stores_nothing(platform: Platform) -> None:
    done = CliRunner().invoke(APP, ["Orders", "--suite"])
    as_json = CliRunner().invoke(APP, ["Orders", "--suite", "--json"])

    assert json.loads(done.stdout)["name"] == "Orders@1"
    assert json.loads(as_json.stdout) == json.loads(done.stdout)
    assert platform.kept == []


@pytest.mark.usefixtures("platform")
def test_a_missing_dataset_is_reported_on_stderr() -> None:
    done = CliRunner().invoke(APP, ["Refunds", "--last-hour"])

    assert done.exit_code == 1
    assert done.stdout == ""
    assert "narthex audit: Refunds: " in done.stderr
    assert "no such dataset" in done.stderr


@pytest.mark.usefixtures("platform")
def test_an_audit_without_a_span_is_a_mistake_of_the_command_line() -> None:
    done = CliRunner().invoke(APP, ["Orders"])

    assert done.exit_code == 2


@pytest.mark.parametrize("module", ["audit_runs", "profile_runs", "hourly_summaries"])
def test_only_a_check_of_rows_waits_for_great_expectations(module: str) -> None:
    program = (
        f"import sys, narthex_expectations.{module}\n"
        "print(sorted({'great_expectations', 'scipy'} & sys.modules.keys()))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert done.stdout == "[]\n"

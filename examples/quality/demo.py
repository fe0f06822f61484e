"""`make demo-quality`: rows go wrong in six ways, and the platform reports or repairs each.

Starts the platform, breaks an expectation, sends a bad and a late row, shifts a feature, replays
the quarantined row, erases a key, and checks what a person sees of each. Progress goes to stderr,
one JSON object to stdout; the exit code is 0 only if all of it happened.
"""

import datetime as dt
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

import attrs
import httpx
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from typing_extensions import override

from examples.quality import features
from narthex.client import Client
from narthex.errors import CommitFailed
from narthex.settings import Settings, home_of, load_settings

BRANCH = "meters"
METERS = 400
NOON = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
WITHIN_S = 300.0
COMMIT_S = 600.0

_T = TypeVar("_T")

progress = Console(stderr=True)

ALERTS = """
[[receivers]]
name = "on-call"
kind = "webhook"
url = "{url}/on-call"
branches = ["{branch}"]
"""


@attrs.define
class OnCall:
    """A receiver of alerts, as a team runs one: it keeps the messages that it gets."""

    messages: list[dict[str, object]] = attrs.field(factory=list)

    def find(self, rule: str) -> dict[str, object] | None:
        """Return the newest message about a rule."""
        return next((one for one in reversed(self.messages) if one["rule"] == rule), None)

    @contextmanager
    def listening(self) -> Iterator[str]:
        """Listen while the block runs; the value is the address."""
        messages = self.messages

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                messages.append(json.loads(body))
                self.send_response(204)
                self.end_headers()

            @override
            def log_message(self, format: str, *args: object) -> None:
                del format, args

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@attrs.frozen
class Airflow:
    """Airflow's REST API."""

    settings: Settings

    def call(self, method: str, path: str, body: object = None) -> dict[str, object]:
        """Call a path as the admin.

        Raises:
            RuntimeError: Airflow refuses the call.
        """
        url = self.settings.airflow_url
        login = {"username": self.settings.airflow_user, "password": self.settings.airflow_password}
        token = httpx.post(f"{url}/auth/token", json=login, timeout=30.0).json()["access_token"]
        answer = httpx.request(
            method,
            f"{url}/api/v2/{path}",
            json=body,
            headers={"authorization": f"Bearer {token}"},
            timeout=30.0,
        )
        if not answer.is_success:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        found: dict[str, object] = answer.json()
        return found

    def ended(self, dag: str, run_id: str) -> str | None:
        """Return the state of a run that has ended; None while it runs."""
        state = str(self.call("GET", f"dags/{dag}/dagRuns/{run_id}")["state"])
        return state if state in {"success", "failed"} else None

    def failed_tasks(self, dag: str, run_id: str) -> list[str]:
        """Return the failed tasks of a run, mapped ones with the name of their dataset."""
        found = self.call("GET", f"dags/{dag}/dagRuns/{run_id}/taskInstances?limit=200")
        tasks = found["task_instances"]
        failed = (
            [one for one in tasks if one["state"] == "failed"] if isinstance(tasks, list) else []
        )
        return [f"{one['task_id']} {one['rendered_map_index'] or ''}".strip() for one in failed]


def wait(ask: Callable[[], _T | None], what: str) -> _T:
    """Ask until there is an answer.

    Raises:
        TimeoutError: There was none in time.
    """
    ends_at = time.monotonic() + WITHIN_S
    while True:
        found = ask()
        if found:
            return found
        if time.monotonic() > ends_at:
            raise TimeoutError(f"{what}: not within {WITHIN_S:.0f} s")
        time.sleep(1.0)


def start_platform() -> Settings:
    """Start everything and wait until it is healthy; a second call finds it running."""
    home = home_of(os.environ)
    os.environ["NARTHEX_HOME"] = str(home)
    subprocess.run([sys.executable, "-m", "narthex.cli", "up"], check=True)
    return load_settings()


def log(client: Client, meters: Sequence[str], watts: Sequence[float], at: dt.datetime) -> None:
    """Send one reading of each meter."""
    rows = pd.DataFrame(
        {"meter": [*meters], "watts": [*watts], "at": [at.isoformat()] * len(meters)}
    )
    client.log("meters", "readings", rows)


def ask(client: Client, meters: Sequence[str], *, is_logged: bool = False) -> list[object]:
    """Query the watts of meters."""
    answers, _ = client.query_columns(
        ["Meter.meter"], ["Meter.watts"], {"Meter.meter": [*meters]}, log=is_logged
    )
    return list(answers["Meter.watts"])


def break_expectation(client: Client, airflow: Airflow, on_call: OnCall) -> dict[str, object]:
    """Commit a dataset whose history breaks a critical expectation: readers do not flip."""
    progress.rule("1. a commit whose history breaks a critical expectation")
    try:
        client.commit("kilowatts", *features.second(), timeout_s=COMMIT_S)
    except CommitFailed as refused:
        progress.print(str(refused))
    commits = client.read("commits")["commits"]
    newest = commits[0] if isinstance(commits, list) else {}
    run_id = str(newest["commit_id"]) if isinstance(newest, dict) else ""
    state = wait(lambda: airflow.ended("commit", run_id), "the run of the commit ends")
    tasks = airflow.failed_tasks("commit", run_id)
    alert = wait(lambda: on_call.find("failed_commit"), "the alert arrives")
    progress.print(f"Airflow: {state}; failed tasks: {', '.join(tasks)}")
    progress.print(f"alert received: {json.dumps(alert['alerts'], indent=2)}")
    return {"run": state, "failed_tasks": tasks, "alert": alert["status"]}


def keep_rows_out(client: Client) -> dict[str, object]:
    """Send a bad and a late row; correct the bad one and replay it."""
    progress.rule("2. a bad row is quarantined, a late row is listed")
    log(client, ["m1"], [-7.0], NOON + dt.timedelta(minutes=1))
    log(client, ["late"], [30.0], NOON - dt.timedelta(hours=6))
    bad = wait(lambda: _rows(client.quarantined_rows("Readings")), "the bad row is quarantined")
    late = wait(lambda: _rows(client.late_rows("Readings")), "the late row is listed")
    progress.print(f"quarantined: {bad[0]['payload']}, because {bad[0]['expectations']}")
    progress.print(f"late: {late[0]['key']}, by {late[0]['late_s']} s")
    corrected = {"meter": "m1", "watts": 7.0, "at": (NOON + dt.timedelta(minutes=1)).isoformat()}
    (replayed,) = client.replay_rows("Readings", [str(bad[0]["row"])], payload=corrected)
    wait(lambda: ask(client, ["m1"]) == [7.0], "the replayed row is read")
    outcome = replayed["outcome"] if isinstance(replayed, dict) else None
    progress.print(f"replayed as {corrected}: {outcome}")
    return {"quarantined": len(bad), "late": len(late), "replayed": outcome}


def drift(client: Client, airflow: Airflow, meters: Sequence[str]) -> dict[str, object]:
    """Make a training set, ask for features as a model does, then shift them."""
    progress.rule("3. a feature drifts")
    half = meters[: len(meters) // 2]
    spine = pd.DataFrame({"Meter.meter": half})
    spine["timestamp"] = pd.Timestamp(NOON)
    offline = wait(
        lambda: found if -1.0 not in (found := _offline(client, half)) else None,
        "the history has all readings",
    )
    client.training_set("calm", spine, ["Meter.watts"])
    ask(client, meters[len(meters) // 2 :], is_logged=True)
    calm = _run_drift(airflow)
    shifted = [watts * 3 for watts in _floats(offline)]
    log(client, half, shifted, NOON + dt.timedelta(hours=1))
    wait(lambda: ask(client, half) == shifted, "the shifted rows are read")
    for _ in range(3):
        ask(client, half, is_logged=True)
    after = _run_drift(airflow)
    found = client.drift(training_set="calm")
    (one,) = [one for one in found if one["feature"] == "Meter.watts"]
    plot(offline, shifted)
    page = f"{airflow.settings.server_url}/console/drift?branch={BRANCH}"
    progress.print(f"before: {calm}; after: {after}; {one['severity']}; {page}")
    return {"before": calm, "after": after, "severity": one["severity"]}


def erase(client: Client, meter: str) -> dict[str, object]:
    """Erase a meter, and verify the certificate."""
    progress.rule("4. a key is erased")
    erasure_id = str(client.erase("Readings", pd.DataFrame({"meter": [meter]})).body["erasure_id"])
    done = wait(
        lambda: (
            found
            if (found := client.erasure(erasure_id))["state"] in {"certified", "failed"}
            else None
        ),
        "the erasure ends",
    )
    certificate = done["certificate"]
    if not isinstance(certificate, dict):
        return {"state": done["state"], "is_valid": False}
    verified = client.verify_erasure(certificate, str(done["signature"]), key={"meter": meter})
    log(client, [meter], [50.0], NOON + dt.timedelta(hours=2))
    log(client, ["witness"], [51.0], NOON + dt.timedelta(hours=2))
    wait(lambda: ask(client, ["witness"]) == [51.0], "the row after it is read")
    answer = ask(client, [meter])
    progress.print(json.dumps(certificate, indent=2))
    progress.print(f"asked again after another row of it arrived: {answer}")
    return {
        "state": done["state"],
        "is_valid": verified["is_valid"],
        "covers": verified["covers"],
        "answer": answer,
    }


def plot(before: Sequence[object], after: Sequence[object]) -> None:
    """Print the distribution of two samples side by side, as shares of ten bins."""
    known = [_floats(before), _floats(after)]
    edges = np.histogram_bin_edges(np.concatenate([np.asarray(one) for one in known]), bins=10)
    shares = [np.histogram(one, bins=edges)[0] / len(one) for one in known]
    table = Table(title="Meter.watts: the training set, and the answers of the last hour")
    for name in ("watts", "training set", "answers"):
        table.add_column(name)
    for at, (first, second) in enumerate(zip(*shares, strict=True)):
        bars = ["█" * round(40 * float(share)) for share in (first, second)]
        table.add_row(f"{edges[at]:.0f} to {edges[at + 1]:.0f}", *bars)
    progress.print(table)


def main() -> int:
    """Run the demo; exit with 0 only if every fault was seen and every repair worked."""
    began = time.monotonic()
    settings = start_platform()
    airflow, on_call = Airflow(settings), OnCall()
    meters = [f"m{number}" for number in range(METERS)]
    watts = np.random.default_rng(1).normal(1000.0, 150.0, METERS).clip(50.0, 2000.0)
    with on_call.listening() as url:
        settings.alerts_file.write_text(ALERTS.format(url=url, branch=BRANCH))
        client = Client(settings.server_url, settings.token)
        client.init_branch(BRANCH)
        client.commit("readings", *features.FIRST, timeout_s=COMMIT_S)
        log(client, meters, [float(one) for one in watts], NOON)
        log(client, ["great"], [9000.0], NOON)
        wait(lambda: -1.0 not in ask(client, [*meters, "great"]), "all readings are there")
        result = {
            "expectation": break_expectation(client, airflow, on_call),
            "rows": keep_rows_out(client),
            "drift": drift(client, airflow, meters),
            "erasure": erase(client, meters[-1]),
        }
    result["total_s"] = {"seconds": round(time.monotonic() - began, 1)}
    if os.environ.get("CI") == "true":
        subprocess.run([sys.executable, "-m", "narthex.cli", "down"], check=True)
    print(json.dumps(result))
    return 0 if _is_as_expected(result) else 1


def _is_as_expected(result: dict[str, dict[str, object]]) -> bool:
    expectation, rows = result["expectation"], result["rows"]
    shift, erasure = result["drift"], result["erasure"]
    return (
        expectation == {"run": "failed", "failed_tasks": ["quality Kilowatts"], "alert": "firing"}
        and rows == {"quarantined": 1, "late": 1, "replayed": "accepted"}
        and shift == {"before": "success", "after": "failed", "severity": "critical"}
        and (erasure["is_valid"], erasure["covers"], erasure["answer"]) == (True, True, [-1.0])
    )


def _rows(found: dict[str, object]) -> list[dict[str, object]]:
    rows = found["rows"]
    return [one for one in rows if isinstance(one, dict)] if isinstance(rows, list) else []


def _floats(cells: Sequence[object]) -> list[float]:
    return [float(cell) for cell in cells if isinstance(cell, float | int)]


def _offline(client: Client, meters: Sequence[str]) -> list[object]:
    spine = {"Meter.meter": [*meters], "at": [NOON.isoformat()] * len(meters)}
    answers = client.query_offline_columns(
        ["Meter.meter"], ["Meter.watts"], spine, timestamp_column="at"
    )
    return list(answers["Meter.watts"])


def _run_drift(airflow: Airflow) -> str:
    """Run the DAG; return the state of the task that compares the branch's training set."""
    started = airflow.call("POST", "dags/drift/dagRuns", {"logical_date": None})
    run_id = str(started["dag_run_id"])
    wait(lambda: airflow.ended("drift", run_id), "the run of drift ends")
    failed = airflow.failed_tasks("drift", run_id)
    return "failed" if f"compare calm on {BRANCH}" in failed else "success"


if __name__ == "__main__":
    sys.exit(main())

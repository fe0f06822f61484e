"""The shipped configuration of Prometheus and Grafana, with a real Prometheus and a real server."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from docs.render_metrics import PAGE, metrics, names_of, render
from narthex_server.app import make_app
from narthex_stack.machine.ports import free_ports, is_listening
from tests.guides.pages import commands, only_block
from tests.server.conftest import TOKEN, House
from tests.server.listening import listening

pytestmark = pytest.mark.slow

MONITORING: Final = Path(__file__).parents[3] / "docker" / "monitoring"
DASHBOARD: Final = MONITORING / "dashboard.json"
RULES: Final = MONITORING / "rules.yml"
PORT: Final = 9090
"""The port of a Prometheus that is not told another one."""

URL: Final = f"http://127.0.0.1:{PORT}/api/v1"
MISSING: Final = "Prometheus is not installed; run `apt-get install prometheus`"
WITHIN_S: Final = 60.0
_METRIC: Final = re.compile(r"\bnarthex_[a-z0-9_]+")


def expressions() -> Iterator[str]:
    """Yield the expressions of the dashboard, each over five minutes."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    for panel in panels:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "5m")


def test_the_page_lists_the_metrics_of_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `python -m docs.render_metrics`"


def test_rules_and_dashboard_name_metrics_that_exist() -> None:
    known = {series for name, kind, _ in metrics() for series in names_of(name, kind)}
    named = _METRIC.findall(RULES.read_text(encoding="utf-8") + " ".join(expressions()))

    assert set(named) - known == set()
    assert len(set(named)) > 15


@pytest.fixture
def programs() -> None:
    """Skip the test if Prometheus is not installed here."""
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        pytest.skip(MISSING)


@pytest.mark.usefixtures("programs")
def test_each_alert_fires_for_its_cause_only() -> None:
    done = subprocess.run(
        ["promtool", "test", "rules", str(MONITORING / "rules_test.yml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    tested = set(re.findall(r"alertname: (\w+)", (MONITORING / "rules_test.yml").read_text()))
    assert tested == set(re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8")))


@pytest.mark.usefixtures("programs")
def test_the_command_of_the_page_starts_prometheus_with_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (command,) = commands(only_block("sh prometheus").text)
    shutil.copytree(MONITORING, tmp_path / "docker" / "monitoring")
    (tmp_path / "docker" / "monitoring" / "token").write_text("a-token-of-tests")
    monkeypatch.chdir(tmp_path)
    ends_at = time.monotonic() + WITHIN_S
    while is_listening(PORT):  # of another Prometheus
        assert time.monotonic() < ends_at, f"a program listens on port {PORT}"
        time.sleep(0.5)

    process = subprocess.Popen(command.words)
    try:
        while not (targets := ask(URL, "targets").get("activeTargets")):
            assert process.poll() is None, "Prometheus has ended"
            assert time.monotonic() < ends_at
            time.sleep(0.2)
        is_ready = httpx.get(f"http://127.0.0.1:{PORT}/-/ready", timeout=60.0).is_success
        groups = ask(URL, "rules")["groups"]
    finally:
        process.terminate()
        process.wait(30.0)

    assert is_ready
    names = [rule["name"] for group in groups for rule in group["rules"]]
    assert names == re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8"))
    assert {one["labels"]["job"] for one in targets} == {"narthex", "narthex-reads"}


@contextmanager
def prometheus(home: Path, *, server_port: int, token: str) -> Iterator[str]:
    """Run Prometheus with the shipped configuration, but for ports and the interval."""
    text = (MONITORING / "prometheus.yml").read_text(encoding="utf-8")
    text = text.replace("localhost:8400", f"127.0.0.1:{server_port}").replace("15s", "1s")
    (home / "prometheus.yml").write_text(text)
    (home / "rules.yml").write_text(RULES.read_text(encoding="utf-8"))
    (home / "token").write_text(token)
    [port] = free_ports(1)
    process = subprocess.Popen(
        [
            *("prometheus", "--config.file", str(home / "prometheus.yml")),
            *("--storage.tsdb.path", str(home / "data")),
            *("--web.listen-address", f"127.0.0.1:{port}", "--log.level", "error"),
        ]
    )
    try:
        yield f"http://127.0.0.1:{port}/api/v1"
    finally:
        process.terminate()
        process.wait(30.0)


def ask(url: str, path: str, **parameters: str) -> Mapping[str, Any]:
    """Ask Prometheus; an empty result while it starts."""
    try:
        answer = httpx.get(f"{url}/{path}", params=parameters, timeout=10.0)
    except httpx.TransportError:
        return {"result": []}
    if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        return {"result": []}
    assert answer.status_code == httpx.codes.OK, answer.text
    found: Mapping[str, Any] = answer.json()["data"]
    return found


@pytest.mark.postgres
@pytest.mark.usefixtures("programs")
def test_prometheus_scrapes_the_server_and_reads_the_dashboard(
    house: House, tmp_path: Path
) -> None:
    [port] = free_ports(1)
    with (
        listening(make_app(house.services), port, has_tasks=False),
        prometheus(tmp_path, server_port=port, token=TOKEN) as url,
    ):
        house.client.get("/api/v1/commits")
        ends_at = time.monotonic() + WITHIN_S
        while not (up := ask(url, "query", query='up{job="narthex"} == 1')["result"]):
            assert time.monotonic() < ends_at, ask(url, "targets")
            time.sleep(0.2)

        seen = ask(url, "query", query='narthex_requests_total{route="/api/v1/commits"}')["result"]
        answers = [ask(url, "query", query=expression) for expression in expressions()]
        rules = ask(url, "rules")["groups"][0]["rules"]

    assert len(up) == 1
    assert [one["metric"]["status"] for one in seen] == ["200"]
    assert len(answers) > 15
    assert {answer["resultType"] for answer in answers} == {"vector"}
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
    assert len(rules) == RULES.read_text(encoding="utf-8").count("- alert:")

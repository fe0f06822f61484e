import datetime as dt
import http.server
import json
import os
import threading
from pathlib import Path

import pytest
from typing_extensions import override

from narthex._processes import Process
from narthex.settings import Settings
from narthex_stack.cli.screen import age, doors, weakness
from narthex_stack.local_services.probes import job_problems_of, look_at_heartbeat, sandbox_of
from narthex_stack.operator.status import (
    GIVES_UP_AFTER,
    NEXT,
    ServiceState,
    ServiceStatus,
    Status,
    load_services,
    plain,
    store_status,
)
from narthex_stack.servers.kafka import KafkaNode, cluster_id, properties

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
ME = Process(pid=7, start=70)
KAFKA = ServiceStatus(
    name="kafka",
    group="kafka",
    state=ServiceState.HEALTHY,
    since=NOON,
    process=ME,
    port=9,
    restarts=2,
)


def test_a_status_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    store_status(tmp_path / "s", Status(home=tmp_path, operator=ME, services=(KAFKA,)))

    assert load_services(tmp_path / "s") == (KAFKA,)


@pytest.mark.parametrize("state", ServiceState)
def test_only_healthy_and_external_services_are_well(state: ServiceState) -> None:
    service = ServiceStatus(name="x", group="x", state=state, since=NOON)

    assert service.is_well is (state in {ServiceState.HEALTHY, ServiceState.EXTERNAL})


def test_nothing_is_well_without_an_operator() -> None:
    assert not Status(home=Path("/h"), operator=None).is_well


def test_each_state_but_the_last_can_be_stopped() -> None:
    for state in set(ServiceState) - {
        ServiceState.STOPPING,
        ServiceState.STOPPED,
        ServiceState.EXTERNAL,
    }:
        assert ServiceState.STOPPING in NEXT[state]


def test_a_service_that_keeps_failing_is_hopeless() -> None:
    service = ServiceStatus(
        name="x", group="x", state=ServiceState.BACKING_OFF, since=NOON, failures=GIVES_UP_AFTER
    )

    assert service.is_hopeless


def test_a_stale_heartbeat_is_reported_with_its_age(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    within = dt.timedelta(seconds=15)
    assert look_at_heartbeat(beat, now=NOON, within=within) is not None
    beat.touch()
    os.utime(beat, (NOON.timestamp(), NOON.timestamp()))

    fresh = look_at_heartbeat(beat, now=NOON + dt.timedelta(seconds=14), within=within)
    stale = look_at_heartbeat(beat, now=NOON + dt.timedelta(seconds=20), within=within)

    assert fresh is None
    assert stale == "its last heartbeat is 20 s old"


def test_a_broker_makes_no_topic_by_itself(tmp_path: Path) -> None:
    broker = KafkaNode(directory=tmp_path, port=1, controller_port=2, cache=tmp_path)

    assert "auto.create.topics.enable=false\n" in properties(broker)
    assert len(cluster_id(broker)) == 22


@pytest.mark.parametrize(("seconds", "said"), [(5, "5s"), (190, "3m10s"), (7500, "2h05m")])
def test_an_age_is_short(seconds: int, said: str) -> None:
    assert age(dt.timedelta(seconds=seconds)) == said


def test_up_prints_the_addresses_that_exist(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path,
        install_id="doors000",
        ledger_dsn="",
        kafka="",
        server_url="http://h:1",
        token="secret",
        airflow_url="http://h:2",
        spark_ui_port=4040,
        index_dir=tmp_path,
        history_dir="",
        checkpoint_dir=tmp_path,
        files_root=tmp_path,
        jars_dir=tmp_path,
    )

    def told(*names: str, state: ServiceState = ServiceState.HEALTHY) -> list[str]:
        services = tuple(
            ServiceStatus(name=name, group=name, state=state, since=NOON) for name in names
        )
        found = Status(home=tmp_path, operator=ME, services=services)
        return list(doors(found, settings, keys=Path("/keys.json")))

    assert told("server", "airflow-api") == [
        "console: http://h:1/console (sign in with `token` of /keys.json)",
        "Airflow: http://h:2 (sign in with `airflow_user` and `airflow_password` of /keys.json)",
    ]
    assert told("kafka") == []
    assert told("supervisor") == ["Spark: http://127.0.0.1:4040 (the first driver on this machine)"]
    assert told("server", "airflow-api", state=ServiceState.UNWELL) == []


class _Health(http.server.BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("sandbox: reduced — missing landlock", "sandbox: reduced — missing landlock"),
        ("full", ""),
    ],
)
def test_a_weak_sandbox_is_reported(body: str, told: str) -> None:
    _Health.body = json.dumps({"status": "ok", "sandbox": body}).encode()
    with http.server.HTTPServer(("127.0.0.1", 0), _Health) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        found = sandbox_of(f"http://127.0.0.1:{server.server_port}/healthz")
        thread.join()
    status = Status(home=Path("/h"), operator=ME, sandbox=found)

    assert weakness(status) == told
    assert plain(status)["sandbox"] == body


def test_an_unreported_sandbox_is_not_mentioned() -> None:
    assert sandbox_of("http://127.0.0.1:1/healthz") == ""
    assert weakness(Status(home=Path("/h"), operator=ME)) == ""


def test_jobs_that_fail_or_reject_rows_are_reported() -> None:
    jobs = [
        {"label": "Spend.p", "phase": "running", "quarantined": 2, "error": None},
        {"label": "Users ← shop", "phase": "failed", "quarantined": 0, "error": "no broker\nagain"},
        {"label": "Orders ← shop", "phase": "caught_up", "quarantined": None, "error": None},
    ]
    _Health.body = json.dumps({"jobs": jobs}).encode()
    with http.server.HTTPServer(("127.0.0.1", 0), _Health) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        found = job_problems_of(f"http://127.0.0.1:{server.server_port}/api/v1/jobs", token="t")
        thread.join()

    assert found == (
        "job Spend.p has sent 2 rows to quarantine",
        "job Users ← shop fails: no broker",
    )
    assert job_problems_of("http://127.0.0.1:1/api/v1/jobs", token="t") == ()

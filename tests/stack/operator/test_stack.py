import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from narthex._processes import Process
from narthex_stack.errors import NotStartedError
from narthex_stack.install.installation import load_installation
from narthex_stack.install.layout import HomeLayout
from narthex_stack.local_services.service_plan import cluster
from narthex_stack.operator.stack import Stack
from narthex_stack.operator.status import ServiceState, ServiceStatus, load_children
from narthex_stack.processes.leftovers import leftovers
from narthex_stores import Broker, EndOffsetReader, platform_broker
from narthex_stores.kafka.brokers import client_config

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def stack(home: Path) -> Iterator[Stack]:
    stack = Stack(home, only=("postgres", "kafka"))
    yield stack
    stack.stop()
    stack.wipe()


def command(*arguments: str, home: Path) -> "subprocess.CompletedProcess[str]":
    return run((sys.executable, "-m", "narthex_stack", *arguments, "--home", str(home)))


def command_from_nowhere(*arguments: str, home: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command in a directory that is deleted before it starts."""
    nowhere = home.with_name(f"{home.name}-deleted")
    nowhere.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    program = (sys.executable, "-m", "narthex_stack", *arguments, "--home", str(home))
    return run(("sh", "-c", script, "sh", str(nowhere), *program))


def run(program: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(program, capture_output=True, text=True, timeout=200, check=False)


def service(stack: Stack, name: str) -> ServiceStatus:
    return next(each for each in stack.status().services if each.name == name)


def process(stack: Stack, name: str) -> Process:
    found = service(stack, name).process
    assert found is not None
    return found


def within(seconds: float, happens: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > end:
            return False
    return True


@pytest.mark.stack
def test_up_ends_when_all_requested_services_are_healthy(home: Path, stack: Stack) -> None:
    files = home / "their" / "files"
    root = ("--files-root", str(files))
    done = command("up", "--only", "postgres,kafka", "--json", *root, home=home)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["healthy"] is True
    assert {each["name"]: each["state"] for each in told["services"]} == {
        "postgres": "healthy",
        "kafka": "healthy",
    }
    assert stack.settings.kafka.startswith("127.0.0.1:")
    assert stack.settings.files_root == files


@pytest.mark.stack
def test_a_second_up_lists_services_and_starts_nothing(home: Path, stack: Stack) -> None:
    stack.start()
    before = process(stack, "kafka")

    done = command("up", "--only", "postgres,kafka", home=home)

    assert done.returncode == 0
    assert "already running" in done.stderr
    assert process(stack, "kafka") == before


@pytest.mark.stack
def test_a_killed_broker_is_started_again(stack: Stack) -> None:
    stack.start()
    before = process(stack, "kafka")
    restarts = service(stack, "kafka").restarts
    broker = platform_broker(stack.settings)
    admin = AdminClient(client_config(broker))
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(30)
    reader = EndOffsetReader(broker)
    assert reader.ends(["t"]) == {"t": {0: 0, 1: 0}}

    os.kill(before.pid, signal.SIGKILL)

    assert within(200, lambda: service(stack, "kafka").restarts > restarts)
    stack.wait_healthy(within_s=200)
    assert process(stack, "kafka") != before
    # The partitions have another leader epoch.
    assert reader.ends(["t"]) == {"t": {0: 0, 1: 0}}


@pytest.mark.stack
@pytest.mark.kafka
def test_kafka_refuses_clients_without_the_password_of_its_user(stack: Stack) -> None:
    stack.start()
    ours = platform_broker(stack.settings)
    strangers = (
        Broker(bootstrap=ours.bootstrap),
        attrs.evolve(ours, password="guessed"),
        attrs.evolve(ours, username="admin"),
        attrs.evolve(ours, mechanism="SCRAM-SHA-512"),
    )

    assert ours.protocol == "SASL_PLAINTEXT"
    assert AdminClient(client_config(ours)).list_topics(timeout=10.0).brokers
    for stranger in strangers:
        client = AdminClient({**client_config(stranger), "reconnect.backoff.max.ms": 100})
        with pytest.raises(KafkaException):
            client.list_topics(timeout=2.0)


@pytest.mark.stack
@pytest.mark.kafka
def test_the_controller_of_kafka_refuses_requests_without_a_login(stack: Stack) -> None:
    """Each request but those of a login ends the connection, before it has an answer."""
    stack.start()
    ports = json.loads(stack.layout.ports.read_text())
    fetch_metadata = struct.pack(">hhih", 3, 9, 1, -1) + b"\x00\x00\x00\x00\x00"
    with socket.create_connection(("127.0.0.1", ports["kafka_controller"]), 5.0) as connection:
        connection.sendall(struct.pack(">i", len(fetch_metadata)) + fetch_metadata)
        assert connection.recv(1) == b""


@pytest.mark.stack
def test_the_next_up_replaces_processes_of_a_killed_operator(home: Path, stack: Stack) -> None:
    operator = stack.start().operator
    assert operator is not None
    left = load_children(stack.layout.children)

    os.kill(operator.pid, signal.SIGKILL)
    assert within(30, lambda: stack.status().operator is None)
    found = stack.start()

    assert found.operator not in {None, operator}
    now = {each.process for each in found.services}
    assert not now & set(left)
    assert {each.pid for each in leftovers(home, left)} & {each.pid for each in left} == set()


@pytest.mark.stack
def test_down_leaves_nothing_running(home: Path, stack: Stack) -> None:
    stack.start()
    children = load_children(stack.layout.children)

    done = command("down", home=home)

    assert done.returncode == 0, done.stderr
    assert leftovers(home, children) == ()
    assert command("status", home=home).returncode == 1


def test_a_home_where_nothing_was_ever_started_has_a_status_too(tmp_path: Path) -> None:
    told = command("status", "--json", home=tmp_path)

    assert (told.returncode, json.loads(told.stdout)["operator"], told.stderr) == (1, None, "")


def test_a_home_is_wiped_from_a_directory_that_was_deleted(tmp_path: Path) -> None:
    home = tmp_path / "home"
    installed = load_installation(HomeLayout(home), environment={}, files_root=tmp_path)
    data = cluster(installed).data
    data.mkdir(parents=True)
    (home / "control-log.heads").write_text("of the ledger that is wiped\n")
    (home / "environments" / "of-a-lock").mkdir(parents=True)

    up = command_from_nowhere("up", "--only", "postgres", home=home)
    wiped = command_from_nowhere("down", "--wipe", home=home)

    assert (up.returncode, up.stderr) == (
        1,
        "the working directory was deleted; run this in another\n",
    )
    assert (wiped.returncode, wiped.stderr) == (0, "stopped and wiped\n")
    assert not data.exists()
    assert not (home / "services.json").exists()
    assert not (home / "control-log.heads").exists()
    assert not (home / "environments").exists()


@pytest.mark.stack
def test_a_service_that_cannot_start_is_reported_with_its_log(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "home", only=("postgres",))
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "logs").mkdir()
    (tmp_path / "home" / "ports.json").write_text('{"postgres": 1}')
    if os.geteuid() == 0:
        (tmp_path / "home" / "ports.json").write_text('{"postgres": 70000}')

    try:
        with pytest.raises(NotStartedError, match="postgres"):
            stack.start(within_s=60)
    finally:
        stack.wipe()


@pytest.mark.stack
@pytest.mark.airflow
def test_the_four_processes_of_airflow_become_healthy_and_end(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("airflow")
    stack = Stack(home, only=("airflow",))

    with stack:
        states = {each.name: each.state for each in stack.status().services}
        children = load_children(stack.layout.children)

    assert states == dict.fromkeys(
        (
            "postgres",
            "airflow-scheduler",
            "airflow-triggerer",
            "airflow-dag-processor",
            "airflow-api-server",
        ),
        ServiceState.HEALTHY,
    )
    assert leftovers(home, children) == ()
    stack.wipe()

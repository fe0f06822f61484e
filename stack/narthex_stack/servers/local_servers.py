"""Servers for the duration of a `with` block: for tests and small programs.

The operator runs the platform's own services; these servers belong to the calling process.
"""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from narthex._base import Backoff
from narthex._processes import ProcessGroup
from narthex_stack.errors import NotStartedError, PreparationError
from narthex_stack.machine.files import tail
from narthex_stack.machine.ports import free_ports
from narthex_stack.processes.service import Service, start
from narthex_stack.servers import kafka, postgres

_POLL = Backoff(first_s=0.1, greatest_s=0.2)
_STOP_S = 20.0


@attrs.frozen(kw_only=True)
class PostgresServer:
    """A running server in which each user creates fresh databases."""

    cluster: postgres.Cluster

    def create_database(self, name: str) -> str:
        """Create an empty database with its own role; return its SQLAlchemy URL."""
        password = secrets.token_hex(8)
        postgres.ensure_databases(
            self.cluster, (postgres.ServiceDatabase(name=name, password=password),)
        )
        return postgres.dsn(user=name, password=password, port=self.cluster.port, database=name)


@contextmanager
def postgres_server(home: Path) -> Iterator[PostgresServer]:
    """Run an empty PostgreSQL with its data below a directory; the data is deleted at the end.

    The data does not survive a crash of the machine: nothing is synced to disk.
    """
    (port,) = free_ports(1)
    found = postgres.cluster(
        home,
        install_id=secrets.token_hex(4),
        port=port,
        password=secrets.token_hex(16),
        is_durable=False,
    )
    try:
        with running(postgres.service(found, databases=(), home=home), home=home):
            yield PostgresServer(cluster=found)
    finally:
        postgres.wipe(found)


@contextmanager
def kafka_broker(home: Path) -> Iterator[str]:
    """Run an empty Kafka broker with its logs below a directory; return its bootstrap address."""
    port, controller_port = free_ports(2)
    broker = kafka.KafkaNode(directory=home / "kafka", port=port, controller_port=controller_port)
    with running(kafka.service(broker), home=home):
        yield broker.bootstrap
    shutil.rmtree(broker.directory, ignore_errors=True)


@contextmanager
def running(service: Service, *, home: Path) -> Iterator[ProcessGroup]:
    """Run one service until the block ends.

    Raises:
        NotStartedError: The service did not become healthy; the message ends with its log.
    """
    home.mkdir(parents=True, exist_ok=True)
    log = home / f"{service.name}.log"
    service.prepare()
    child = start(service, home=home, log=log)
    try:
        wait_healthy(service, child=child, log=log)
        yield child
    finally:
        child.end(service.stop_signal, within_s=_STOP_S)


def wait_healthy(service: Service, *, child: ProcessGroup, log: Path) -> None:
    """Wait until the service answers and has settled."""
    wrong: str | None = None
    for _ in _POLL.attempts(within_s=service.within_s):
        wrong = service.probe()
        if wrong is None:
            break
        if not child.is_running:
            wrong = f"it {child.ending}"
            break
    if wrong is not None:
        raise NotStartedError(f"`{service.name}` did not start: {wrong}\n{tail(log, lines=30)}")
    try:
        service.settle()
    except PreparationError as error:
        raise NotStartedError(f"`{service.name}` did not start: {error}") from error

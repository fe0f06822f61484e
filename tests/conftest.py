"""Servers that tests share: each starts at its first use and ends with the session."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from psycopg import sql

from narthex_ledger import migrate
from narthex_reference.generate import SEEDS_ALONE
from narthex_stack import (
    CONNECTORS,
    PostgresServer,
    kafka_broker,
    postgres_server,
    resolve,
)
from narthex_stack.machine.files import tail
from narthex_stack.machine.ports import is_listening
from narthex_stack.servers.postgres import connect
from tests.spark_cluster import SparkCluster, run_spark_cluster

# The same examples in every run, of one file or of all, and no clock: a machine's mood is no
# property of the code.
settings.register_profile(
    "house",
    backend=SEEDS_ALONE,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("house")


_numbers = itertools.count(1)


@attrs.frozen(kw_only=True)
class Shared:
    """A server that tests share: its address, and its output."""

    address: str
    log: Path


_BROKER = pytest.StashKey[Shared]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what needs the whole platform first: one process runs it, and it takes longest."""
    items.sort(key=lambda item: item.get_closest_marker("acceptance") is None)


@pytest.fixture(scope="session")
def postgres_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """Run one PostgreSQL for the session; nothing is forced to disk."""
    with postgres_server(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def new_postgres_dsn(postgres_of_session: PostgresServer) -> Callable[[], str]:
    """Make an empty database at each call; return its SQLAlchemy URL (`postgresql+psycopg2://…`)."""
    return lambda: postgres_of_session.create_database(f"narthex_test_{next(_numbers)}")


@pytest.fixture
def postgres_dsn(new_postgres_dsn: Callable[[], str]) -> str:
    """Return the URL of an empty database of this test's own."""
    return new_postgres_dsn()


@pytest.fixture(scope="session")
def new_ledger_dsn(postgres_of_session: PostgresServer) -> Callable[[], str]:
    """Copy a migrated database at each call; return its SQLAlchemy URL.

    A copy costs half of a migration. One role owns all copies.
    """
    template = sa.make_url(postgres_of_session.create_database("narthex_ledger"))
    migrate(template.render_as_string(hide_password=False))

    def copy() -> str:
        made = template.set(database=f"narthex_ledger_{next(_numbers)}")
        with connect(postgres_of_session.cluster) as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(
                    *map(sql.Identifier, (made.database, template.database, template.username))
                )
            )
        return made.render_as_string(hide_password=False)

    return copy


@pytest.fixture
def ledger_dsn(new_ledger_dsn: Callable[[], str]) -> str:
    """Return the URL of a ledger's database of this test's own, with the newest schema."""
    return new_ledger_dsn()


@pytest.fixture(scope="module")
def module_ledger_dsn(new_ledger_dsn: Callable[[], str]) -> str:
    """Return the URL of a ledger's database that the tests of one module share."""
    return new_ledger_dsn()


@pytest.fixture(scope="session")
def kafka_bootstrap(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[str]:
    """Run one Kafka broker for the session; no test may use another's topic names."""
    home = tmp_path_factory.mktemp("kafka")
    with kafka_broker(home) as bootstrap:
        request.config.stash[_BROKER] = Shared(address=bootstrap, log=home / "kafka.log")
        yield bootstrap


def pytest_runtest_setup(item: pytest.Item) -> None:
    """End the session when its broker has ended: each test of it would wait for a minute."""
    broker = item.config.stash.get(_BROKER, None)
    if broker is None or "kafka_bootstrap" not in getattr(item, "fixturenames", ()):
        return
    if not is_listening(int(broker.address.rpartition(":")[2])):
        pytest.exit(f"the broker has ended:\n{tail(broker.log, lines=40)}", returncode=1)


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Run one standalone Spark cluster of a master and two workers for the session."""
    with run_spark_cluster(tmp_path_factory.mktemp("spark_cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def connector_jars() -> Path:
    """Return the directory of Spark's Kafka and Avro jars."""
    return resolve(CONNECTORS)

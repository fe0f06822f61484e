"""Servers that tests share: each starts at its first use and ends with the session."""

import sys

# Without compiled modules on disk, pytest compiles hundreds of files at each start of a process.
sys.dont_write_bytecode = False

import gc
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import pytest
import sqlalchemy as sa
import structlog
from hypothesis import HealthCheck, settings
from psycopg import sql
from xdist.workermanage import WorkerController

from narthex_ledger import migrate
from narthex_reference.generate import SEEDS_ALONE
from narthex_stack.machine.files import tail
from narthex_stack.machine.jars import CONNECTORS, resolve
from narthex_stack.machine.ports import is_listening
from narthex_stack.servers.local_servers import PostgresServer
from narthex_stack.servers.postgres import connect
from tests.memory import home_in_memory
from tests.shared_services import Running, SharedServices, fresh_name
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
settings.register_profile("fresh", settings.get_profile("house"), derandomize=False)
settings.load_profile("house")


_SERVICES_OF_RUN = pytest.StashKey[SharedServices]()
_BROKER = pytest.StashKey[tuple[str, Path]]()


def pytest_configure(config: pytest.Config) -> None:
    """Draw other examples with `--hypothesis-seed`; those that fail are kept in `.hypothesis`.

    The controlling process of a run runs the services that its other processes share.
    """
    # As processes of the product do: the standard output of a command that a test runs is data.
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
    if config.getoption("hypothesis_seed") is not None:
        settings.load_profile("fresh")
    if worker := getattr(config, "workerinput", None):
        home = Path(worker["services"])
    else:
        closing = ExitStack()
        home = closing.enter_context(home_in_memory())
        closing.callback(Running(home).close)
        config.add_cleanup(closing.close)
    config.stash[_SERVICES_OF_RUN] = SharedServices(home)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell a process that runs tests where the shared services are."""
    node.workerinput["services"] = str(node.config.stash[_SERVICES_OF_RUN].home)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the seed of the examples, by which a failure is repeated."""
    seed = config.getoption("hypothesis_seed")
    return (
        None if seed is None else f"examples of seed {seed}: repeat with --hypothesis-seed={seed}"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without a search for garbage, then exempt them from it: all of them stay.

    They are a million objects. Without this, a third of a collection is such searches.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


_LONGEST = ("acceptance", "wheels", "nightly", "slow", "spark")
"""The markers of the files that take longest, in the order in which processes take them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first: so no process is left alone with one at the end."""
    first: dict[Path, int] = {}
    for item in items:
        markers = {marker.name for marker in item.iter_markers()}
        length = next((at for at, name in enumerate(_LONGEST) if name in markers), len(_LONGEST))
        first[item.path] = min(length, first.get(item.path, len(_LONGEST)))
    items.sort(key=lambda item: first[item.path])


@pytest.fixture(scope="session")
def shared_services(pytestconfig: pytest.Config) -> SharedServices:
    """Return the services of this run; each starts when a test first needs it."""
    return pytestconfig.stash[_SERVICES_OF_RUN]


@pytest.fixture(scope="session")
def postgres_of_session(shared_services: SharedServices) -> PostgresServer:
    """Return the PostgreSQL of this run."""
    return shared_services.postgres()


@pytest.fixture(scope="session")
def new_postgres_dsn(postgres_of_session: PostgresServer) -> Callable[[], str]:
    """Make an empty database at each call; return its SQLAlchemy URL (`postgresql+psycopg2://…`)."""
    return lambda: postgres_of_session.create_database(fresh_name("narthex_test"))


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    """Run a server that answers as AWS does, with nothing in it; yield its URL."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 (few files need it)

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def postgres_dsn(
    new_postgres_dsn: Callable[[], str], postgres_of_session: PostgresServer
) -> Iterator[str]:
    """Return the URL of an empty database of this test's own."""
    url = new_postgres_dsn()
    yield url
    drop(postgres_of_session, str(sa.make_url(url).database))


def drop(server: PostgresServer, database: str) -> None:
    """Drop a database, as those of thousands of tests would fill a disk."""
    with connect(server.cluster) as connection:
        connection.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database))
        )


@attrs.frozen(kw_only=True)
class LedgerTemplate:
    """A migrated database, which is copied for each user.

    A copy takes 50 ms, which is what emptying all tables takes too, and it has no connection, lock
    or transaction of the test before.
    """

    server: PostgresServer
    url: sa.URL

    @contextmanager
    def copied(self) -> Iterator[str]:
        """Copy the database; drop the copy at the end."""
        name = fresh_name("narthex_ledger")
        with connect(self.server.cluster) as connection:
            # One role owns all copies.
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {} STRATEGY FILE_COPY").format(
                    *map(sql.Identifier, (name, str(self.url.database), str(self.url.username)))
                )
            )
        yield self.url.set(database=name).render_as_string(hide_password=False)
        drop(self.server, name)


@pytest.fixture(scope="session")
def ledger_template(postgres_of_session: PostgresServer) -> LedgerTemplate:
    """Migrate one database, for copies of it."""
    template = sa.make_url(postgres_of_session.create_database(fresh_name("narthex_ledger")))
    migrate(template.render_as_string(hide_password=False))
    return LedgerTemplate(server=postgres_of_session, url=template)


@pytest.fixture
def ledger_dsn(ledger_template: LedgerTemplate) -> Iterator[str]:
    """Return the URL of a ledger's database of this test's own, with the newest schema."""
    with ledger_template.copied() as url:
        yield url


@pytest.fixture(scope="module")
def module_ledger_dsn(ledger_template: LedgerTemplate) -> Iterator[str]:
    """Return the URL of a ledger's database that the tests of one module share."""
    with ledger_template.copied() as url:
        yield url


@pytest.fixture(scope="session")
def kafka_bootstrap(shared_services: SharedServices, pytestconfig: pytest.Config) -> str:
    """Return the address of this run's broker; no test may use another's topic names."""
    bootstrap, _ = pytestconfig.stash[_BROKER] = shared_services.kafka()
    return bootstrap


def pytest_runtest_setup(item: pytest.Item) -> None:
    """End the session when its broker has ended: each test of it would wait for a minute."""
    address, log = item.config.stash.get(_BROKER, ("", Path()))
    if not address or "kafka_bootstrap" not in getattr(item, "fixturenames", ()):
        return
    if not is_listening(int(address.rpartition(":")[2])):
        pytest.exit(f"the broker has ended:\n{tail(log, lines=40)}", returncode=1)


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Run one standalone Spark cluster of a master and two workers for the session."""
    with run_spark_cluster(tmp_path_factory.mktemp("spark_cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def connector_jars() -> Path:
    """Return the directory of Spark's Kafka and Avro jars."""
    return resolve(CONNECTORS)

"""The broker and the Spark session of a run, with all state in memory if there is such a place."""

import enum
import functools
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

from narthex.settings import Settings
from narthex_spark_apps.platform.session import open_session
from narthex_stack.machine.jars import CONNECTORS, resolve
from narthex_stack.servers.local_servers import kafka_broker
from tests.differential.beside_spark import shared_workers
from tests.differential.on_spark import SESSION
from tests.memory import memory_dir
from tests.redis_servers import redis_cluster, redis_server
from tests.spark_cluster import run_spark_cluster


class IndexServers(enum.Enum):
    """Where a run has its indexes."""

    NONE = "lmdb"
    ONE = "redis"
    CLUSTER = "redis-cluster"


SLOTS = 256
"""A live query occupies a slot for each partition that it reads."""


Session = Callable[[], SparkSession]
"""Returns the only Spark session, which starts at its first use."""


@contextmanager
def platform(
    kafka: str | None = None,
    *,
    indexes: IndexServers = IndexServers.NONE,
    on_cluster: bool = False,
) -> Iterator[tuple[Session, Settings]]:
    """Run a broker, and a Spark session once a job needs it, that rounds share.

    Args:
        kafka: The bootstrap servers of a broker that is there already; topics come and go there.
        indexes: The servers of the indexes to run besides.
        on_cluster: Run a standalone Spark cluster for the session, too.
    """
    with (
        tempfile.TemporaryDirectory(prefix="narthex-fuzz-", dir=memory_dir()) as name,
        nullcontext(kafka) if kafka else kafka_broker(Path(name) / "broker") as bootstrap,
        index_servers(indexes, Path(name) / "redis") as index_store,
        shared_workers(),
    ):
        settings = settings_of(
            Path(name),
            bootstrap=bootstrap,
            jars_dir=resolve(CONNECTORS),
            index_store=index_store,
        )
        cluster = run_spark_cluster(Path(name) / "cluster") if on_cluster else nullcontext()
        with cluster as running:
            yield from _sessions(settings if running is None else running.use(settings))


def _sessions(settings: Settings) -> Iterator[tuple[Session, Settings]]:
    @functools.cache
    def session() -> SparkSession:
        return open_session(settings, name="fuzz-spark", extra=SESSION)

    try:
        yield session, settings
    finally:
        if session.cache_info().currsize:
            session().stop()


@contextmanager
def index_servers(indexes: IndexServers, home: Path) -> Iterator[str]:
    """Run the servers of indexes; yield their address, which is empty without servers."""
    match indexes:
        case IndexServers.NONE:
            yield ""
        case IndexServers.ONE:
            with redis_server(home) as node:
                yield node.url
        case IndexServers.CLUSTER:
            with redis_cluster(home) as nodes:
                yield nodes[0].url


def settings_of(home: Path, *, bootstrap: str, jars_dir: Path, index_store: str = "") -> Settings:
    """Return the settings of an installation that has a broker, and perhaps an index store."""
    return Settings(
        home=home,
        install_id=secrets.token_hex(4),
        ledger_dsn="",
        kafka=bootstrap,
        server_url="",
        token="",
        index_dir=home / "index",
        index_store=index_store,
        history_dir=str(home / "history"),
        checkpoint_dir=home / "checkpoints",
        files_root=home / "files",
        jars_dir=jars_dir,
        spark_master=f"local[{SLOTS}]",
    )

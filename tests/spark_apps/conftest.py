"""One Spark driver for the session, and topics and logs for its tests."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from narthex.settings import Settings
from narthex_spark_apps.platform.session import open_session
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_stores import EndOffsetReader, TransientError
from tests.differential.on_spark import SESSION
from tests.shared_services import fresh_name
from tests.spark_apps import spark_jobs

_WAIT_S = 60.0


@pytest.fixture(scope="session")
def settings_of(tmp_path_factory: pytest.TempPathFactory, connector_jars: Path) -> Settings:
    """Return settings of an installation without services."""
    home = tmp_path_factory.mktemp("home")
    return Settings(
        home=home,
        install_id="testtest",
        ledger_dsn="",
        kafka="",
        server_url="",
        token="",
        index_dir=home / "index",
        history_dir=str(home / "history"),
        checkpoint_dir=home / "checkpoints",
        files_root=home / "files",
        jars_dir=connector_jars,
        secrets_dir=str(home / "mounted_secrets"),
        # A live query occupies a slot for each partition that it reads, and some tests run many.
        spark_master="local[256]",
    )


@pytest.fixture(scope="session")
def spark(settings_of: Settings) -> Iterator[SparkSession]:
    """Run one Spark driver for the session."""
    session = open_session(settings_of, name="tests", extra=SESSION)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _spark_is_alive(request: pytest.FixtureRequest) -> None:
    """End the run when the driver's JVM died: every later Spark test would fail for that reason."""
    if "spark" not in request.fixturenames:
        return
    context = request.getfixturevalue("spark").sparkContext
    try:
        stopped = context._jsc.sc().isStopped()  # noqa: SLF001 (PySpark has no public question)
    except (Py4JError, ConnectionError) as error:
        pytest.exit(f"the JVM of the Spark driver died: {error}", returncode=3)
    if stopped:
        pytest.exit("the Spark context stopped: see the first error of its JVM above", returncode=3)


class Log:
    """Topics of one test: writes records, and waits for those that are expected."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._tips = EndOffsetReader(bootstrap)

    def topic(self, label: str, *, partitions: int = 1) -> str:
        name = f"{fresh_name('t')}_{label}"
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
        # It is there before its partitions have leaders, and jobs ask at once how far they are.
        ends_at = time.monotonic() + _WAIT_S
        while not self._is_led(name):
            assert time.monotonic() < ends_at, f"`{name}` has no leaders"
            time.sleep(0.02)
        return name

    def _is_led(self, name: str) -> bool:
        try:
            return name in self._tips.ends([name])
        except TransientError:
            return False

    def send(self, topic: str, value: bytes | Mapping[str, object], key: bytes = b"k") -> None:
        payload = value if isinstance(value, bytes) else json.dumps(value).encode()
        self._producer.produce(topic, payload, key)
        self._producer.flush()

    def end_of(self, topic: str, key: bytes) -> None:
        """Write a record without a value."""
        self._producer.produce(topic, None, key)
        self._producer.flush()

    def records(
        self, topic: str, *, count: int, distinct: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """Wait for so many records, repetitions counted unless `distinct`; return all that came."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "tests", "auto.offset.reset": "error"}
        )
        partitions = consumer.list_topics(topic).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: list[tuple[bytes, bytes]] = []
        deadline = time.monotonic() + _WAIT_S
        while len(set(found) if distinct else found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append((message.key(), message.value()))
        consumer.close()
        assert len(set(found) if distinct else found) >= count, (
            f"{len(found)} of {count} records came in {_WAIT_S:g} s"
        )
        return found


@pytest.fixture(scope="session")
def log(kafka_bootstrap: str) -> Log:
    """Return the topics of the session's broker."""
    return Log(kafka_bootstrap)


@pytest.fixture
def platform(settings_of: Settings, kafka_bootstrap: str, tmp_path: Path) -> Settings:
    """Return settings of an installation with a broker and directories of this test's own."""
    return Settings(
        **{
            **{
                name: getattr(settings_of, name)
                for name in (
                    "home",
                    "install_id",
                    "ledger_dsn",
                    "server_url",
                    "token",
                    "jars_dir",
                    "secrets_dir",
                )
            },
            "kafka": kafka_bootstrap,
            "index_dir": tmp_path / "index",
            "history_dir": str(tmp_path / "history"),
            "checkpoint_dir": tmp_path / "checkpoints",
            "files_root": tmp_path / "files",
            "policy_file": tmp_path / "policy.toml",
        }
    )


@pytest.fixture(params=["live", "bounded"])
def work(request: pytest.FixtureRequest) -> spark_jobs.Work:
    """The two runs of a source, which must have the same results."""
    if request.param == "live":
        return spark_jobs.work_live
    session: SparkSession = request.getfixturevalue("spark")

    def bounded(job: SourceJob, platform: Settings, _records: int) -> None:
        spark_jobs.work_bounded(session, job, platform)

    return bounded


Make = Callable[..., object]

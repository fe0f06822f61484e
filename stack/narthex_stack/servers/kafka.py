"""Apache Kafka from its jars: one node that is both broker and controller (KRaft)."""

import base64
import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from narthex._base import atomic_write
from narthex_stack.errors import PreparationError
from narthex_stack.machine.jars import BROKER, cache_dir, resolve
from narthex_stack.machine.java import java_home
from narthex_stack.machine.ports import HOST
from narthex_stack.processes.service import Probe, Service

if TYPE_CHECKING:
    from narthex_stores import Broker

USER: Final = "narthex"
"""The only user of the platform's own Kafka."""

_FORMAT_TIMEOUT_S = 120.0

_LOGGING = """<Configuration status="WARN">
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %m (%c)%n"/></Console></Appenders>
  <Loggers>
    <Root level="WARN"><AppenderRef ref="out"/></Root>
    <Logger name="kafka.server.KafkaRaftServer" level="INFO"/>
  </Loggers>
</Configuration>
"""


@attrs.frozen(kw_only=True)
class KafkaNode:
    """One node and the place of its logs.

    Attributes:
        directory: The directory of its properties and logs.
        port: The port for clients.
        controller_port: The port for the node's own controller.
        password: The password of `USER`, without which no client is accepted; if it is empty, all
            clients are, as tests need it.
        heap_mb: The greatest size of the JVM's heap, which grows with the number of partitions.
        cache: The cache with the jars.
        host: The address that it listens on.
    """

    directory: Path
    port: int
    controller_port: int
    password: str = attrs.field(default="", repr=False)
    heap_mb: int = 1024
    cache: Path = attrs.field(factory=cache_dir)
    host: str = HOST

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def broker(self) -> "Broker":
        """The node as its clients see it."""
        from narthex_stores import Broker  # noqa: PLC0415 - it loads Polars

        if not self.password:
            return Broker(bootstrap=self.bootstrap)
        return Broker(
            bootstrap=self.bootstrap,
            protocol="SASL_PLAINTEXT",
            mechanism="PLAIN",
            username=USER,
            password=self.password,
        )


def properties(broker: KafkaNode) -> str:
    """Render the node's `server.properties`."""
    protocol = broker.broker.protocol
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{broker.host}:{broker.controller_port}",
        "listeners": f"CLIENTS://{broker.bootstrap},"
        f"CONTROLLER://{broker.host}:{broker.controller_port}",
        "advertised.listeners": f"CLIENTS://{broker.bootstrap}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENTS",
        "listener.security.protocol.map": f"CLIENTS:{protocol},CONTROLLER:{protocol}",
        "log.dirs": str(broker.directory / "logs"),
        # Only commits create topics; naming one must not create it.
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        # A killed broker cannot return before its session is over.
        "broker.session.timeout.ms": "5000",
        "broker.heartbeat.interval.ms": "1000",
        # A webhook's call of at most 16 MiB is one record.
        "message.max.bytes": str(17 * 1024 * 1024),
        "replica.fetch.max.bytes": str(17 * 1024 * 1024),
        # Datasets keep their rows until a commit drops them.
        "log.retention.ms": "-1",
        # The default buffer is larger than the heap.
        "log.cleaner.dedupe.buffer.size": "8388608",
    }
    if broker.password:
        values |= _only_user(broker.password)
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _only_user(password: str) -> dict[str, str]:
    """Return the properties that refuse all clients but one user, who may do everything."""
    login = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{USER}" password="{password}" user_{USER}="{password}";'
    )
    return {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": login,
        "listener.name.controller.plain.sasl.jaas.config": login,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{USER}",
    }


def cluster_id(broker: KafkaNode) -> str:
    """Return Kafka's id of the cluster: 22 characters, the same for the same directory."""
    digest = hashlib.sha256(str(broker.directory).encode()).digest()[:16]
    return base64.urlsafe_b64encode(b"\x00" + digest[1:]).decode().rstrip("=")


def service(broker: KafkaNode) -> Service:
    """Return the service of the node; it may be restarted over its earlier logs."""
    return Service(
        name="kafka",
        group="kafka",
        command=_java(broker, heap_mb=broker.heap_mb, main="kafka.Kafka"),
        cwd=broker.directory.parent,
        prepare=lambda: prepare(broker),
        probe=_probe(broker),
        stop_wave=3,
        port=broker.port,
        within_s=150.0,
    )


def _java(broker: KafkaNode, *, heap_mb: int, main: str) -> tuple[str, ...]:
    return (
        str(java_home(cache=broker.cache) / "bin" / "java"),
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        # Otherwise, a node without memory keeps running for minutes, and answers no one.
        "-XX:+ExitOnOutOfMemoryError",
        f"-Djava.io.tmpdir={_scratch(broker)}",
        f"-Dlog4j2.configurationFile={broker.directory / 'log4j2.xml'}",
        "-cp",
        str(broker.cache / "jars" / BROKER.name / "*"),
        main,
        str(broker.directory / "server.properties"),
    )


def _scratch(broker: KafkaNode) -> Path:
    return broker.directory / "tmp"


def prepare(broker: KafkaNode) -> None:
    """Fetch the jars, write the properties, and format the logs once.

    Raises:
        PreparationError: The storage tool failed.
    """
    resolve(BROKER, cache=broker.cache)
    atomic_write(broker.directory / "server.properties", properties(broker))
    atomic_write(broker.directory / "log4j2.xml", _LOGGING)
    # A broker that was killed left its temporary files.
    shutil.rmtree(_scratch(broker), ignore_errors=True)
    _scratch(broker).mkdir()
    if (broker.directory / "logs" / "meta.properties").is_file():
        return
    *java, file = _java(broker, heap_mb=128, main="kafka.tools.StorageTool")
    command = (*java, "format", "-t", cluster_id(broker), "-c", file, "--ignore-formatted")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_FORMAT_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise PreparationError(
            f"Kafka's storage tool failed: {(done.stdout + done.stderr)[-1500:]}"
        )


def _probe(broker: KafkaNode) -> Probe:
    def look() -> str | None:
        client = AdminClient({**broker.broker.config(), "log_level": 0})
        try:
            metadata = client.list_topics(timeout=3.0)
        except KafkaException as error:
            return str(error.args[0])
        return None if metadata.brokers else "no broker has registered"

    return look

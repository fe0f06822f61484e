"""Redis servers for tests, single or a cluster: Debian's `redis-server`."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import pytest
import redis

from narthex._base import Backoff
from narthex_stack.machine.ports import HOST, free_ports
from narthex_stack.processes.service import Service
from narthex_stack.servers.local_servers import running

MISSING = "Redis is not installed; run `apt-get install redis-server`"
_POLL = Backoff(first_s=0.05, greatest_s=0.2)
_SLOTS = 16384
WITHIN_S = 60.0


def require_redis() -> None:
    """Skip the test if the servers' programs are not installed here."""
    if shutil.which("redis-server") is None:
        pytest.skip(MISSING)


@attrs.frozen(kw_only=True)
class RedisNode:
    """A server that keeps its data in memory only.

    Attributes:
        home: The directory of its files.
        options: More lines of its configuration.
        host: The address that it listens on.
        client: How clients connect beyond host and port.
    """

    home: Path
    port: int
    options: tuple[str, ...] = ()
    client: dict[str, object] = attrs.field(factory=dict, repr=False)
    host: str = HOST

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}"

    def connect(self) -> redis.Redis:
        """Return a client of this server alone."""
        return redis.Redis(host=self.host, port=self.port, **self.client)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the server, empty."""
        with running(self.service(), home=self.home):
            yield

    def service(self) -> Service:
        """Return the server as a service with an empty directory."""
        self.home.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.home / "nodes.conf", ignore_errors=True)
        return Service(
            name=f"redis-{self.port}",
            group="redis",
            command=(
                "redis-server",
                *("--bind", self.host, "--dir", str(self.home)),
                *("--save", "", "--appendonly", "no"),
                *(("--port", str(self.port)) if "--port" not in self.options else ()),
                *self.options,
            ),
            environment={"LC_ALL": "C"},
            cwd=self.home,
            probe=self._probe,
            port=self.port,
            within_s=WITHIN_S,
        )

    def _probe(self) -> str | None:
        try:
            self.connect().ping()
        except redis.RedisError as error:
            return str(error)
        return None


@contextmanager
def redis_server(home: Path) -> Iterator[RedisNode]:
    """Run one empty server."""
    (port,) = free_ports(1)
    node = RedisNode(home=home, port=port)
    with node.running():
        yield node


def cluster_options(bus: int) -> tuple[str, ...]:
    """Return the options of a server that will be in a cluster, with the port of its bus."""
    return (
        *("--cluster-enabled", "yes", "--cluster-port", str(bus)),
        *("--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no"),
        *("--repl-diskless-sync-delay", "0"),
    )


@contextmanager
def redis_cluster(home: Path, *, replicas: int = 0) -> Iterator[list[RedisNode]]:
    """Run an empty cluster of three servers, each with so many replicas."""
    number = 3 * (1 + replicas)
    ports = free_ports(2 * number)
    nodes = [
        RedisNode(home=home / str(port), port=port, options=cluster_options(bus))
        for port, bus in zip(ports[:number], ports[number:], strict=True)
    ]
    with ExitStack() as stack:
        for node in nodes:
            stack.enter_context(node.running())
        form_cluster(nodes, replicas)
        yield nodes


def form_cluster(nodes: list[RedisNode], replicas: int) -> None:
    """Make running servers a cluster, and wait until it answers for all slots."""
    made = subprocess.run(
        (
            *("redis-cli", "--cluster", "create", *(f"{node.host}:{node.port}" for node in nodes)),
            *("--cluster-replicas", str(replicas), "--cluster-yes"),
        ),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    assert _POLL.until(lambda: all(map(_is_whole, nodes)), within_s=WITHIN_S)


def _is_whole(node: RedisNode) -> bool:
    found = str(node.connect().execute_command("CLUSTER", "INFO"))
    return "cluster_state:ok" in found and f"cluster_slots_ok:{_SLOTS}" in found

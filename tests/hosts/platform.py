"""The platform on three hosts: one has broker and database; two run a server and a supervisor each.

Each of the three has two servers of the index store.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import httpx

from narthex._processes import ProcessGroup
from narthex_stack.install.installation import Installation, load_installation
from narthex_stack.install.layout import HomeLayout
from narthex_stack.local_services import platform_services
from narthex_stack.machine.jars import cache_dir
from narthex_stack.operator.stack import Stack
from narthex_stack.processes.service import Service
from narthex_stack.servers import kafka, postgres
from narthex_stack.servers.local_servers import wait_healthy
from tests.chaos import plant
from tests.hosts.entrance import Entrance
from tests.hosts.index_store import IndexStore
from tests.hosts.machines import NETWORK, Host, make_hosts
from tests.hosts.spark import SparkOnHosts
from tests.spark_cluster import CLUSTER

STORES, FIRST, SECOND = "stores", "first", "second"
WORKERS = (FIRST, SECOND)
POSTGRES_PORT, KAFKA_PORT, CONTROLLER_PORT, SERVER_PORT = 5432, 9092, 9093, 8000
PASSWORD = "password-of-the-hosts"
TOKEN = "token-of-the-hosts-test"
HOST_MB = 512


@attrs.define
class Platform:
    """The services, by host.

    Attributes:
        shared: A directory that all hosts see, as they would see an object store.
        spark: The cluster that drivers use; without it, each runs Spark by itself.
        processes: The running services, by host and name.
    """

    hosts: dict[str, Host]
    shared: Path
    index_store: IndexStore
    spark: SparkOnHosts | None = None
    installations: dict[str, Installation] = attrs.field(factory=dict)
    processes: dict[tuple[str, str], ProcessGroup] = attrs.field(factory=dict)

    def url(self, host: str) -> str:
        """Return the address of the server of a host."""
        return f"http://{self.hosts[host].address}:{SERVER_PORT}"

    def start(self, host: str, service: Service) -> None:
        """Start a service on a host, and wait until it is healthy."""
        child = self.hosts[host].start(service)
        self.processes[host, service.name] = child
        log = self.hosts[host].disk / f"{service.name}.log"
        wait_healthy(service, child=child, log=log)

    def start_index_servers(self, host: str) -> None:
        """Start the servers of the index store on a host, empty."""
        for node in self.index_store.nodes[host]:
            self.start(host, node.service())

    def start_worker(self, host: str) -> None:
        """Start the server and the supervisor of a host, whose disk may be empty."""
        if self.spark is not None:
            self.start(host, self.spark.worker(self.hosts[host]))
        installation = self._install(host)
        self.start(host, platform_services.server(installation))
        self.start_supervisor(host)

    def start_supervisor(self, host: str) -> None:
        """Start the supervisor of a host."""
        (service,) = platform_services.supervisors(self.installations[host])
        self.start(host, service)

    def stop_supervisor(self, host: str, *, within_s: float) -> None:
        """Stop the supervisor of a host, which returns its slots first."""
        child = self.processes.pop((host, platform_services.SUPERVISOR))
        child.end(within_s=within_s)

    def host_of(self, owner: str) -> str:
        """Return the host of a supervisor by its name in leases; empty if it does not run."""
        pid = int(owner.split(":")[1])
        return next((name for name, host in self.hosts.items() if host.has(pid)), "")

    def lose(self, host: str) -> int:
        """Kill all processes of a host and delete its disk; return how many were killed."""
        self.processes = {
            place: child for place, child in self.processes.items() if place[0] != host
        }
        return self.hosts[host].lose()

    def _install(self, host: str) -> Installation:
        """Store the keys and the stores' addresses on a host; return the installation there."""
        disk = self.hosts[host].disk
        keys = self.shared / "keys"
        if keys.is_dir():
            shutil.copytree(keys, disk, dirs_exist_ok=True)
        else:
            keys.mkdir(mode=0o700, parents=True)
            for place in (disk, keys):
                (place / "policy.toml").write_text(plant.MAY_WRITE)
        stores = self.hosts[STORES].address
        installation = load_installation(
            HomeLayout(disk),
            environment={
                **{name: os.environ[name] for name in ("HOME", "PATH")},
                "NARTHEX_LEDGER_DSN": postgres.dsn(
                    user="narthex",
                    password=PASSWORD,
                    port=POSTGRES_PORT,
                    database="narthex",
                    host=stores,
                ),
                "NARTHEX_KAFKA": f"{stores}:{KAFKA_PORT}",
                "NARTHEX_SERVER_URL": self.url(host),
                "NARTHEX_TOKEN": TOKEN,
                "NARTHEX_INDEX_STORE": self.index_store.url,
                "NARTHEX_HISTORY_DIR": str(self.shared / "history"),
                "NARTHEX_SNAPSHOT_DIR": str(self.shared / "snapshots"),
                "NARTHEX_AIRFLOW_URL": "",
                **(self.spark.environment(self.hosts[host]) if self.spark is not None else {}),
            },
            files_root=self.shared,
        )
        self.installations[host] = installation
        return installation

    def keep_keys(self, host: str) -> None:
        """Copy the keys of a host, which made them, for the others."""
        keys = self.shared / "keys"
        for name in ("secrets.json", "signing.key", "signing.pub", "secrets.key"):
            source = self.hosts[host].disk / name
            if source.is_file():
                shutil.copy2(source, keys / name)


@contextmanager
def platform(
    directory: Path, *, spark: str, within_s: float
) -> Iterator[tuple[Platform, plant.Installation]]:
    """Start the stores and two workers, commit card velocity, and yield them.

    All of it ends with the namespaces of this process.

    Args:
        directory: A directory for the hosts' disks and for what they share.
        spark: `local`, or `cluster` for a master and workers on the hosts.
        within_s: How long readers may wait for the commit.

    Raises:
        NotStartedError: A service did not become healthy.
    """
    directory.chmod(0o755)
    shared = directory / "shared"
    shared.mkdir()
    hosts = {h.name: h for h in make_hosts(directory / "disks", (STORES, FIRST, SECOND))}
    found = Platform(hosts=hosts, shared=shared, index_store=IndexStore.of(hosts.values()))
    for service in _stores(hosts[STORES]):
        found.start(STORES, service)
    for host in hosts:
        found.start_index_servers(host)
    found.index_store.form()
    if spark == CLUSTER:
        found.spark = SparkOnHosts.prepared(shared, hosts[STORES])
        found.start(STORES, found.spark.master())
    found.start_worker(FIRST)
    found.keep_keys(FIRST)
    found.start_worker(SECOND)
    settings = found.installations[FIRST].settings
    with httpx.Client(
        base_url=found.url(FIRST),
        headers={"authorization": f"Bearer {TOKEN}"},
        timeout=httpx.Timeout(20.0, connect=2.0),
        transport=Entrance([found.url(host) for host in WORKERS]),
    ) as http:
        installation = plant.Installation(
            stack=Stack(hosts[FIRST].disk), settings=settings, http=http
        )
        plant.commit(installation, within_s=within_s)
        yield found, installation


def _stores(host: Host) -> tuple[Service, ...]:
    node = kafka.KafkaNode(
        directory=host.disk / "kafka",
        port=KAFKA_PORT,
        controller_port=CONTROLLER_PORT,
        heap_mb=HOST_MB,
        cache=cache_dir(os.environ),
        host=host.address,
    )
    return (_postgres(host), kafka.service(node))


def _postgres(host: Host) -> Service:
    cluster = postgres.cluster(
        host.disk,
        install_id="hosts000",
        port=POSTGRES_PORT,
        password=PASSWORD,
        is_durable=False,
    )
    cluster = attrs.evolve(cluster, host=host.address)
    databases = (postgres.ServiceDatabase(name="narthex", password=PASSWORD),)
    service = postgres.service(cluster, databases=databases, home=host.disk)

    def prepare() -> None:
        service.prepare()
        with (cluster.data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {NETWORK}.0/24 scram-sha-256\n")

    return attrs.evolve(service, prepare=prepare)


def reader_command(url: str) -> tuple[str, ...]:
    """Return the command line of the program that asks a server again and again."""
    return (sys.executable, "-m", "tests.hosts.reader", url)

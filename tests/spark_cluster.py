"""A standalone Spark cluster for tests: one master and two workers, from the jars of PySpark."""

import json
import os
import secrets
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import pyspark

from narthex._base import Backoff
from narthex._processes import Process, ProcessGroup, in_sessions, process_of
from narthex.settings import Settings
from narthex_stack.machine.jars import cache_dir
from narthex_stack.machine.java import java_home
from narthex_stack.machine.ports import HOST, free_ports
from narthex_stack.processes.service import Service
from narthex_stack.servers.local_servers import running
from tests.spark_processes import command_of

SLOTS = 48
"""Slots of each worker: a live query occupies one for each partition that it reads."""
WORKERS = 2
MEMORY = "700m"
WITHIN_S = 180.0
_POLL = Backoff(first_s=0.1, greatest_s=0.5)
_SPARK = Path(pyspark.__file__).parent
_OPENED = ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util", "util.concurrent")
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
_SECURITY = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.authEngineVersion": "2",
}


@attrs.define(kw_only=True)
class SparkCluster:
    """A running cluster.

    Attributes:
        home: The directory of its files.
        port: The port of the master.
        page_port: The port of the master's page.
        workers: The processes of the workers, by name.
    """

    home: Path
    port: int
    page_port: int
    workers: dict[str, ProcessGroup] = attrs.field(factory=dict)
    _stack: ExitStack = attrs.field(factory=ExitStack)

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    def use(self, settings: Settings) -> Settings:
        """Return settings with which drivers use this cluster."""
        properties = self.home / "spark.conf"
        properties.write_text(
            f"spark.driver.host {HOST}\nspark.executor.memory {MEMORY}\n"
            "spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1\n"
        )
        return attrs.evolve(
            settings,
            spark_master=self.master,
            spark_conf=str(properties),
            spark_secret_file=str(self.home / "secret"),
        )

    def find(self, command: str) -> list[Process]:
        """Return the processes of all executors by their name in the kernel's table."""
        return [found for name in self.workers for found in self.find_processes(name, command)]

    def start_worker(self, name: str) -> None:
        """Start a worker, and wait until the master knows it."""
        (page_port,) = free_ports(1)
        options = ("--cores", str(SLOTS), "--memory", "900m", "--host", HOST, "--port", "0")
        command = (*options, "--webui-port", str(page_port), "--work-dir", str(self.home / name))
        known = self.alive_workers()
        service = self._service(name, WORKER, *command, self.master)
        service = attrs.evolve(
            service, probe=lambda: None if self.alive_workers() > known else "not registered"
        )
        self.workers[name] = self._stack.enter_context(running(service, home=self.home))

    def kill_worker(self, name: str) -> None:
        """Kill a worker's own JVM; its executors notice that by themselves."""
        group = self.workers.pop(name)
        os.kill(group.pid, signal.SIGKILL)

    def alive_workers(self) -> int:
        """Return the number of workers that the master relies on; 0 if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.page_port}/json/", timeout=5) as page:
                return int(json.load(page)["aliveworkers"])
        except (urllib.error.URLError, OSError, ValueError):
            return 0

    def find_processes(self, name: str, command: str) -> list[Process]:
        """Return the processes of a worker's executors by their name in the kernel's table.

        `java` is a JVM of an executor; a standing task has its own name.
        """
        leader = process_of(self.workers[name].pid)
        members = in_sessions((leader,)) if leader is not None else ()
        return [p for p in members if command_of(p) == command and p != leader]

    def _service(self, name: str, main: str, *arguments: str) -> Service:
        return attrs.evolve(spark_service(self.home, name, main, *arguments), port=self.port)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the master and the workers."""
        write_cluster_files(self.home)
        options = ("--host", HOST, "--port", str(self.port), "--webui-port", str(self.page_port))
        master = attrs.evolve(self._service("master", MASTER, *options), probe=self._probe_master)
        with self._stack:
            self._stack.enter_context(running(master, home=self.home))
            for number in range(WORKERS):
                self.start_worker(f"worker{number}")
            yield

    def _probe_master(self) -> str | None:
        try:
            urllib.request.urlopen(f"http://{HOST}:{self.page_port}/json/", timeout=5).close()
        except (urllib.error.URLError, OSError) as error:
            return str(error)
        return None


def write_cluster_files(home: Path) -> None:
    """Write the secret that all processes of a cluster share, and their properties."""
    home.mkdir(parents=True, exist_ok=True)
    secret = home / "secret"
    secret.touch(mode=0o600)
    secret.write_text(secrets.token_hex(16))
    (home / "cluster.conf").write_text(
        "".join(f"{name} {value}\n" for name, value in _SECURITY.items())
    )


def spark_service(home: Path, name: str, main: str, *arguments: str, host: str = HOST) -> Service:
    """Return the service of a master or a worker; its cluster's files are below `home`."""
    java = java_home(cache=cache_dir())
    opened = (f"--add-opens=java.base/java.{module}=ALL-UNNAMED" for module in _OPENED)
    return Service(
        name=name,
        group="spark",
        command=(
            str(java / "bin" / "java"),
            *opened,
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{_SPARK}/jars/*", main),
            *("--properties-file", str(home / "cluster.conf"), *arguments),
        ),
        environment={
            "SPARK_HOME": str(_SPARK),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": host,
            "JAVA_HOME": str(java),
            "_SPARK_AUTH_SECRET": (home / "secret").read_text(),
        },
        cwd=home,
        probe=lambda: None,
        within_s=WITHIN_S,
    )


@contextmanager
def run_spark_cluster(home: Path) -> Iterator[SparkCluster]:
    """Run a cluster whose processes authenticate and encrypt; its files are below a directory."""
    port, page_port = free_ports(2)
    cluster = SparkCluster(home=home, port=port, page_port=page_port)
    with cluster.running():
        yield cluster

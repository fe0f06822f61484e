"""A standalone Spark cluster for tests: one master and two workers, from the jars of PySpark."""

import json
import os
import secrets
import shutil
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pyspark

from narthex._base import Backoff
from narthex._processes import Process, ProcessGroup, in_sessions, process_of
from narthex.settings import Settings
from narthex_stack.machine.jars import cache_dir
from narthex_stack.machine.java import java_home
from narthex_stack.machine.ports import HOST, free_ports
from narthex_stack.processes.service import Service, start
from narthex_stack.servers.local_servers import wait_healthy
from tests.spark_processes import command_of

LOCAL, CLUSTER = "local", "cluster"
"""Where the drivers of a test run their tasks: in their own JVM, or in executors of a cluster."""

SLOTS = 48
"""Slots of each worker: a live query occupies one for each partition that it reads."""
WORKERS = 2
MEMORY = "700m"
WORKER_MB = 900
"""Of a worker: enough for one executor."""
WITHIN_S = 180.0
_STOP_S = 20.0
_POLL = Backoff(first_s=0.1, greatest_s=0.5)
_SPARK = Path(pyspark.__file__).parent
_OPENED = ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util", "util.concurrent")
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
MASTER_NAME = "master"
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
        worker_mb: The memory that each worker has for executors.
        services: The processes of the master and of the workers, by name.
    """

    home: Path
    port: int
    page_port: int
    worker_mb: int = WORKER_MB
    services: dict[str, ProcessGroup] = attrs.field(factory=dict)
    _stack: ExitStack = attrs.field(factory=ExitStack)

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    @property
    def workers(self) -> list[str]:
        return [name for name in self.services if name != MASTER_NAME]

    def configuration(self, further: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the settings with which drivers use this cluster, by their names.

        Args:
            further: Properties of Spark besides those that every test has.
        """
        properties = {
            "spark.driver.host": HOST,
            "spark.executor.memory": MEMORY,
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            **(further or {}),
        }
        path = self.home / "spark.conf"
        path.write_text("".join(f"{name} {value}\n" for name, value in properties.items()))
        return {
            "spark_master": self.master,
            "spark_conf": str(path),
            "spark_secret_file": str(self.home / "secret"),
        }

    def use(self, settings: Settings) -> Settings:
        """Return settings with which drivers use this cluster."""
        return attrs.evolve(settings, **self.configuration())  # type: ignore[arg-type]

    def find(self, command: str) -> list[Process]:
        """Return the processes of all executors by their name in the kernel's table."""
        return [found for name in self.workers for found in self.find_processes(name, command)]

    def start(self, name: str) -> None:
        """Start the master or a worker without waiting for it; an earlier one has ended."""
        self._start(self._service(name))

    def start_worker(self, name: str) -> None:
        """Start a worker, and wait until the master knows it."""
        known = self.alive_workers()
        service = attrs.evolve(
            self._service(name),
            probe=lambda: None if self.alive_workers() > known else "not registered",
        )
        wait_healthy(service, child=self._start(service), log=self._log(name))

    def _start(self, service: Service) -> ProcessGroup:
        child = start(service, home=self.home, log=self._log(service.name))
        self._stack.callback(child.end, within_s=_STOP_S)
        self.services[service.name] = child
        return child

    def _log(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def kill_worker(self, name: str) -> None:
        """Kill a worker's own JVM; its executors notice that by themselves."""
        group = self.services.pop(name)
        os.kill(group.pid, signal.SIGKILL)

    def forget(self) -> None:
        """Replace the master by one that has lost all it knew; workers come back by themselves."""
        self.services.pop(MASTER_NAME).kill()
        shutil.rmtree(recovery_directory(self.home))
        service = self._service(MASTER_NAME)
        wait_healthy(service, child=self._start(service), log=self._log(MASTER_NAME))

    def alive_workers(self) -> int:
        """Return the number of workers that the master relies on; 0 if it does not answer."""
        try:
            return int(self.page()["aliveworkers"])
        except (urllib.error.URLError, OSError, ValueError):
            return 0

    def page(self) -> dict[str, Any]:
        """Return what the master's page shows: workers, and applications that run or have run."""
        with urllib.request.urlopen(f"http://{HOST}:{self.page_port}/json/", timeout=5) as page:
            found: dict[str, Any] = json.load(page)
        return found

    def find_processes(self, name: str, command: str) -> list[Process]:
        """Return the processes of a worker's executors by their name in the kernel's table.

        `java` is a JVM of an executor; a standing task has its own name.
        """
        return [p for p in self.executor_processes(name) if command_of(p) == command]

    def executor_processes(self, name: str) -> list[Process]:
        """Return the executors of a worker and all that they started; none if the worker ended."""
        leader = process_of(self.services[name].pid)
        members = in_sessions((leader,)) if leader is not None else ()
        return [process for process in members if process != leader]

    def _service(self, name: str) -> Service:
        if name == MASTER_NAME:
            ports = ("--port", str(self.port), "--webui-port", str(self.page_port))
            service = spark_service(self.home, name, MASTER, "--host", HOST, *ports)
            return attrs.evolve(service, port=self.port, probe=self._probe_master)
        (page_port,) = free_ports(1)
        options = (
            *("--cores", str(SLOTS), "--memory", f"{self.worker_mb}m"),
            *("--host", HOST, "--port", "0", "--webui-port", str(page_port)),
            *("--work-dir", str(self.home / name)),
        )
        return spark_service(self.home, name, WORKER, *options, self.master)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the master and the workers."""
        write_cluster_files(self.home)
        with self._stack:
            master = self._service(MASTER_NAME)
            wait_healthy(master, child=self._start(master), log=self._log(MASTER_NAME))
            for number in range(WORKERS):
                self.start_worker(f"worker{number}")
            yield

    def _probe_master(self) -> str | None:
        try:
            self.page()
        except (urllib.error.URLError, OSError, ValueError) as error:
            return str(error)
        return None


def recovery_directory(home: Path) -> Path:
    """Return the directory in which the master stores its workers and applications."""
    return home / "recovery"


def write_cluster_files(home: Path) -> None:
    """Write the secret that all processes of a cluster share, and their properties."""
    home.mkdir(parents=True, exist_ok=True)
    secret = home / "secret"
    secret.touch(mode=0o600)
    secret.write_text(secrets.token_hex(16))
    properties = {
        **_SECURITY,
        # A master that starts again knows its applications.
        "spark.deploy.recoveryMode": "FILESYSTEM",
        "spark.deploy.recoveryDirectory": str(recovery_directory(home)),
        "spark.deploy.recoveryTimeout": "10s",
    }
    (home / "cluster.conf").write_text(
        "".join(f"{name} {value}\n" for name, value in properties.items())
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
def run_spark_cluster(home: Path, *, worker_mb: int = WORKER_MB) -> Iterator[SparkCluster]:
    """Run a cluster whose processes authenticate and encrypt; its files are below a directory."""
    port, page_port = free_ports(2)
    cluster = SparkCluster(home=home, port=port, page_port=page_port, worker_mb=worker_mb)
    with cluster.running():
        yield cluster

"""A standalone Spark cluster on the hosts: the master beside the stores, a worker on each other.

The driver of each host has an executor on both, so its tasks may run on the other host.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import attrs

from narthex_stack.processes.service import Service
from tests.hosts.machines import Host
from tests.spark_cluster import MASTER, WORKER, spark_service, write_cluster_files
from tests.spark_events import event_properties

PORT, PAGE_PORT = 7077, 8080
EXECUTOR_CORES, EXECUTOR_MB = 20, 700
_HOSTS = 2
_WORKER_CORES, _WORKER_MB = 48, 2048


@attrs.frozen(kw_only=True)
class SparkOnHosts:
    """A cluster.

    Attributes:
        shared: A directory that all hosts see.
        stores: The host of the master.
    """

    shared: Path
    stores: Host

    @classmethod
    def prepared(cls, shared: Path, stores: Host) -> "SparkOnHosts":
        """Write the files that all processes of a new cluster share."""
        write_cluster_files(shared / "spark")
        found = cls(shared=shared, stores=stores)
        for directory in (shared / "checkpoints", shared / "secrets", found.events):
            directory.mkdir()
        return found

    @property
    def events(self) -> Path:
        """The directory in which drivers log where their tasks run."""
        return self._files / "events"

    @property
    def _files(self) -> Path:
        return self.shared / "spark"

    def master(self) -> Service:
        """Return the master."""
        address = self.stores.address
        options = ("--host", address, "--port", str(PORT), "--webui-port", str(PAGE_PORT))
        service = spark_service(self._files, "spark-master", MASTER, *options, host=address)
        return attrs.evolve(service, probe=lambda: None if self._page() else "no page")

    def worker(self, host: Host) -> Service:
        """Return the worker of a host, healthy once the master knows it."""
        options = (
            *("--cores", str(_WORKER_CORES), "--memory", f"{_WORKER_MB}m"),
            *("--host", host.address, "--port", "0", "--webui-port", "0"),
            *("--work-dir", str(host.disk / "spark-work")),
        )
        service = spark_service(
            self._files, "spark-worker", WORKER, *options, self._address, host=host.address
        )
        return attrs.evolve(
            service, probe=lambda: None if self._has_worker(host) else "not registered"
        )

    def environment(self, host: Host) -> Mapping[str, str]:
        """Return the settings of an installation on a host whose drivers use the cluster."""
        properties = {
            "spark.driver.host": host.address,
            "spark.cores.max": str(_HOSTS * EXECUTOR_CORES),
            "spark.executor.cores": str(EXECUTOR_CORES),
            "spark.executor.memory": f"{EXECUTOR_MB}m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            **event_properties(self.events),
        }
        path = self._files / f"{host.name}.conf"
        path.write_text("".join(f"{name} {value}\n" for name, value in properties.items()))
        return {
            "NARTHEX_SPARK_MASTER": self._address,
            "NARTHEX_SPARK_CONF": str(path),
            "NARTHEX_SPARK_SECRET_FILE": str(self._files / "secret"),
            "NARTHEX_CHECKPOINT_DIR": str(self.shared / "checkpoints"),
            "NARTHEX_SECRETS_DIR": str(self.shared / "secrets"),
            "NARTHEX_POLICY_FILE": str(self.shared / "keys" / "policy.toml"),
        }

    @property
    def _address(self) -> str:
        return f"spark://{self.stores.address}:{PORT}"

    def _has_worker(self, host: Host) -> bool:
        workers = self._page().get("workers", [])
        assert isinstance(workers, list)
        return any(one["host"] == host.address and one["state"] == "ALIVE" for one in workers)

    def _page(self) -> dict[str, object]:
        """Return the page of the master; empty if it does not answer."""
        url = f"http://{self.stores.address}:{PAGE_PORT}/json/"
        try:
            with urllib.request.urlopen(url, timeout=5) as page:
                found: dict[str, object] = json.load(page)
        except (urllib.error.URLError, OSError, ValueError):
            return {}
        return found

"""A cluster of Spark whose master and workers are started again, as a service manager does it."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

from narthex._processes import Process, is_alive
from tests.spark_cluster import MASTER_NAME, WORKERS, SparkCluster, run_spark_cluster
from tests.spark_events import event_properties
from tests.spark_processes import find_oldest

CLUSTER_SERVICES = (MASTER_NAME, *(f"worker{number}" for number in range(WORKERS)))
"""The victims of the cluster that are started again here."""

EXECUTOR_CORES = 20
WORKER_MB = 3000
"""Room for the executors of all drivers, also while the other worker is dead."""
PAUSE_S = 1.0
"""How long after its end a service starts again, unless a fault demands another pause."""
_STEP_S = 0.1


@attrs.define
class KeptCluster:
    """A running cluster, and a thread that starts its master and its workers again.

    The kernel ends a service together with the thread that started it, so that thread runs until
    the cluster stops.
    """

    cluster: SparkCluster
    _pauses: dict[str, float] = attrs.field(factory=dict)
    _ending: threading.Event = attrs.field(factory=threading.Event)

    @property
    def events(self) -> Path:
        """The directory in which drivers log where their tasks run."""
        return self.cluster.home / "events"

    def configuration(self) -> Mapping[str, str]:
        """Return the settings with which drivers use this cluster, by their names."""
        self.events.mkdir(exist_ok=True)
        return self.cluster.configuration(
            {
                "spark.executor.cores": str(EXECUTOR_CORES),
                "spark.cores.max": str(WORKERS * EXECUTOR_CORES),
                **event_properties(self.events),
            }
        )

    def find_service(self, name: str) -> Process | None:
        """Return the running JVM of the master or of a worker."""
        process = self.cluster.services[name].process
        return process if is_alive(process) else None

    def find_in_executors(self, worker: str, name: str) -> Process | None:
        """Return the oldest process of that name in the executors of a worker.

        Args:
            worker: The name of the worker; empty for the executors of all of them.
            name: `java` for an executor itself, Spark's daemon, or a standing task.
        """
        workers = [worker] if worker else self.cluster.workers
        processes = [one for place in workers for one in self.cluster.executor_processes(place)]
        return find_oldest(name, processes)

    def delay(self, name: str, pause_s: float) -> None:
        """Set how long after its next end a service starts again."""
        self._pauses[name] = pause_s

    def keep(self) -> None:
        """Start services that have ended, each after its pause, until the cluster stops."""
        due: dict[str, float] = {}
        while not self._ending.wait(_STEP_S):
            now = time.monotonic()
            for name, group in tuple(self.cluster.services.items()):
                if group.is_running:
                    continue
                due.setdefault(name, now + self._pauses.pop(name, PAUSE_S))
                if now >= due[name]:
                    del due[name]
                    self.cluster.start(name)

    def stop(self) -> None:
        """Start nothing from now on."""
        self._ending.set()


@contextmanager
def kept_cluster(home: Path) -> Iterator[KeptCluster]:
    """Run a cluster of a master and two workers; its files are below a directory."""
    with run_spark_cluster(home, worker_mb=WORKER_MB) as cluster:
        kept = KeptCluster(cluster)
        keeper = threading.Thread(target=kept.keep, name="keeper")
        keeper.start()
        try:
            yield kept
        finally:
            kept.stop()
            keeper.join()

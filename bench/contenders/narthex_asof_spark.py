"""Narthex's offline query on Spark's executors, whatever the size of the histories.

python -m bench.contenders.narthex_asof_spark DIRECTORY DATASETS QUESTIONS cluster|local

`cluster` is a standalone cluster of two workers, each with one executor of 1 GiB and a task at a
time; `local` runs two tasks in the JVM of the driver, of 1 GiB, too. The CPU time is that of all
processes: of the driver, its JVM, the executors, their Python workers, and the cluster itself.
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import attrs
import psutil

from bench.contenders.stopwatch import peak_mb
from bench.figures import tree_cpu_s
from bench.profiles import query
from bench.resources import role_of
from narthex._runtime.workers import WorkerPool
from narthex.settings import Settings
from narthex_spark_apps.offline import columnar_lookups
from narthex_spark_apps.offline.queries import answer_query
from narthex_spark_apps.platform.session import open_session
from narthex_stack.machine.jars import CONNECTORS, resolve
from tests.spark_cluster import CLUSTER, run_spark_cluster

EXECUTOR_MEMORY = "1g"
WORKER_MB = 1_100
PROPERTIES = {"spark.executor.memory": EXECUTOR_MEMORY, "spark.cores.max": "2"}
EVERY_S = 0.1


@attrs.define
class PeakMemory:
    """The greatest resident memory of one process of each role, in MB."""

    peaks: dict[str, float] = attrs.field(factory=dict)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch this process and all that it started."""
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(ended,))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(EVERY_S):
            own = psutil.Process()
            for process in (own, *own.children(recursive=True)):
                with suppress(psutil.Error, OSError, IndexError):
                    role = "driver" if process == own else role_of(process.cmdline())
                    self.peaks[role] = max(self.peaks.get(role, 0.0), peak_mb(process.pid))


def cpu_by_role() -> dict[str, float]:
    """Return the CPU seconds of each role: of running processes and their ended children."""
    own = psutil.Process()
    found: dict[str, float] = {}
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error, OSError, IndexError):
            role = "driver" if process == own else role_of(process.cmdline())
            found[role] = found.get(role, 0.0) + sum(process.cpu_times()[:4])
    return found


def settings_of(home: Path) -> Settings:
    """Return settings of an installation without services."""
    return Settings(
        home=home,
        install_id="benchoff",
        ledger_dsn="",
        kafka="",
        server_url="",
        token="",
        index_dir=home,
        history_dir=str(home),
        checkpoint_dir=home,
        files_root=home,
        jars_dir=resolve(CONNECTORS),
        spark_master="local[2]",
    )


def main() -> None:
    """Answer twice, and measure the second time."""
    directory, datasets, questions = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    home = Path(tempfile.mkdtemp(dir=directory))
    columnar_lookups.HELD_BYTES = -1  # type: ignore[misc]
    settings, memory = settings_of(home), PeakMemory()
    on_cluster = sys.argv[4] == CLUSTER
    cluster = run_spark_cluster(home / "cluster", worker_mb=WORKER_MB)
    with cluster if on_cluster else nullcontext() as running, memory.watching():
        if running is not None:
            settings = attrs.evolve(settings, **running.configuration(PROPERTIES))
        session = open_session(settings, name="offline")
        asked = query(directory, datasets, "narthex_on_spark")
        with WorkerPool(size=1) as workers:
            answer_query(lambda: session, asked, workers=workers, progress=lambda _: None)
            began, cpu_began, by_role = time.monotonic(), tree_cpu_s(os.getpid()), cpu_by_role()
            answer_query(lambda: session, asked, workers=workers, progress=lambda _: None)
            wall_s, cpu_s = time.monotonic() - began, tree_cpu_s(os.getpid()) - cpu_began
            spent = {role: cpu - by_role.get(role, 0.0) for role, cpu in cpu_by_role().items()}
        session.stop()
    figures = {
        "rows": questions,
        "cpu_s": cpu_s,
        "wall_s": wall_s,
        "peak_mb": max(memory.peaks.values()),
    }
    processes = {
        role: {"cpu_s": round(cpu, 2), "peak_mb": round(memory.peaks.get(role, 0.0))}
        for role, cpu in spent.items()
    }
    (directory / "processes.json").write_text(json.dumps(processes))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

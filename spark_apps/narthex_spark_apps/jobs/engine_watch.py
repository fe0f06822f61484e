"""Watch the engine of a driver: notice that its JVM has ended or that its executors have gone.

The memory of the JVM is reported to the supervisor.
"""

import time

import attrs
from py4j.protocol import Py4JError
from pyspark import SparkContext

from narthex_spark_apps.jobs.application import SparkStoppedError, require_spark
from narthex_spark_apps.supervision.runner.lease_inbox import Send
from narthex_spark_apps.supervision.runner_messages import JvmMemory

REPORT_EVERY_S = 2.0
WITHOUT_EXECUTORS_S = 60.0
"""How long an application that had executors may be without any.

A cluster replaces a lost executor within seconds. A master that was started again without the state
of the earlier one knows nothing of its applications, which do not register again by themselves.
"""
_CODE = "Code"
_METASPACE = "Metaspace"


@attrs.define
class ExecutorWatch:
    """The executors of an application on a cluster, over time."""

    _had_at: float | None = None

    def require(self, executors: int, *, now: float) -> None:
        """Require that the application has executors, or had some lately, or never had any.

        Args:
            executors: Their present number.
            now: The time by any clock, in seconds.

        Raises:
            SparkStoppedError: It has been without executors for too long.
        """
        if executors:
            self._had_at = now
        elif self._had_at is not None and now - self._had_at > WITHOUT_EXECUTORS_S:
            raise SparkStoppedError(
                f"the application has had no executor for {WITHOUT_EXECUTORS_S:.0f} s, and is "
                "started again; look at the master's page for its workers, and set "
                "`spark.deploy.recoveryMode` if the master was started again"
            )


@attrs.define
class EngineWatch:
    """The engine of a driver.

    Attributes:
        send: Sends to the supervisor.
        executors: Watches the executors; None if the driver has none, because Spark is local.
    """

    context: SparkContext
    send: Send
    executors: ExecutorWatch | None
    _reported_at: float = float("-inf")

    def check(self) -> None:
        """Require that Spark runs; every two seconds report the memory of its JVM.

        Raises:
            SparkStoppedError: Its JVM has ended, or has stopped the context, or an application on a
                cluster has been without executors for too long.
        """
        require_spark(self.context)
        now = time.monotonic()
        if now - self._reported_at < REPORT_EVERY_S:
            return
        self._reported_at = now
        try:
            self.send(read_memory(self.context))
            if self.executors is not None:
                self.executors.require(count_executors(self.context), now=now)
        except (Py4JError, OSError) as error:
            raise SparkStoppedError("the JVM of the driver has ended") from error


def count_executors(context: SparkContext) -> int:
    """Return the number of executors besides the driver itself.

    Raises:
        Py4JError: The JVM has ended.
    """
    # The driver is one of them.
    infos = context._jsc.sc().statusTracker().getExecutorInfos()  # noqa: SLF001 (as PySpark does)
    return len(infos) - 1


def read_memory(context: SparkContext) -> JvmMemory:
    """Return what the JVM of a driver uses.

    Raises:
        Py4JError: The JVM has ended.
    """
    jvm = context._jvm  # noqa: SLF001 (as PySpark does)
    factory = jvm.java.lang.management.ManagementFactory
    used: dict[str, int] = {}
    limits: dict[str, int] = {}
    # The code cache is one pool or three, by its size.
    for pool in factory.getMemoryPoolMXBeans():
        name, usage = str(pool.getName()), pool.getUsage()
        kind = _CODE if _CODE in name else name
        used[kind] = used.get(kind, 0) + int(usage.getUsed())
        limits[kind] = limits.get(kind, 0) + int(usage.getMax())
    heap = factory.getMemoryMXBean().getHeapMemoryUsage()
    return JvmMemory(
        code_cache=used[_CODE],
        code_cache_limit=limits[_CODE],
        heap=int(heap.getUsed()),
        heap_limit=int(heap.getMax()),
        metaspace=used[_METASPACE],
    )

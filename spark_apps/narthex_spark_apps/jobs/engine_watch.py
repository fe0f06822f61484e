"""Watch the JVM of a driver: notice that it has ended, and report its memory to the supervisor."""

import time

import attrs
from py4j.protocol import Py4JError
from pyspark import SparkContext

from narthex_spark_apps.jobs.application import SparkStoppedError, require_spark
from narthex_spark_apps.supervision.runner.lease_inbox import Send
from narthex_spark_apps.supervision.runner_messages import JvmMemory

REPORT_EVERY_S = 2.0
_CODE = "Code"
_METASPACE = "Metaspace"


@attrs.define
class EngineWatch:
    """The engine of a driver.

    Attributes:
        send: Sends to the supervisor.
    """

    context: SparkContext
    send: Send
    _reported_at: float = float("-inf")

    def check(self) -> None:
        """Require that Spark runs; report the memory of its JVM every two seconds.

        Raises:
            SparkStoppedError: Its JVM has ended, or has stopped the context.
        """
        require_spark(self.context)
        now = time.monotonic()
        if now - self._reported_at < REPORT_EVERY_S:
            return
        self._reported_at = now
        try:
            self.send(read_memory(self.context))
        except (Py4JError, OSError) as error:
            raise SparkStoppedError("the JVM of the driver has ended") from error


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

"""The cache in which a driver's JVM stores compiled code."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from narthex._base import Backoff
from narthex.settings import Settings, environment_of
from narthex_spark_apps.platform.jvm import CODE_CACHE_BYTES
from narthex_spark_apps.supervision import runner_messages
from narthex_spark_apps.supervision.process_instance import ProcessInstance
from narthex_spark_apps.supervision.runner_messages import DesiredAssignments, JvmMemory
from narthex_spark_apps.supervision.supervised_runner import SupervisedRunner
from narthex_spark_apps.supervision.supervisor import DRIVER_MODULE

pytestmark = pytest.mark.spark

SMALL_BYTES = 12 * 1024**2
WITHIN_S = 240.0


def reserved_bytes(session: SparkSession) -> int:
    factory = session._jvm.java.lang.management.ManagementFactory  # noqa: SLF001 (as PySpark does)
    pools = [pool for pool in factory.getMemoryPoolMXBeans() if "Code" in pool.getName()]
    return sum(pool.getUsage().getMax() for pool in pools)


def test_the_driver_of_the_suite_reserves_as_much(spark: SparkSession) -> None:
    """With the first compiler only, the default of 48 MB was full in the middle of the suite."""
    assert reserved_bytes(spark) == CODE_CACHE_BYTES


@pytest.mark.slow
def test_a_driver_that_uses_its_share_of_the_code_cache_is_replaced(
    settings_of: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start of this driver compiles more than the share; without plans, it compiles no more."""
    monkeypatch.setattr(runner_messages, "CODE_CACHE_SHARE", 0.4)
    small = f"-XX:ReservedCodeCacheSize={SMALL_BYTES}"
    environment = {**os.environ, **environment_of(settings_of), "_JAVA_OPTIONS": small}
    started: list[ProcessInstance] = []

    def start() -> ProcessInstance:
        started.append(
            ProcessInstance.start(
                "driver", module=DRIVER_MODULE, environment=environment, run_dir=tmp_path
            )
        )
        return started[-1]

    runner = SupervisedRunner("driver", start)
    runner.extend_lease(float("inf"))
    runner.assign(DesiredAssignments(assignments=()))
    reported: list[JvmMemory] = []

    def is_replaced() -> bool:
        runner.reconcile()
        if runner.memory is not None:
            reported.append(runner.memory)
        return runner.restarts > 0

    try:
        assert Backoff(first_s=0.1, greatest_s=0.1).until(is_replaced, within_s=WITHIN_S)
    finally:
        runner.stop(within_s=10.0)
        for instance in started:
            for pipe in (instance.group.popen.stdin, instance.group.popen.stdout):
                if pipe is not None:
                    pipe.close()

    last = reported[-1]
    assert last.code_cache_limit == SMALL_BYTES
    assert last.exhausted
    assert last.code_cache < last.code_cache_limit
    assert 0 < last.heap <= last.heap_limit
    assert last.metaspace > 0
    assert "CodeCache is full" not in (tmp_path / "driver.log").read_text()

"""The cache in which a driver's JVM stores compiled code."""

import os
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from narthex.settings import Settings, environment_of
from narthex_spark_apps.platform.jvm import CODE_CACHE_BYTES

pytestmark = pytest.mark.spark

LARGEST = """
from narthex.settings import load_settings
from narthex_spark_apps.platform.session import open_session

session = open_session(load_settings(), name="code cache")
bean = session._jvm.java.lang.management.ManagementFactory
pools = [pool for pool in bean.getMemoryPoolMXBeans() if "Code" in pool.getName()]
print(sum(pool.getUsage().getMax() for pool in pools))
"""


def reserved_bytes(session: SparkSession) -> int:
    factory = session._jvm.java.lang.management.ManagementFactory  # noqa: SLF001 (as PySpark does)
    pools = [pool for pool in factory.getMemoryPoolMXBeans() if "Code" in pool.getName()]
    return sum(pool.getUsage().getMax() for pool in pools)


def test_a_driver_reserves_what_is_configured(settings_of: Settings) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LARGEST],
        env={**os.environ, **environment_of(settings_of)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.split() == [str(CODE_CACHE_BYTES)], done.stderr[-2000:]


def test_the_driver_of_the_suite_reserves_as_much(spark: SparkSession) -> None:
    """With the first compiler only, the default of 48 MB was full in the middle of the suite."""
    assert reserved_bytes(spark) == CODE_CACHE_BYTES

"""The daemon of Spark's Python workers is safe to fork, and workers import from no archive."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

PRELOAD = """
import importlib, json, os
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from narthex_spark_apps.platform.worker_daemon import PRELOADED
for name in PRELOADED:
    importlib.import_module(name)
print(json.dumps(len(os.listdir("/proc/self/task"))))
"""


def test_the_imports_of_the_daemon_start_no_threads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRELOAD], capture_output=True, text=True, check=True
    )

    assert json.loads(done.stdout) == 1


@pytest.mark.spark
def test_workers_import_pyspark_from_its_package(spark: SparkSession) -> None:
    def places(_rows: Iterable[int]) -> Iterator[tuple[str, str]]:
        command = Path(f"/proc/{os.getpid()}/cmdline").read_text()
        yield str(sys.modules["pyspark"].__file__), command

    ((package, command),) = spark.sparkContext.parallelize([0], 1).mapPartitions(places).collect()

    assert ".zip" not in package
    assert "narthex_spark_apps.platform.worker_daemon" in command

"""A backfill reads a polled source in a task of Spark, and names what it could not read."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from narthex._formats.avro.codec import fact_codec
from narthex.settings import Settings
from narthex_spark_apps.jobs.polled_read import PolledReadError, read_polled
from narthex_spark_apps.platform.python_workers import with_environment
from tests.connectors.installing import FOLDER, installed
from tests.spark_apps.conftest import Log
from tests.spark_apps.sources.test_installed_sources import job_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site")


@pytest.fixture
def line_files(site: Path) -> Iterator[Any]:
    """Install the package `line-files`."""
    with installed(site):
        import line_files  # noqa: PLC0415 (it is installed just above)

        yield line_files


@pytest.fixture
def context(spark: SparkSession, site: Path) -> SparkContext:
    """Return the context, whose Python workers can import the installed package."""
    return with_environment(spark.sparkContext, {"PYTHONPATH": f"{site}{os.pathsep}{FOLDER}"})


def test_rows_are_appended_once_over_repeated_reads(
    line_files: Any, platform: Settings, log: Log, context: SparkContext
) -> None:
    file = platform.files_root / "orders.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("1|2024-05-01T00:00:00Z|ann|2.5\n2|2024-05-01T00:00:01Z|bob|1.5\n")
    job = job_of(line_files, "orders.txt", log)

    counts = [read_polled(context, job.asset, platform) for _ in range(2)]

    assert counts == [2, 0]
    values = [value for _, value in log.records(job.output, count=2)]
    assert [fact.key for fact in fact_codec(job.spec.log).decode_many(values)] == [(1,), (2,)]


def test_a_source_that_cannot_be_read_is_named(
    line_files: Any, platform: Settings, log: Log, context: SparkContext
) -> None:
    job = job_of(line_files, "../outside.txt", log)

    with pytest.raises(PolledReadError, match=r"ForbiddenPlaceError: .*cannot be read or written"):
        read_polled(context, job.asset, platform)

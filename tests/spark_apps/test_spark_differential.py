"""On Kafka and Spark, live and as backfill, the results match the reference."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.differential.beside_spark import shared_workers
from tests.differential.cases import failed_cases, failed_projects
from tests.differential.drawing import Jobs
from tests.differential.platform import IndexServers, index_servers, settings_of
from tests.differential.searching import Searcher
from tests.redis_servers import require_redis

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(scope="module")
def searcher(
    spark: SparkSession,
    kafka_bootstrap: str,
    connector_jars: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Searcher]:
    home = tmp_path_factory.mktemp("differential")
    settings = settings_of(home, bootstrap=kafka_bootstrap, jars_dir=connector_jars)
    with shared_workers():
        yield Searcher(session=lambda: spark, settings=settings, seed=0)


@pytest.fixture(scope="module")
def searcher_on_redis(
    spark: SparkSession,
    kafka_bootstrap: str,
    connector_jars: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Searcher]:
    require_redis()
    home = tmp_path_factory.mktemp("differential")
    with (
        index_servers(IndexServers.CLUSTER, home / "redis") as address,
        shared_workers(),
    ):
        settings = settings_of(
            home, bootstrap=kafka_bootstrap, jars_dir=connector_jars, index_store=address
        )
        yield Searcher(session=lambda: spark, settings=settings, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [Jobs.ON_SPARK, Jobs.BESIDE_SPARK])
def test_cases_are_answered_as_was_written(searcher: Searcher, jobs: Jobs) -> None:
    assert failed_cases(searcher, jobs) == []


@pytest.mark.parametrize(
    ("jobs", "count"),
    [(Jobs.ON_SPARK, 4), pytest.param(Jobs.BESIDE_SPARK, 16, marks=pytest.mark.slow)],
)
def test_generated_projects_match_the_reference_on_spark(
    searcher: Searcher, jobs: Jobs, count: int
) -> None:
    assert failed_projects(searcher, seed=1, jobs=jobs, count=count) == []


@pytest.mark.slow
@pytest.mark.redis
def test_generated_projects_match_with_indexes_on_a_redis_cluster(
    searcher_on_redis: Searcher,
) -> None:
    assert failed_projects(searcher_on_redis, seed=2, jobs=Jobs.BESIDE_SPARK, count=15) == []

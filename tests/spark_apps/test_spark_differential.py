"""On Kafka and Spark, live and as backfill, definitions mean what the reference says.

Those of which all jobs run beside Spark are in `tests/differential`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from narthex_reference.conformance import Case
from tests.differential.cases import case_rounds, failed_cases, failed_projects
from tests.differential.drawing import Jobs
from tests.differential.platform import settings_of, shared_by_many
from tests.differential.searching import Searcher

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
    with shared_by_many():
        yield Searcher(session=lambda: spark, settings=settings, seed=0)


@pytest.mark.parametrize("cases", case_rounds(Jobs.ON_SPARK), ids=lambda cases: cases[0].name)
def test_cases_are_answered_as_was_written(searcher: Searcher, cases: list[Case]) -> None:
    assert failed_cases(searcher, cases) == []


@pytest.mark.parametrize("seed", [1, 2])
def test_what_nobody_wrote_means_the_same_on_spark(searcher: Searcher, seed: int) -> None:
    assert failed_projects(searcher, seed=seed, jobs=Jobs.ON_SPARK, count=20) == []

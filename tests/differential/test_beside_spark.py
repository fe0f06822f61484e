"""On Kafka, stateful jobs give the results of the reference."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.differential.beside_spark import shared_workers
from tests.differential.cases import failed_cases, failed_projects
from tests.differential.drawing import Jobs
from tests.differential.platform import settings_of
from tests.differential.searching import Searcher

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def searcher(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    home = tmp_path_factory.mktemp("beside")
    settings = settings_of(home, bootstrap=kafka_bootstrap, jars_dir=Path())
    with shared_workers():
        yield Searcher(session=_no_spark, settings=settings, seed=0)


def _no_spark() -> object:
    raise AssertionError("no job here runs in Spark")


def test_cases_are_answered_as_was_written(searcher: Searcher) -> None:
    assert failed_cases(searcher, Jobs.BESIDE_SPARK) == []


def test_generated_projects_match_the_reference_beside_spark(searcher: Searcher) -> None:
    assert failed_projects(searcher, seed=1, jobs=Jobs.BESIDE_SPARK, count=100) == []

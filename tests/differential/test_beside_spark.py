"""On Kafka, in jobs with a state of their own, definitions mean what the reference says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from narthex_reference.conformance import Case
from tests.differential.cases import case_rounds, failed_cases, failed_projects
from tests.differential.drawing import Jobs
from tests.differential.platform import settings_of, shared_by_many
from tests.differential.searching import Searcher

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def searcher(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    home = tmp_path_factory.mktemp("beside")
    settings = settings_of(home, bootstrap=kafka_bootstrap, jars_dir=Path())
    with shared_by_many():
        yield Searcher(session=_no_spark, settings=settings, seed=0)


def _no_spark() -> object:
    raise AssertionError("no job here runs in Spark")


@pytest.mark.parametrize("cases", case_rounds(Jobs.BESIDE_SPARK), ids=lambda cases: cases[0].name)
def test_cases_are_answered_as_was_written(searcher: Searcher, cases: list[Case]) -> None:
    assert failed_cases(searcher, cases) == []


@pytest.mark.parametrize("seed", [10, 11, 12, 13])
def test_what_nobody_wrote_means_the_same_beside_spark(searcher: Searcher, seed: int) -> None:
    assert failed_projects(searcher, seed=seed, jobs=Jobs.BESIDE_SPARK, count=25) == []

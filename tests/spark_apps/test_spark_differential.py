"""On Kafka and Spark, live and as backfill, definitions mean what the reference says."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from narthex_reference.conformance import CASES, Case
from tests.differential.cases import project_of, wrong_answer
from tests.differential.drawing import Jobs, from_seeds
from tests.differential.judging import Outcome
from tests.differential.platform import settings_of, shared_by_many
from tests.differential.round import WAYS
from tests.differential.searching import Searcher

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

AT_ONCE = 30


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


ROUNDS = [CASES[at : at + AT_ONCE] for at in range(0, len(CASES), AT_ONCE)]


@pytest.mark.parametrize("cases", ROUNDS, ids=lambda cases: cases[0].name)
def test_cases_are_answered_as_was_written(searcher: Searcher, cases: tuple[Case, ...]) -> None:
    def answered(place: int, outcome: Outcome) -> str | None:
        return wrong_answer(cases[place], outcome)

    asked = [(project_of(case, seed=at), WAYS) for at, case in enumerate(cases)]

    failed = searcher.judged(asked, also=answered)

    assert [f"{cases[one.at].name}, {one.way}: {one.wrong}" for one in failed] == []


@pytest.mark.parametrize("seed", [1, 2])
def test_what_nobody_wrote_means_the_same_everywhere(searcher: Searcher, seed: int) -> None:
    found = itertools.islice(from_seeds(seed, jobs=Jobs.ANY), AT_ONCE)
    drawn = [(f"seed {at}, project {place}", project) for at, place, project in found]

    failed = searcher.judged([(project, WAYS) for _, project in drawn])

    assert [f"{drawn[one.at][0]}, {one.way}: {one.wrong}" for one in failed] == []

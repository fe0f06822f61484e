"""Stateless pipelines pass every conformance case and match the reference."""

import pytest

from narthex_reference.conformance import CASES, ConformanceCase, check
from narthex_reference.engines import reference
from narthex_reference.fuzz import search
from tests.spark_apps.pipelines.stateless_engine import engine_of


def _named(one: ConformanceCase) -> str:
    return one.name


@pytest.mark.slow
@pytest.mark.parametrize("one", CASES, ids=_named)
def test_a_case_is_answered_as_was_written(one: ConformanceCase) -> None:
    check(one, engine_of, orders=3)


@pytest.mark.slow
def test_generated_projects_match_the_reference() -> None:
    found = search(200, 60, judge=reference, engine=engine_of)

    assert found.failure is None
    assert found.tried == 60

"""Stateful trees pass every conformance case, and match the reference on generated projects."""

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from narthex_reference.comparing import differs
from narthex_reference.conformance import CASES, ConformanceCase, check
from narthex_reference.engines import reference
from narthex_reference.generate.project import Project
from narthex_reference.generate.projects import projects
from tests.spark_apps.stateful.stateful_engine import engine_of


def _named(one: ConformanceCase) -> str:
    return one.name


@pytest.mark.parametrize("one", CASES, ids=_named)
def test_a_case_is_answered_as_was_written(one: ConformanceCase) -> None:
    check(one, engine_of, orders=3)


@seed(0)
@settings(
    max_examples=60,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
@given(projects())
def test_generated_projects_match_the_reference(project: Project) -> None:
    assert differs(project, reference, engine_of) is None

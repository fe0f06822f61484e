"""Stateful trees answer every case, and say of generated projects what the reference says."""

import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings

from narthex.entities import Definitions
from narthex.grouped_schemas import is_live
from narthex.operators import Aggregate
from narthex_reference.comparing import differs
from narthex_reference.conformance import CASES, Case, check
from narthex_reference.engines import reference
from narthex_reference.generate.project import Project
from narthex_reference.generate.projects import projects
from tests.spark_apps.stateful_engine import engine_of


def _fades(definitions: Definitions) -> bool:
    """Whether a sum decays in the spans of a group: its log has values of their own instants."""
    return any(
        isinstance(pipeline.terminal, Aggregate)
        and pipeline.terminal.window is not None
        and is_live(pipeline.terminal)
        for dataset in definitions.datasets
        for pipeline in dataset.pipelines
    )


def _named(one: Case) -> str:
    return one.name


@pytest.mark.parametrize("one", [one for one in CASES if not _fades(one.definitions)], ids=_named)
def test_a_case_is_answered_as_was_written(one: Case) -> None:
    check(one, engine_of, orders=3)


@pytest.mark.xfail(strict=True, reason="notimpl: a decaying sum in the spans of a group")
@pytest.mark.parametrize("one", [one for one in CASES if _fades(one.definitions)], ids=_named)
def test_a_case_of_a_sum_that_decays_in_spans_is_answered(one: Case) -> None:
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
def test_generated_projects_mean_what_the_reference_says(project: Project) -> None:
    assume(not _fades(project.definitions))
    assert differs(project, reference, engine_of) is None

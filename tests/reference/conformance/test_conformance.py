"""The cases themselves are definitions that a commit takes, and the reference answers them."""

import pytest

from narthex._analysis.graph import check as check_graph
from narthex.errors import OwnerMissing
from narthex_reference.conformance import CASES, CaseFailed, ConformanceCase, EngineFactory, check
from narthex_reference.conformance.case import case, found, missing, row
from narthex_reference.conformance.shop import Users


def _named(one: ConformanceCase) -> str:
    return one.name


@pytest.mark.parametrize("one", CASES, ids=_named)
def test_the_reference_answers_as_was_written(
    one: ConformanceCase, engine_factory: EngineFactory
) -> None:
    check(one, engine_factory)


@pytest.mark.parametrize("one", CASES, ids=_named)
def test_a_case_is_what_a_commit_would_take(one: ConformanceCase) -> None:
    wrong = [e for e in check_graph(one.definitions) if not isinstance(e, OwnerMissing)]

    assert wrong == []


def test_cases_have_names_of_their_own() -> None:
    assert len({one.name for one in CASES}) == len(CASES)


@pytest.mark.parametrize(
    "ask",
    [
        found(Users, 1, at=10, gives=["fr", 2]),
        found(Users, 1, at=10, gives=["fr", 1.0]),
        found(Users, 1, at=9, gives=["fr", 1]),
        missing(Users, 1, at=10),
    ],
)
def test_a_wrong_answer_is_reported(ask: object, engine_factory: EngineFactory) -> None:
    wrong = case("", [Users], [row(Users, 1, "fr", 1, 10)], ask)  # type: ignore[arg-type]

    with pytest.raises(CaseFailed):
        check(wrong, engine_factory)

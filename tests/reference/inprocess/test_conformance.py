"""The engine of unit tests answers every case as it was written, in every order of arrival."""

import pytest

from narthex_reference.conformance import CASES, ConformanceCase, check
from narthex_reference.inprocess import engine_of


def _named(one: ConformanceCase) -> str:
    return one.name


@pytest.mark.parametrize("one", CASES, ids=_named)
def test_a_case_is_answered_as_was_written(one: ConformanceCase) -> None:
    check(one, engine_of)

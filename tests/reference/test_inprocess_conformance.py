"""The engine of unit tests answers every case as it was written, in every order of arrival."""

import pytest

from narthex.entities import Definitions
from narthex.workers.in_process import InProcessCalls
from narthex_reference.conformance import CASES, Case, check
from narthex_reference.inprocess import InProcessEngine

_CALLS = InProcessCalls()


def _engine(definitions: Definitions) -> InProcessEngine:
    return InProcessEngine(definitions, calls=_CALLS, now_us=lambda: 0)


def _named(one: Case) -> str:
    return one.name


@pytest.mark.parametrize("one", CASES, ids=_named)
def test_a_case_is_answered_as_was_written(one: Case) -> None:
    check(one, _engine)

"""The refusals of the reference, and its answers for keys that were never seen."""

import pytest

from narthex_reference.conformance.aggregate_values import Lists, Numbers, Population
from narthex_reference.conformance.case import case
from narthex_reference.conformance.shop import Orders, Users
from narthex_reference.engines import reference
from narthex_reference.semantics.evaluator import NotAskableError

DEFINITIONS = case("", [Orders, Users, Numbers, Lists, Population], []).definitions


def test_a_key_never_seen_has_the_defaults_of_aggregates_that_have_one() -> None:
    engine = reference(DEFINITIONS)

    assert engine.unseen("Numbers") == (None, -7.0, None, 99.0, None, -1.0, -3.0, None)
    assert engine.unseen("Lists") == (None,) * 9
    assert engine.unseen("Population") == (None, None, None, -1, None, None, None)
    assert engine.unseen("Users") == (None, None)


def test_a_question_without_an_answer_is_refused() -> None:
    engine = reference(DEFINITIONS)

    with pytest.raises(NotAskableError, match="no dataset `Nothing`"):
        engine.facts("Nothing")
    with pytest.raises(NotAskableError, match="no key"):
        engine.lookup("Orders", [(1,)], [0])
    with pytest.raises(NotAskableError, match="filled by a pipeline"):
        engine.append("Numbers", [])

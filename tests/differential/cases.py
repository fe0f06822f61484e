"""Cases of conformance as projects: what was sent by hand, arriving in an order drawn by chance."""

from numpy.random import default_rng

from narthex_reference.conformance import Case, shuffled
from narthex_reference.conformance.checking import differs
from narthex_reference.generate import Project
from tests.differential.judging import Outcome


def project_of(case: Case, *, seed: int) -> Project:
    """Give the definitions and facts of a case."""
    sent = case.facts
    return Project(
        definitions=case.definitions, sent=sent, arrival=shuffled(sent, default_rng(seed))
    )


def wrong_answer(case: Case, outcome: Outcome) -> str | None:
    """Say which answer is not the one that was written by hand; None when all are."""
    wrongs = (differs(ask, outcome) for ask in case.asks)
    return next((wrong for wrong in wrongs if wrong is not None), None)

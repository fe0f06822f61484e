"""Conformance cases with random orders of arrival, and generated projects, for tests."""

import itertools

from numpy.random import default_rng

from narthex._sdk.datasets import dataset_entity
from narthex_reference.conformance import CASES, ConformanceCase, shuffled
from narthex_reference.conformance.case import Ask, ExpectedRows
from narthex_reference.conformance.checking import differs
from narthex_reference.generate import Project
from tests.differential.drawing import Jobs, from_seeds, passes
from tests.differential.judging import Outcome
from tests.differential.searching import Searcher, ways_of


def failed_cases(searcher: Searcher, jobs: Jobs) -> list[str]:
    """Run the cases with such jobs; return those that differ from the reference or the case."""
    cases = [one for one in CASES if passes(one.definitions, jobs)]

    def answered(place: int, outcome: Outcome) -> str | None:
        return wrong_answer(cases[place], outcome)

    asked = [(project_of(case, seed=at), ways_of(at)) for at, case in enumerate(cases)]
    failed = searcher.judged(asked, also=answered)
    return [f"{cases[one.at].name}, {one.way}: {one.wrong}" for one in failed]


def failed_projects(searcher: Searcher, *, seed: int, jobs: Jobs, count: int) -> list[str]:
    """Run generated projects; return those that differ from the reference."""
    drawn = list(itertools.islice(from_seeds(seed, jobs=jobs), count))
    asked = [(project, ways_of(at)) for at, (_, _, project) in enumerate(drawn)]
    failed = searcher.judged(asked)
    names = [f"seed {found}, project {place}" for found, place, _ in drawn]
    return [f"{names[one.at]}, {one.way}: {one.wrong}" for one in failed]


def project_of(case: ConformanceCase, *, seed: int) -> Project:
    """Return the definitions and facts of a case."""
    sent = case.facts
    return Project(
        definitions=case.definitions, sent=sent, arrival=shuffled(sent, default_rng(seed))
    )


def wrong_answer(case: ConformanceCase, outcome: Outcome) -> str | None:
    """Say which answer is not the one that was written by hand; None when all are.

    Lookups that the index refuses, because their rows have expired, have no answer. Whether the
    refusal is right is judged before (`wrong_of`).
    """
    wrongs = (differs(ask, outcome) for ask in case.asks if not _is_refused(ask, outcome))
    return next((wrong for wrong in wrongs if wrong is not None), None)


def _is_refused(ask: Ask, outcome: Outcome) -> bool:
    if isinstance(ask, ExpectedRows):
        return False
    first = outcome.answered_from(dataset_entity(ask.dataset).name)
    return first is not None and ask.as_of < first

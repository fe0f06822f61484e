"""Of forty bugs that are put in one by one, the suites catch at least thirty-eight."""

import sys
from collections.abc import Callable

import pytest

from narthex_reference.conformance import CASES, check
from narthex_reference.inprocess import engine_of
from tests.core.expr import mutants_expr
from tests.core.expr.expr_judge import corpus_failed
from tests.reference.mutants import mutants_aggregates, mutants_engine
from tests.reference.mutants.judges import case_failed, law_failed, project_failed

Check = Callable[[], str | None]
OF = 40
AT_LEAST = 38
SURVIVORS: list[str] = []
"""Bugs that are known not to be caught, each with its reason beside it."""


def _seeded() -> list[tuple[str, Callable[[pytest.MonkeyPatch], None], Check]]:
    return [
        *((one.name, one.put_in, corpus_failed) for one in mutants_expr.MUTANTS),
        *((one.name, one.put_in, law_failed) for one in mutants_aggregates.MUTANTS),
        *(
            (one.name, one.put_in, lambda shows=one.shows: case_failed(shows) or project_failed())
            for one in mutants_engine.MUTANTS
        ),
    ]


def test_without_a_bug_the_suites_hold() -> None:
    assert corpus_failed() is None
    assert law_failed() is None
    assert project_failed() is None
    for one in CASES:
        check(one, engine_of, orders=1)


def test_of_forty_seeded_bugs_thirty_eight_are_caught() -> None:
    seeded = _seeded()
    survivors = []
    for name, put_in, judge in seeded:
        with pytest.MonkeyPatch.context() as monkeypatch:
            put_in(monkeypatch)
            if judge() is None:
                survivors.append(name)
    caught = len(seeded) - len(survivors)

    sys.stdout.write(f"seeded {len(seeded)}, caught {caught}, survivors {survivors}\n")

    assert len({name for name, _, _ in seeded}) == len(seeded) >= OF
    assert caught * OF >= AT_LEAST * len(seeded)
    assert survivors == SURVIVORS

"""The comparison accepts a refused lookup only where the index may have deleted its rows."""

import attrs

from narthex_reference.conformance import CASES
from narthex_reference.conformance.case import SECOND
from tests.differential.cases import project_of
from tests.differential.judging import ReferenceAnswers, wrong_refusal

DISORDER = 5 * SECOND
FIRST = 85 * SECOND
"""The watermark of the case, 95 s, less its history of 10 s."""


def test_an_index_that_refuses_later_lookups_than_its_history_allows_is_found() -> None:
    name = "a history ends at the watermark, so that old rows are found long after"
    project = project_of(next(one for one in CASES if one.name == name), seed=0)
    (visits,) = project.definitions.datasets
    judge = ReferenceAnswers.of(project)
    without = attrs.evolve(visits, history_us=None)

    assert wrong_refusal(visits, judge, FIRST, disorder_us=DISORDER) is None
    assert "must answer from" in (
        wrong_refusal(visits, judge, FIRST + 1, disorder_us=DISORDER) or ""
    )
    assert "has no history" in (wrong_refusal(without, judge, FIRST, disorder_us=DISORDER) or "")


def test_an_index_whose_only_row_was_deleted_at_its_instant_may_refuse_all_lookups() -> None:
    name = "a history ends at the watermark, so that old rows are found long after"
    project = project_of(next(one for one in CASES if one.name == name), seed=0)
    (visits,) = project.definitions.datasets
    dataset, row = project.sent[0]
    deleted = attrs.evolve(row, version=row.version + b"\x01", alive=False)
    only_deleted = attrs.evolve(project, sent=((dataset, row), (dataset, deleted)))

    judge = ReferenceAnswers.of(only_deleted)

    assert judge.facts(dataset) == ()
    assert wrong_refusal(visits, judge, FIRST, disorder_us=DISORDER) is None

"""Rows that sources must reject: each has the one fault that it was given."""

import itertools

import pytest
from numpy.random import default_rng

from narthex._ir.entities import Dataset
from narthex._ir.facts import Fact, Position
from narthex_reference.generate import Project
from tests.differential.connecting import read_by_a_job
from tests.differential.drawing import Jobs, from_seeds
from tests.differential.spoiled_rows import NO_OBJECT, Rejection, SpoiledRow, spoiled_rows

pytestmark = pytest.mark.slow

PLACE = Position(source_id="s", partition=0, offset=0, ordinal=0)


@pytest.fixture(scope="module")
def spoiled() -> list[tuple[Dataset, SpoiledRow]]:
    """Return rows that the sources of some projects must reject, drawn again and again."""
    rng = default_rng(0)
    return [
        (dataset, row)
        for _, _, project in itertools.islice(from_seeds(0, jobs=Jobs.ANY), 150)
        for dataset in filter(read_by_a_job, project.definitions.datasets)
        for _ in range(10)
        for row in spoiled_rows(dataset, facts_of(project, dataset), rng)
    ]


def facts_of(project: Project, dataset: Dataset) -> list[Fact]:
    return [fact for name, fact in project.sent if name == dataset.name]


def test_a_spoiled_row_is_rejected_for_the_field_that_was_spoiled(
    spoiled: list[tuple[Dataset, SpoiledRow]],
) -> None:
    assert len(spoiled) > 100
    for dataset, row in spoiled:
        found = Rejection.of(row, PLACE, dataset)
        assert found.field == row.field
        assert (found.reason == NO_OBJECT) == (row.field is None)
        assert "; `" not in found.reason


def test_rows_are_spoiled_in_all_ways(spoiled: list[tuple[Dataset, SpoiledRow]]) -> None:
    reasons = " ".join(Rejection.of(row, PLACE, dataset).reason for dataset, row in spoiled)

    for of in ("int", "float", "bool", "str", "datetime", "Decimal[2]", "List[Optional[int]]"):
        assert f"`{of}`" in reasons
    for part in ("found null", "64 bits", "a day is", "half a character", "item 0", "found op `t`"):
        assert part in reasons
    assert "it breaks s0v0: expect_column_" in reasons
    assert NO_OBJECT in reasons

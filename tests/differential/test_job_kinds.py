"""Each kind of job on the page of carriers is in one of twenty generated projects, at least."""

import itertools
from collections import Counter

import pytest

from tests.differential.drawing import Jobs, from_seeds
from tests.differential.job_kinds import (
    LEAST_PROJECTS,
    NOT_DRAWN,
    count_kinds,
    rare_kinds,
    table_of,
    wanted_kinds,
)

pytestmark = pytest.mark.slow

PROJECTS = 300


def test_no_kind_of_job_is_rare() -> None:
    drawn = itertools.islice(from_seeds(0, jobs=Jobs.ANY), PROJECTS)

    counts = count_kinds(project.definitions for _, _, project in drawn)

    assert rare_kinds(counts, projects=PROJECTS) == (), table_of(counts, projects=PROJECTS)
    # A kind that is drawn and unknown to the page would be judged by nobody.
    assert counts.keys() <= wanted_kinds()


def test_a_kind_that_no_project_has_is_rare_from_a_number_of_projects_on() -> None:
    often = Counter(dict.fromkeys(wanted_kinds(), LEAST_PROJECTS))
    missing = often - Counter({"aggregate Sum, live": LEAST_PROJECTS})

    assert rare_kinds(often, projects=LEAST_PROJECTS) == ()
    assert rare_kinds(missing, projects=LEAST_PROJECTS) == ("aggregate Sum, live",)
    assert rare_kinds(missing, projects=LEAST_PROJECTS - 1) == ()


def test_parts_that_are_not_drawn_are_in_the_table_with_a_reason() -> None:
    table = table_of(Counter(), projects=0)

    for part, reason in NOT_DRAWN.items():
        assert f"{part}: {reason}" in table

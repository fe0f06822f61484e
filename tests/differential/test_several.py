"""Several runs beside each other are one run with more projects."""

from typing import Any

import pytest

from tests.differential.several import shares, united


@pytest.mark.parametrize(
    ("projects", "processes", "expected"),
    [(1000, 3, [334, 333, 333]), (2, 3, [1, 1, 0]), (40, 1, [40])],
)
def test_projects_are_divided_evenly(projects: int, processes: int, expected: list[int]) -> None:
    assert shares(projects, processes) == expected


def report(projects: int, *, differ: list[str], kinds: dict[str, int]) -> dict[str, Any]:
    return {
        "projects": projects,
        "seeds": [0, 3],
        "differ": differ,
        "seconds": 10.0 * projects,
        "spent": {"work": 5.0},
        "counts": {"live": projects},
        "steps": {"filter": 1},
        "kinds": kinds,
        "rare": [],
        "cpu_seconds": 2.0,
    }


def test_reports_are_united() -> None:
    whole = united(
        [
            report(40, differ=["1_2_live"], kinds={"a": 3}),
            report(30, differ=[], kinds={"a": 2, "b": 9}),
        ]
    )

    assert whole == {
        "projects": 70,
        "seeds": [0, 3, 0, 3],
        "differ": ["1_2_live"],
        "seconds": 400.0,
        "spent": {"work": 10.0},
        "counts": {"live": 70},
        "steps": {"filter": 2},
        "kinds": {"b": 9, "a": 5},
        "cpu_seconds": 4.0,
    }

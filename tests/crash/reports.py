"""Reports of crash tests: of several processes, and for people."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.crash.points import OutcomeColumn

Report = Mapping[str, Any]
"""The result of `Matrix.plain`, with the seconds that all runs took."""


def united(reports: Sequence[Report]) -> dict[str, Any]:
    """Unite reports: numbers are added, lists joined; the seconds are those of the longest run."""
    points: dict[str, Counter[str]] = {}
    scenarios: Counter[str] = Counter()
    for report in reports:
        scenarios.update(report["scenarios"])
        for name, row in report["points"].items():
            points.setdefault(name, Counter()).update(row)
    return {
        "runs": sum(report["runs"] for report in reports),
        "pairs": sum(report["pairs"] for report in reports),
        "seconds": max(report["seconds"] for report in reports),
        "points": {name: dict(row) for name, row in sorted(points.items())},
        "scenarios": dict(scenarios),
        "failed": [*itertools.chain.from_iterable(report["failed"] for report in reports)],
        "missed": [*itertools.chain.from_iterable(report["missed"] for report in reports)],
    }


def lines(report: Report) -> Iterator[str]:
    """Render for people: a row per point, a column per knowledge of its effect."""
    points = report["points"]
    columns = [column.value for column in OutcomeColumn]
    width = max((len(name) for name in points), default=5) + 2
    yield "point".ljust(width) + "".join(column.rjust(10) for column in columns)
    for name, row in points.items():
        yield name.ljust(width) + "".join(str(row[c] or "-").rjust(10) for c in columns)
    total = (sum(row[c] for row in points.values()) for c in columns)
    yield "all".ljust(width) + "".join(str(count).rjust(10) for count in total)
    for name, count in report["scenarios"].items():
        yield f"  {name}: {count}"
    failed, missed = report["failed"], report["missed"]
    runs, pairs, seconds = report["runs"], report["pairs"], report["seconds"]
    yield (
        f"{runs} runs, {pairs} of them with two faults, in {seconds:.0f} s;"
        f" {len(failed)} broke a promise, {len(missed)} missed their fault"
    )
    for outcome in (*failed[:10], *missed[:3]):
        yield f"  {outcome}"

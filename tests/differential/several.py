"""Several runs beside each other, each with its own broker and Spark, whose reports are united.

A single run waits for most of its time: for brokers, for queries to start, for Spark to plan.
"""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, Final

SEEDS_EACH: Final = 10_000
"""The distance between the first seeds of two runs: more seeds than a run draws from."""


def shares(projects: int, processes: int) -> list[int]:
    """Divide projects among processes, as evenly as possible."""
    return [projects // processes + (number < projects % processes) for number in range(processes)]


def run_several(
    arguments: Sequence[str], *, projects: int, processes: int, seed: int
) -> list[Mapping[str, Any]]:
    """Run several processes of `tests.differential`; return their reports.

    Args:
        arguments: Their other arguments.
        projects: The number of projects of all of them.
        processes: The number of processes.
        seed: The first seed of the first one.

    Raises:
        ChildProcessError: One of them ended without a report.
    """
    runs: list[subprocess.Popen[str]] = []
    readers: list[threading.Thread] = []
    for number, count in enumerate(shares(projects, processes)):
        run = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.differential", *arguments, "--processes", "1"),
                *("--json", "--n", str(count), "--seed", str(seed + number * SEEDS_EACH)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        reader = threading.Thread(target=_pass_on, args=(run.stderr, f"[{number + 1}] "))
        reader.start()
        runs.append(run)
        readers.append(reader)
    outputs = _outputs(runs)
    for reader in readers:
        reader.join()
    lost = [number + 1 for number, lines in enumerate(outputs) if not lines]
    if lost:
        raise ChildProcessError(f"runs {lost} ended without a report")
    return [json.loads(lines[-1]) for lines in outputs]


def _outputs(runs: Iterable[subprocess.Popen[str]]) -> list[list[str]]:
    found: list[list[str]] = []
    for run in runs:
        assert run.stdout is not None
        found.append(run.stdout.read().splitlines())
        run.wait()
    return found


def _pass_on(lines: IO[str] | None, prefix: str) -> None:
    for line in lines or ():
        sys.stderr.write(prefix + line)


def united(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Unite reports: numbers are added, lists joined; the seconds are those of the longest run."""
    whole: dict[str, Any] = {
        "projects": sum(one["projects"] for one in reports),
        "seeds": [seed for one in reports for seed in one["seeds"]],
        "differ": [name for one in reports for name in one["differ"]],
        "seconds": max(one["seconds"] for one in reports),
        "cpu_seconds": round(sum(one["cpu_seconds"] for one in reports), 1),
    }
    for name in ("spent", "counts", "steps", "kinds"):
        total: Counter[str] = Counter()
        for one in reports:
            total.update(one[name])
        whole[name] = dict(total.most_common())
    return whole

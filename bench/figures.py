"""Quantiles, and the table in which a benchmark prints them beside its targets."""

import csv
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

RAW = Path(__file__).resolve().parents[1] / "build" / "bench"


def quantile(values: Sequence[float], p: float) -> float:
    """Return the quantile `p`: the least value that this share does not exceed; nan if empty."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(p * len(ordered)))]


def show(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on stderr; the first column is text, the others are figures."""
    table = Table(title=title)
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    Console(stderr=True, width=120).print(table)


def keep_raw(name: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write every single measurement as CSV below `build/bench`; return the path."""
    RAW.mkdir(parents=True, exist_ok=True)
    path = RAW / f"{name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)
    return str(path)


def report_result(name: str, result: Mapping[str, object]) -> None:
    """Print the result of a bench as JSON on stdout, and store it beside its measurements."""
    RAW.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result)
    (RAW / f"{name}.json").write_text(text)
    print(text)


def best_s(work: Callable[[], object]) -> float:
    """Return the least CPU time of three runs, in seconds."""
    took: list[float] = []
    for _ in range(3):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took)


def tree_cpu_s(root: int) -> float:
    """Return the CPU seconds of a process and its descendants, including ended ones."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            ticks[int(path.parent.name)] = sum(map(int, fields[11:15]))
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(ticks.get(pid, 0) for pid in below) / os.sysconf("SC_CLK_TCK")


def load_average() -> float:
    """Return the load average: the figures of a busy machine mean little."""
    return round(os.getloadavg()[0], 1)

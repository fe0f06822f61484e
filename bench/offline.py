"""Measure an offline query of a keyed dataset beside as-of joins by hand.

The history has the states of users' profiles; each question is a user as of an instant. Every
contender reads the same Parquet files, keeps the order of the questions and writes a Parquet file.
They run in turn, in processes of their own; each answers twice, because a process that runs for
long has all modules, and the second time counts. The best run of each counts. Narthex also converts
the instants from text, reads the offsets of the history, checks that no two states are at one
instant of a user, and distinguishes absences from null values; the others get instants as integers.
All answers are first compared with those of a search one by one: a wrong run is void. Prints a
table and one line of JSON.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.figures import keep_raw, load_average, report_result, show
from bench.peers import peers_python
from bench.profiles import answers, expected, questions, states, write
from bench.tallies import Spent, contend

OURS, POLARS, DUCKDB = "narthex", "polars", "duckdb"
TARGET = 1.5
"""Our CPU time may be this many times that of DuckDB."""


def measure(directory: Path, count: int, runs: int) -> dict[str, list[Spent]]:
    """Run the contenders in turn."""
    peers = str(peers_python())
    found: dict[str, list[Spent]] = {}
    for _ in range(runs):
        for name in (OURS, POLARS, DUCKDB):
            module = f"bench.contenders.{name}_asof"
            arguments = (str(directory), str(count))
            spent = (
                contend(module, *arguments, python=peers)
                if name == DUCKDB
                else contend(module, *arguments)
            )
            found.setdefault(name, []).append(spent)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the bench.

    Raises:
        SystemExit: The answers of a contender are wrong.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.offline")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=100_000)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    frame = states(options.rows, options.users)
    asked = questions(options.questions, options.users)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write(directory, frame, asked)
        runs = measure(directory, asked.height, options.runs)
        meant = expected(frame, asked)
        wrong = [one for one in runs if answers(directory / f"{one}.parquet") != meant]
    if wrong:
        raise SystemExit(f"the answers of {', '.join(wrong)} are wrong; the run is void")
    report({name: min(spent, key=lambda one: one.cpu_s) for name, spent in runs.items()})
    every = [[name, one.cpu_s, one.wall_s] for name, spent in runs.items() for one in spent]
    keep_raw("offline", ["contender", "cpu_s", "wall_s"], every)


def report(best: dict[str, Spent]) -> None:
    """Print the figures of the best runs."""
    ratio = best[OURS].cpu_s / best[DUCKDB].cpu_s
    rows = [
        [name, f"{one.cpu_s:.2f}", f"{one.wall_s:.2f}", f"{one.cpu_s / best[DUCKDB].cpu_s:.2f}"]
        for name, one in best.items()
    ]
    show(f"offline (target: {TARGET} of DuckDB's CPU)", ["", "CPU s", "s", "of DuckDB's CPU"], rows)
    figures = {name: {"cpu_s": one.cpu_s, "wall_s": one.wall_s} for name, one in best.items()}
    report_result("offline", {"load": load_average(), "ratio": ratio, **figures})


if __name__ == "__main__":
    main()

"""Measure an offline query of keyed datasets beside as-of joins by hand and Feast.

python -m bench.offline [--rows 1000000] [--questions 100000] [--datasets 5] [--runs 3]
python -m bench.offline --rows 10000000 --questions 1000000 --users 100000 --spark cluster --runs 1

The histories have the states of users' profiles; each question is a user as of an instant. Every
contender reads Parquet files (DuckDB, Polars and Narthex the same ones), keeps the order of the
questions and writes a Parquet file. They run in turn, in processes of their own; each answers
twice, because a process that runs for long has all modules, and the second time counts. The best
run of each counts. Narthex also converts the instants from text, reads the offsets of the
histories, checks that no two states are at one instant of a user, and distinguishes absences from
null values; the others get instants as integers. All answers are first compared with those of a
binary search: a wrong run is void. `--spark` answers on Spark's executors instead of in the driver,
and counts the CPU time of all processes. Prints a table and one line of JSON.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import polars as pl

from bench.figures import keep_raw, load_average, report_result, show
from bench.peers import feast_python, peers_python
from bench.profiles import expected, questions, states, write_history, write_spine
from bench.running import say
from bench.tallies import Spent, contend
from narthex_spark_apps.offline.bucket_job import BUCKET_BYTES
from narthex_spark_apps.offline.columnar_lookups import HELD_BYTES

OURS, ON_SPARK, POLARS, DUCKDB, FEAST = "narthex", "narthex_on_spark", "polars", "duckdb", "feast"
TARGET = 1.5
"""Our CPU time may be this many times that of DuckDB."""

PROCESSES = "processes.json"
"""CPU and memory of each kind of process on Spark, as the contender writes them."""

MIB = 1 << 20


def prepare(directory: Path, options: argparse.Namespace) -> pl.DataFrame:
    """Write histories and spine; return the expected answers."""
    asked = questions(options.questions, options.users)
    write_spine(directory, asked)
    files: list[list[str]] = []
    answers = [asked["user"].alias("Profile.user")]
    for number in range(options.datasets):
        frame = states(options.rows, options.users, number)
        files.append(write_history(directory, number, frame))
        answers += expected(frame, number, asked)
    (directory / "files.json").write_text(json.dumps(files))
    return pl.DataFrame(answers)


def measure(directory: Path, options: argparse.Namespace) -> dict[str, list[Spent]]:
    """Run the contenders in turn."""
    contenders = {
        OURS: ("narthex_asof", sys.executable, ()),
        ON_SPARK: ("narthex_asof_spark", sys.executable, (options.spark,)),
        POLARS: ("polars_asof", sys.executable, ()),
        DUCKDB: ("duckdb_asof", str(peers_python()), ()),
        FEAST: ("feast_asof", str(feast_python()), ()),
    }
    without = {ON_SPARK} if options.spark is None else {OURS}
    arguments = (str(directory), str(options.datasets), str(options.questions))
    found: dict[str, list[Spent]] = {}
    for _ in range(options.runs):
        for name, (module, python, more) in contenders.items():
            if name in {*without, *options.without}:
                continue
            say(f"{name}: {options.rows:,} states, {options.questions:,} questions")
            spent = contend(f"bench.contenders.{module}", *arguments, *more, python=python)
            found.setdefault(name, []).append(spent)
    return {name: found[name] for name in contenders if name in found}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the bench.

    Raises:
        SystemExit: The answers of a contender are wrong.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.offline")
    parser.add_argument("--rows", type=int, default=1_000_000, help="states of a dataset")
    parser.add_argument("--questions", type=int, default=100_000)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--datasets", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--spark",
        choices=("cluster", "local"),
        help="answer on executors, and not in the driver",
    )
    parser.add_argument("--without", nargs="*", default=(), choices=(POLARS, FEAST))
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        meant = prepare(directory, options)
        runs = measure(directory, options)
        wrong = [
            one for one in runs if not pl.read_parquet(directory / f"{one}.parquet").equals(meant)
        ]
        processes = directory / PROCESSES
        by_process = json.loads(processes.read_text()) if processes.exists() else {}
    if wrong:
        raise SystemExit(f"the answers of {', '.join(wrong)} are wrong; the run is void")
    title = f"{options.rows:,} states x {options.questions:,} questions x {options.datasets}"
    report(
        title, {name: min(spent, key=lambda s: s.cpu_s) for name, spent in runs.items()}, by_process
    )
    every = [
        [name, one.cpu_s, one.wall_s, one.peak_mb] for name, spent in runs.items() for one in spent
    ]
    keep_raw("offline", ["contender", "cpu_s", "wall_s", "peak_mb"], every)


def report(
    title: str, best: Mapping[str, Spent], by_process: Mapping[str, Mapping[str, float]]
) -> None:
    """Print the figures of the best runs."""
    base = best[DUCKDB].cpu_s
    rows = [
        [
            name,
            f"{one.cpu_s:.2f}",
            f"{one.wall_s:.2f}",
            f"{one.peak_mb:,.0f}",
            f"{one.cpu_s / base:.2f}",
        ]
        for name, one in best.items()
    ]
    head = ["", "CPU s", "s", "MB of a process", "of DuckDB's CPU"]
    show(f"offline: {title} (target: {TARGET} of DuckDB's CPU)", head, rows)
    if by_process:
        processes = [
            [name, f"{one['cpu_s']:.2f}", f"{one['peak_mb']:,.0f}"]
            for name, one in by_process.items()
        ]
        show("the processes of each kind on Spark", ["", "CPU s", "MB of one"], processes)
    say(
        f"bounds: states of at most {HELD_BYTES / MIB:.0f} MiB are joined in a driver, "
        f"and of about {BUCKET_BYTES / MIB:.0f} MiB in a bucket"
    )
    ours = next(name for name in (ON_SPARK, OURS) if name in best)
    measured = attrs.filters.include("cpu_s", "wall_s", "peak_mb")
    figures = {name: attrs.asdict(one, filter=measured) for name, one in best.items()}
    report_result(
        "offline",
        {
            "what": title,
            "load": load_average(),
            "ratio": best[ours].cpu_s / base,
            "on_spark_by_process": by_process,
            **figures,
        },
    )


if __name__ == "__main__":
    main()

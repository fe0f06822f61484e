"""Polars by hand: as-of joins of Parquet files, in the order of the questions.

python -m bench.contenders.polars_asof DIRECTORY DATASETS QUESTIONS
"""

import json
import sys
from pathlib import Path

import polars as pl

from bench.contenders.stopwatch import Stopwatch

VALUES = ("country", "balance", "score")


def answer(directory: Path, datasets: int) -> None:
    """Answer the questions."""
    files = json.loads((directory / "files.json").read_text())
    joined = pl.scan_parquet(directory / "spine.parquet").select("Profile.user", "at", "row")
    joined = joined.sort("at")
    for number in range(datasets):
        states = pl.scan_parquet(files[number]).select(
            pl.col("k_user").alias("Profile.user"),
            pl.col("event_time").alias(f"since_{number}"),
            *(pl.col(f"v_{name}").alias(f"Profile.{name}_{number}") for name in VALUES),
        )
        joined = joined.join_asof(
            states.sort(f"since_{number}"),
            left_on="at",
            right_on=f"since_{number}",
            by="Profile.user",
            check_sortedness=False,
        )
    names = [f"Profile.{name}_{number}" for number in range(datasets) for name in VALUES]
    found = joined.sort("row").select("Profile.user", *names)
    found.collect().write_parquet(directory / "polars.parquet")


def main() -> None:
    """Answer twice, and measure the second time."""
    directory, datasets, questions = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    answer(directory, datasets)
    watch = Stopwatch()
    answer(directory, datasets)
    watch.print_figures(questions)


if __name__ == "__main__":
    main()

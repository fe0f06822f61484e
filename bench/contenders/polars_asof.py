"""Polars by hand: an as-of join of Parquet files, in the order of the questions.

python -m bench.contenders.polars_asof DIRECTORY QUESTIONS
"""

import json
import sys
from pathlib import Path

import polars as pl

from bench.contenders.tiles import Stopwatch

VALUES = ("country", "balance", "score")


def answer(directory: Path) -> None:
    """Answer the questions."""
    states = pl.scan_parquet(json.loads((directory / "files.json").read_text())).select(
        pl.col("k_user").alias("Profile.user"),
        "event_time",
        *(pl.col(f"v_{name}").alias(f"Profile.{name}") for name in VALUES),
    )
    spine = pl.scan_parquet(directory / "spine.parquet").select("Profile.user", "at", "row")
    joined = spine.sort("at").join_asof(
        states.sort("event_time"),
        left_on="at",
        right_on="event_time",
        by="Profile.user",
        check_sortedness=False,
    )
    found = joined.sort("row").select("Profile.user", *(f"Profile.{name}" for name in VALUES))
    found.collect().write_parquet(directory / "polars.parquet")


def main() -> None:
    """Answer twice, and measure the second time."""
    directory, questions = Path(sys.argv[1]), int(sys.argv[2])
    answer(directory)
    watch = Stopwatch()
    answer(directory)
    watch.print_figures(questions)


if __name__ == "__main__":
    main()

"""The floor: Polars groups rows that are in memory, and stores nothing.

python -m bench.contenders.polars_tiles stream|batch DIRECTORY
"""

import sys
import time
from pathlib import Path

import polars as pl

from bench.tallies import (
    WINDOWS,
    Spent,
    cpu_of_tree,
    index_spec,
    peak_mb_of_tree,
    print_figures,
    rows_path,
    tumbled,
)


def main() -> None:
    """Group the rows by the windows, or by the tiles of the ladder."""
    how, directory = sys.argv[1], Path(sys.argv[2])
    rows = pl.read_parquet(rows_path(directory))
    lengths = tuple(WINDOWS.values()) if how == "stream" else index_spec().ladder_us
    began, cpu_began = time.monotonic(), cpu_of_tree()
    found = tumbled(rows, lengths)
    cpu_s, wall_s = cpu_of_tree() - cpu_began, time.monotonic() - began
    correct = int(found["count"].sum()) == rows.height * len(lengths)
    print_figures(
        Spent(
            rows=rows.height,
            cpu_s=cpu_s,
            wall_s=wall_s,
            peak_mb=peak_mb_of_tree(),
            correct=correct,
        )
    )


if __name__ == "__main__":
    main()

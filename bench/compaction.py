"""Measure how long a history's writes take while it is compacted; print a table and a line of JSON.

python -m bench.compaction [--writes 600] [--rows 200]

Writes small files to two histories, as the history writer does. One is compacted between writes,
as the writer did before, and one beside them. Reports the longest and the mean time from the
beginning of a write to that of the next one, and the most files at a time.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial

import attrs

from bench.figures import report_result
from bench.index import LOG, make_facts
from narthex._ir import HistorySpec
from narthex_spark_apps.writers.compactions import COMPACT_EACH, Compactions
from narthex_stores import HistoryAdapter, HistoryTable, LogRow, history_path


@attrs.define(eq=False)
class Feed:
    """A history that is written, as `Compactions` sees it."""

    open_table: Callable[[], HistoryTable]
    topic: str = "payments"
    small_files: int = 0


def written(
    feed: Feed, rows: Sequence[LogRow], *, writes: int, each: int, compact: Callable[[], None]
) -> dict[str, float]:
    """Write files; compact after each write, if it is time."""
    table = feed.open_table()
    turns: list[float] = []
    most = 0
    for number in range(writes):
        began = time.monotonic()
        first = number * each
        table.append_rows(rows[first : first + each])
        feed.small_files += 1
        compact()
        turns.append(time.monotonic() - began)
        if number % 10 == 0:
            most = max(most, len(table.files()))
    if table.offsets() != {0: writes * each}:
        raise SystemExit("rows are missing")
    return {
        "longest turn, ms": 1e3 * max(turns),
        "mean turn, ms": 1e3 * statistics.mean(turns),
        "most files": float(most),
    }


def between_writes(feed: Feed, every: int) -> None:
    """Compact a history here and now, if it has enough small files."""
    if feed.small_files >= every:
        feed.small_files = 0
        feed.open_table().compact()


def run(rows: Sequence[LogRow], *, writes: int, each: int, every: int | None) -> dict[str, float]:
    """Write one history; compact it after so many files, or beside the writes."""
    spec = HistorySpec(log=LOG)
    with tempfile.TemporaryDirectory() as directory:
        HistoryAdapter(history_dir=directory).create("nx_history", spec, asset_id=1, timeout_s=10.0)
        feed = Feed(partial(HistoryTable, history_path(directory, "nx_history"), spec, storage={}))
        compactions = Compactions()
        compact = (
            partial(compactions.begin_next, {1: feed})
            if every is None
            else partial(between_writes, feed, every)
        )
        figures = written(feed, rows, writes=writes, each=each, compact=compact)
        compactions.wait()
    return figures


def main() -> None:
    """Compare both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=600)
    parser.add_argument("--rows", type=int, default=200, help="rows of a write")
    args = parser.parse_args()
    facts = make_facts(args.writes * args.rows, keys=1_000, days=1)
    rows = [LogRow(0, offset, fact) for offset, fact in enumerate(facts)]
    ways = {"between writes, every 500 files": 500, "between writes": COMPACT_EACH, "beside": None}
    figures: dict[str, dict[str, float]] = {}
    for name, every in ways.items():
        figures[name] = run(rows, writes=args.writes, each=args.rows, every=every)
        print(f"{name:32}", {n: round(v, 1) for n, v in figures[name].items()})
    report_result("compaction", figures)


if __name__ == "__main__":
    main()

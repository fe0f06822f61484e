"""Measure what it costs to make many indexes durable; print a table and one line of JSON.

python -m bench.index_flushes [--indexes 500] [--seconds 10]

Writes single facts to some of the indexes and flushes them in turns, as the index writer does, and
beside it all of them every second. Reports the share of the time in flushes and the longest pause
of the loop. Put the temporary directory (`TMPDIR`) on the disk to be measured.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs

from bench.figures import report_result
from bench.index import index_spec, make_facts
from narthex_spark_apps.writers.index_writer import FLUSH_AFTER_S, FLUSHING_SHARE
from narthex_spark_apps.writers.turns import Turns
from narthex_stores.indexes import LmdbIndex


@attrs.define(eq=False)
class Flushed:
    """The indexes of a run, and what their flushes have cost so far."""

    indexes: Sequence[LmdbIndex]
    since: dict[int, float] = attrs.field(factory=dict)
    turns: Turns = attrs.field(factory=lambda: Turns(FLUSHING_SHARE))
    spent_s: float = 0.0
    longest_s: float = 0.0
    all_at: float = 0.0

    def in_turns(self) -> None:
        """Flush one index with new batches, if one is due."""
        now = time.monotonic()
        due = self.turns.next(
            {at: since for at, since in self.since.items() if now - since >= FLUSH_AFTER_S}, now
        )
        if due is not None:
            self._flush([due])
            self.turns.spent(time.monotonic() - now, time.monotonic())

    def all_together(self) -> None:
        """Flush all indexes, every second."""
        if time.monotonic() - self.all_at >= 1.0:
            self.all_at = time.monotonic()
            self._flush(range(len(self.indexes)))

    def _flush(self, chosen: Sequence[int]) -> None:
        began = time.monotonic()
        for at in chosen:
            self.indexes[at].sync()
            self.since.pop(at, None)
        took = time.monotonic() - began
        self.spent_s += took
        self.longest_s = max(self.longest_s, took)


@contextmanager
def opened(count: int) -> Iterator[list[LmdbIndex]]:
    """Create empty indexes."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        indexes: list[LmdbIndex] = []
        for number in range(count):
            path = Path(directory) / str(number)
            path.mkdir()
            indexes.append(LmdbIndex(path, index_spec(("1h",))))
            stack.callback(indexes[-1].close)
        yield indexes


def run(
    indexes: Sequence[LmdbIndex], *, busy: int, seconds: float, way: Callable[[Flushed], None]
) -> dict[str, float]:
    """Write to some indexes, one fact a turn, and flush."""
    facts = make_facts(20_000, keys=100, days=1)
    flushed = Flushed(indexes)
    began = time.monotonic()
    turn = 0
    while time.monotonic() - began < seconds:
        if busy:
            indexes[turn % busy].apply(
                [facts[turn % len(facts)]], offsets={("log", 0): turn}, epoch=1
            )
            flushed.since.setdefault(turn % busy, time.monotonic())
        else:
            time.sleep(0.005)
        way(flushed)
        turn += 1
    took = time.monotonic() - began
    return {
        "in flushes, percent": 100 * flushed.spent_s / took,
        "longest pause, ms": 1e3 * flushed.longest_s,
        "turns a second": turn / took,
    }


def main() -> None:
    """Measure idle and busy indexes, flushed in turns and all together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--indexes", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    with opened(args.indexes) as indexes:
        for busy in (0, args.indexes // 50, args.indexes):
            for name, way in (("together", Flushed.all_together), ("in turns", Flushed.in_turns)):
                label = f"{busy} of {args.indexes} indexes busy, {name}"
                figures[label] = run(indexes, busy=busy, seconds=args.seconds, way=way)
                print(f"{label:40}", {n: round(v, 1) for n, v in figures[label].items()})
    report_result("index_flushes", figures)


if __name__ == "__main__":
    main()

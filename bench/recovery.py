"""Measure a copy of an index and the recovery of a lost one; print a table and one line of JSON.

Each run writes an index, takes a snapshot of it, writes a tail, loses the directory, restores the
snapshot and applies the tail again. The restored index must answer as the lost one did. The table
also shows the time to apply everything again, which a snapshot saves.
"""

import argparse
import datetime as dt
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
from pyarrow import fs

from bench.figures import keep_raw, load_average, report_result, show
from bench.index import index_spec, make_facts
from narthex._ir.assets import IndexSpec
from narthex._ir.facts import Fact
from narthex_stores import LmdbIndex, SnapshotStore

NAME = "nx_bench"
BATCH = 20_000
TAIL = 0.05
"""The share of the facts that came after the snapshot: five minutes of a hundred."""
ASKED = 500
HEAD = ("facts", "MB", "copy s", "restore s", "tail s", "back after s", "all again s")


@attrs.frozen(kw_only=True)
class Recovery:
    """The wall-clock seconds of one run."""

    facts: int
    size_mb: float
    copy_s: float
    restore_s: float
    tail_s: float
    again_s: float

    @property
    def back_s(self) -> float:
        return self.restore_s + self.tail_s

    @property
    def cells(self) -> tuple[float, ...]:
        return (
            self.facts,
            self.size_mb,
            self.copy_s,
            self.restore_s,
            self.tail_s,
            self.back_s,
            self.again_s,
        )


def apply(path: Path, spec: IndexSpec, facts: Sequence[Fact]) -> float:
    """Apply facts to an index in batches; return the seconds that it took."""
    began = time.perf_counter()
    index = LmdbIndex(path, spec)
    for start in range(0, len(facts), BATCH):
        index.apply(facts[start : start + BATCH], offsets={("payments", 0): start + BATCH}, epoch=1)
    index.close()
    return time.perf_counter() - began


def answers(path: Path, spec: IndexSpec, *, keys: int, at: int) -> list[object]:
    """Look up many keys."""
    index = LmdbIndex(path, spec, readonly=True)
    asked = [(f"user-{number % keys}",) for number in range(ASKED)]
    with index.read() as reader:
        found: list[object] = list(reader.lookup(asked, [at] * ASKED))
    index.close()
    return found


def measure(count: int, *, keys: int) -> Recovery:
    """Delete an index of `count` facts and restore it."""
    spec = index_spec(("1m", "1h", "1d", "30d"))
    facts = make_facts(count, keys=keys, days=30.0)
    tail_from = int(count * (1 - TAIL))
    at = facts[-1].event_time
    with tempfile.TemporaryDirectory() as home:
        path, again = Path(home) / NAME, Path(home) / "again"
        path.mkdir()
        again.mkdir()
        store = SnapshotStore(fs.LocalFileSystem(), f"{home}/kept")
        apply(path, spec, facts[:tail_from])
        began = time.perf_counter()
        taken = store.take(NAME, path, at=dt.datetime.now(tz=dt.UTC), describe=lambda _: {})
        copy_s = time.perf_counter() - began
        apply(path, spec, facts[tail_from:])
        lost = answers(path, spec, keys=keys, at=at)
        shutil.rmtree(path)

        began = time.perf_counter()
        store.restore(store.find(NAME), path)
        restore_s = time.perf_counter() - began
        tail_s = apply(path, spec, facts[tail_from:])
        again_s = apply(again, spec, facts)
        if answers(path, spec, keys=keys, at=at) != lost:
            raise SystemExit("the restored index is another one")
    return Recovery(
        facts=count,
        size_mb=taken.size / 1e6,
        copy_s=copy_s,
        restore_s=restore_s,
        tail_s=tail_s,
        again_s=again_s,
    )


def main() -> int:
    """Measure indexes of some sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, nargs="+", default=[100_000, 400_000])
    parser.add_argument("--keys", type=int, default=20_000)
    given = parser.parse_args()
    found = [measure(count, keys=given.keys) for count in given.facts]
    raw = keep_raw("recovery", HEAD, [one.cells for one in found])
    rows = [(f"{one.facts:,}", *(f"{cell:.2f}" for cell in one.cells[1:])) for one in found]
    show("a lost index comes back", HEAD, rows)
    told = [attrs.asdict(one) | {"back_s": one.back_s} for one in found]
    report_result(
        "recovery",
        {"bench": "recovery", "load_average": load_average(), "runs": told, "raw": raw},
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Measure what the shards of many indexes cost one writer and its readers; print JSON.

    python -m bench.index_shards [--indexes 50] [--rounds 40]

In each round every index gets a few rows of random keys, applied shard by shard, as the index
writer does when rows trickle in; then a batch of keys is looked up. Each number of shards has the
same rows. Reports microseconds of CPU time a row and a lookup, transactions (each waits for the
disk), open files and resident memory of the process. An index that lacks a row is void.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import attrs

from bench.figures import load_average, report_result
from bench.tallies import LOG, columns_of, fact, index_spec
from narthex._formats.avro import key_encoder
from narthex._ir import Fact, IndexSpec, partition_of
from narthex_stores import IndexHandle, LmdbIndexStore

SHARDS = (1, 2, 4, 16)
ROWS, KEYS = 10, 500
TIMEOUT_S = 10.0


@attrs.frozen(kw_only=True)
class Cost:
    """The cost of one number of shards."""

    write_us: float
    wall_us: float
    lookup_us: float
    transactions: int
    open_files: int
    resident_mb: float


def cost_of(rounds: list[list[list[Fact]]], shards: int, *, spec: IndexSpec) -> Cost:
    """Write all rounds into indexes with so many shards, and look the keys of each round up."""
    indexes = len(rounds[0])
    divided = attrs.evolve(spec, shards=shards)
    encode = key_encoder(LOG.keys)
    with tempfile.TemporaryDirectory() as directory:
        store = LmdbIndexStore(Path(directory))
        writers: list[list[IndexHandle]] = []
        for number in range(indexes):
            store.adapter().create(f"nx_{number}", divided, asset_id=1, timeout_s=TIMEOUT_S)
            writers.append(
                [store.open(f"nx_{number}", divided, shard=shard) for shard in range(shards)]
            )
        transactions = 0
        cpu, wall = time.process_time(), time.perf_counter()
        for turn, batch in enumerate(rounds, start=1):
            for number, facts in enumerate(batch):
                parts: dict[int, list[Fact]] = {}
                for one in facts:
                    parts.setdefault(partition_of(encode(one.key), shards), []).append(one)
                for shard, part in parts.items():
                    offsets = {("t", shard): turn}
                    writers[number][shard].apply(part, offsets=offsets, epoch=1)
                    transactions += 1
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        open_files = len(list(Path("/proc/self/fd").iterdir()))
        resident = _resident_mb()
        for opened in (one for shards_of_one in writers for one in shards_of_one):
            opened.close()
        lookup = _look_up(store, divided, rounds)
    rows = sum(len(facts) for batch in rounds for facts in batch)
    return Cost(
        write_us=cpu / rows * 1e6,
        wall_us=wall / rows * 1e6,
        lookup_us=lookup / rows * 1e6,
        transactions=transactions,
        open_files=open_files,
        resident_mb=resident,
    )


def _look_up(store: LmdbIndexStore, spec: IndexSpec, rounds: list[list[list[Fact]]]) -> float:
    readers = [store.open(f"nx_{n}", spec, readonly=True) for n in range(len(rounds[0]))]
    began = time.process_time()
    for batch in rounds:
        for reader, facts in zip(readers, batch, strict=True):
            with reader.read() as snapshot:
                found = snapshot.lookup([one.key for one in facts], [1 << 60] * len(facts))
            if None in found:
                raise SystemExit("an index lacks a row")
    spent = time.process_time() - began
    for reader in readers:
        reader.close()
    return spent


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--indexes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=40)
    asked = parser.parse_args()
    total = asked.rounds * asked.indexes * ROWS
    facts = [fact(n, *row) for n, row in enumerate(columns_of(total, KEYS).iter_rows())]
    parts = [facts[begin : begin + ROWS] for begin in range(0, total, ROWS)]
    rounds = [parts[begin : begin + asked.indexes] for begin in range(0, len(parts), asked.indexes)]
    spec = index_spec()
    report_result(
        "index_shards",
        {
            "load": load_average(),
            "indexes": asked.indexes,
            "rows": asked.indexes * asked.rounds * ROWS,
            "shards": {n: attrs.asdict(cost_of(rounds, n, spec=spec)) for n in SHARDS},
        },
    )


if __name__ == "__main__":
    main()

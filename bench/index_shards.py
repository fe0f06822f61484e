"""Measure what the shards of many indexes cost one writer, and how much a shard takes; print JSON.

    python -m bench.index_shards [--indexes 50] [--rounds 40] [--rows 400000]

In each round every index gets a few rows of random keys, applied shard by shard, as the index
writer does when rows trickle in; then a batch of keys is looked up. Each number of shards has the
same rows. Reports microseconds of CPU time a row and a lookup, transactions (each waits for the
disk), open files and resident memory of the process. An index that lacks a row is void.

Then one index of four shards gets a backlog in batches of 2,000 rows, decoding included: first one
shard is written alone, and then all four at once, each in a process of its own, as on four
machines. Reports rows per CPU-second of each process. A process with a wrong answer has no figure.
"""

import argparse
import functools
import itertools
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from bench.contenders.shard_index import NAME
from bench.figures import load_average, report_result
from bench.tallies import LOG, columns_of, contend, fact, index_spec
from narthex._formats import key_encoder
from narthex._ir import Fact, IndexSpec, partition_of
from narthex_stores import IndexHandle, LmdbIndexStore

SHARDS = (1, 2, 4, 16)
ROWS, KEYS = 10, 500
AT_ONCE, USERS = 4, 100_000
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
    divided = attrs.evolve(spec, shards=shards)
    rows = sum(len(facts) for batch in rounds for facts in batch)
    with tempfile.TemporaryDirectory() as directory:
        store = LmdbIndexStore(Path(directory))
        writers = _opened(store, divided, indexes=len(rounds[0]))
        cpu, wall = time.process_time(), time.perf_counter()
        transactions = _write(writers, rounds)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        open_files = len(list(Path("/proc/self/fd").iterdir()))
        resident = _resident_mb()
        for writer in itertools.chain.from_iterable(writers):
            writer.close()
        lookup = _look_up(store, divided, rounds)
    return Cost(
        write_us=cpu / rows * 1e6,
        wall_us=wall / rows * 1e6,
        lookup_us=lookup / rows * 1e6,
        transactions=transactions,
        open_files=open_files,
        resident_mb=resident,
    )


def _opened(store: LmdbIndexStore, spec: IndexSpec, *, indexes: int) -> list[list[IndexHandle]]:
    """Create indexes; return the writers of the shards of each."""
    writers: list[list[IndexHandle]] = []
    for number in range(indexes):
        store.adapter().create(f"nx_{number}", spec, asset_id=1, timeout_s=TIMEOUT_S)
        shards = range(spec.shards)
        writers.append([store.open(f"nx_{number}", spec, shard=shard) for shard in shards])
    return writers


def _write(writers: list[list[IndexHandle]], rounds: list[list[list[Fact]]]) -> int:
    """Write all rounds, shard by shard; return the number of transactions."""
    encode = key_encoder(LOG.keys)
    transactions = 0
    for turn, batch in enumerate(rounds, start=1):
        for shards, facts in zip(writers, batch, strict=True):
            parts: dict[int, list[Fact]] = {}
            for row in facts:
                parts.setdefault(partition_of(encode(row.key), len(shards)), []).append(row)
            for shard, part in parts.items():
                shards[shard].apply(part, offsets={("t", shard): turn}, epoch=1)
                transactions += 1
    return transactions


def _look_up(store: LmdbIndexStore, spec: IndexSpec, rounds: list[list[list[Fact]]]) -> float:
    readers = [store.open(f"nx_{n}", spec, readonly=True) for n in range(len(rounds[0]))]
    began = time.process_time()
    for batch in rounds:
        for reader, facts in zip(readers, batch, strict=True):
            with reader.read() as snapshot:
                answers = snapshot.lookup([row.key for row in facts], [1 << 60] * len(facts))
            if None in answers:
                raise SystemExit("an index lacks a row")
    spent = time.process_time() - began
    for reader in readers:
        reader.close()
    return spent


def shard_rates(shards: Sequence[int], rows: int) -> list[int]:
    """Write these shards of a new index at once; return the rows per CPU-second of each."""
    spec = attrs.evolve(index_spec(), shards=AT_ONCE)
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(AT_ONCE) as pool:
        adapter = LmdbIndexStore(Path(directory)).adapter()
        adapter.create(NAME, spec, asset_id=1, timeout_s=TIMEOUT_S)
        write = functools.partial(_write_shard, Path(directory), rows)
        return list(pool.map(write, shards))


def _write_shard(directory: Path, rows: int, shard: int) -> int:
    arguments = (str(directory), str(shard), str(AT_ONCE), str(rows), str(USERS))
    return round(contend("bench.contenders.shard_index", *arguments).per_cpu_s)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--indexes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--rows", type=int, default=400_000)
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
            "rows per CPU-second of a shard alone": shard_rates([0], asked.rows),
            "rows per CPU-second of four shards at once": shard_rates(range(AT_ONCE), asked.rows),
        },
    )


if __name__ == "__main__":
    main()

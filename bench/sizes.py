"""Measure how many bytes a row takes in each place; print a table and one line of JSON.

    python -m bench.sizes [--rows 50000] [--users 5000]

A row is a payment of a user: an integer and a float. The places are a call of the webhook (JSON), a
record of its log, alone and in batches that are compressed (LZ4) as producers do it, the history,
an index of keyed rows, and one of four aggregates over three windows. No service is needed. Each
place is read back: one that lacks a row is void.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import pyarrow as pa

from bench.figures import load_average, report_result, show
from bench.index import LOG, index_spec, make_facts
from narthex._formats.avro.codec import fact_codec
from narthex._ir.assets import HistorySpec, IndexSpec, LogShape
from narthex._ir.facts import Fact
from narthex_stores import (
    HistoryAdapter,
    HistoryTable,
    LmdbIndex,
    Record,
    history_path,
    next_offsets,
    record_table,
)

BATCH = 5_000
PRODUCED_TOGETHER = 100
"""How many records a producer compresses together."""
DAYS = 7.0


def call_bytes(facts: Sequence[Fact]) -> float:
    """Return the bytes of a row in the JSON of a call."""
    plain = [
        {"user": fact.key[0], "amount": fact.values[0], "price": fact.values[1], "at": "0" * 27}
        for fact in facts
    ]
    return len(json.dumps(plain)) / len(facts)


def log_bytes(datums: Sequence[bytes], *, compressed: bool) -> float:
    """Return the bytes of a record's value, alone or in compressed batches."""
    if not compressed:
        return sum(map(len, datums)) / len(datums)
    batches = range(0, len(datums), PRODUCED_TOGETHER)
    joined = [b"".join(datums[at : at + PRODUCED_TOGETHER]) for at in batches]
    return sum(len(pa.compress(batch, codec="lz4", asbytes=True)) for batch in joined) / len(datums)


def history_bytes(datums: Sequence[bytes]) -> float:
    """Return the bytes of a row in the files of a history."""
    with tempfile.TemporaryDirectory() as directory:
        spec = HistorySpec(log=LOG)
        HistoryAdapter(history_dir=directory).create("nx_h", spec, asset_id=1, timeout_s=60.0)
        table = HistoryTable(history_path(directory, "nx_h"), spec)
        records = [Record("rows", 0, at, 0, None, datum, ()) for at, datum in enumerate(datums)]
        for start in range(0, len(records), BATCH):
            some = records[start : start + BATCH]
            table.append_table(record_table(LOG, some), next_offsets=next_offsets(some))
        if table.scan().num_rows != len(datums):
            raise SystemExit("the history lacks rows")
        files = Path(history_path(directory, "nx_h")).rglob("*.parquet")
        return sum(file.stat().st_size for file in files) / len(datums)


def index_bytes(spec: IndexSpec, facts: Sequence[Fact]) -> float:
    """Return the bytes on disk of a row in an embedded index."""
    with tempfile.TemporaryDirectory() as directory:
        index = LmdbIndex(Path(directory), spec)
        for start in range(0, len(facts), BATCH):
            some = facts[start : start + BATCH]
            index.apply(some, offsets={("rows", 0): start + len(some)}, epoch=1)
        with index.read() as snapshot:
            if snapshot.offsets != {("rows", 0): len(facts)}:
                raise SystemExit("the index lacks rows")
        index.close()
        # The map is a sparse file: its blocks count, not its length.
        return sum(file.stat().st_blocks * 512 for file in Path(directory).rglob("*")) / len(facts)


def main() -> None:
    """Measure each place, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--users", type=int, default=5_000)
    asked = parser.parse_args()
    facts = make_facts(asked.rows, keys=asked.users, days=DAYS)
    codec = fact_codec(LOG)
    datums = [codec.encode(fact) for fact in facts]
    keyed = IndexSpec(log=attrs.evolve(LOG, shape=LogShape.KEYED))
    sizes = {
        "a call, JSON": call_bytes(facts),
        "a log, one record": log_bytes(datums, compressed=False),
        "a log, compressed": log_bytes(datums, compressed=True),
        "a history": history_bytes(datums),
        "an index of keyed rows": index_bytes(keyed, facts),
        "an index of 4 aggregates, 3 windows": index_bytes(
            index_spec(("1h", "1d", "7d"), each=4), facts
        ),
    }
    show(
        f"bytes of a row; {asked.rows:,} rows of {asked.users:,} users",
        ("place", "bytes"),
        [(place, f"{size:.0f}") for place, size in sizes.items()],
    )
    figures = {place: round(size, 1) for place, size in sizes.items()}
    report_result("sizes", {"bench": "sizes", **figures, "load_average": load_average()})


if __name__ == "__main__":
    main()

"""Measure how fast the bytes of a log get into an index and a history; print JSON.

    python -m bench.columns [--facts 100000]

Reports facts per CPU-second of the process, by fact and by column, decoding included, the best of
two. The index has 4 aggregates over 4 windows; the bench compares it entry by entry with a newly
filled one. The history is compared row by row. A wrong one is void.
"""

import argparse
import gc
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from bench.figures import load_average, report_result
from bench.tallies import LOG, columns_of, fact, index_spec
from narthex._formats.avro.codec import fact_codec
from narthex._ir.assets import HistorySpec
from narthex._ir.facts import Fact
from narthex_stores import (
    HistoryAdapter,
    HistoryTable,
    LmdbIndex,
    LogRow,
    Record,
    StoredDifference,
    column_reader,
    history_path,
    next_offsets,
    record_table,
    stored_entries,
    to_rows,
    to_table,
)

BATCH = 20_000
SPARSE, DENSE = 100_000, 1_000
"""Numbers of users."""


def log_rate(facts: Sequence[Fact], *, by_columns: bool) -> float:
    """Apply all facts to an index; return facts per CPU-second."""
    spec = index_spec()
    codec, reader = fact_codec(LOG), column_reader(LOG)
    if reader is None:
        raise SystemExit("the log cannot be read by columns")
    datums = [codec.encode(one) for one in facts]
    gc.freeze()
    with tempfile.TemporaryDirectory() as directory:
        index = LmdbIndex(Path(directory), spec)
        began = time.process_time()
        for start in range(0, len(datums), BATCH):
            some, offsets = datums[start : start + BATCH], {("payments", 0): start + BATCH}
            if by_columns:
                index.apply_columns(reader.read(some), offsets=offsets, epoch=1)
            else:
                index.apply(codec.decode_many(some), offsets=offsets, epoch=1)
        spent = time.process_time() - began
        with index.read() as snapshot, stored_entries(snapshot) as entries:
            if _differs(entries.differences(facts)):
                raise SystemExit("the index is wrong")
        index.close()
    return len(facts) / spent


def history_rate(facts: Sequence[Fact], *, by_columns: bool) -> float:
    """Append all facts to a history; return facts per CPU-second."""
    codec = fact_codec(LOG)
    records = [
        Record("payments", 0, offset, 0, None, codec.encode(fact), ())
        for offset, fact in enumerate(facts)
    ]
    gc.freeze()
    with tempfile.TemporaryDirectory() as directory:
        spec = HistorySpec(log=LOG)
        HistoryAdapter(history_dir=directory).create("nx_h", spec, asset_id=1, timeout_s=60.0)
        table = HistoryTable(history_path(directory, "nx_h"), spec)
        began = time.process_time()
        for start in range(0, len(records), BATCH):
            some = records[start : start + BATCH]
            rows = record_table(LOG, some) if by_columns else _by_fact(some)
            table.append_table(rows, next_offsets=next_offsets(some))
        spent = time.process_time() - began
        stored = sorted(to_rows(LOG, table.scan()), key=lambda row: row.offset)
        if [row.fact for row in stored] != list(facts):
            raise SystemExit("the history is wrong")
    return len(facts) / spent


def _by_fact(records: Sequence[Record]) -> pa.Table:
    facts = fact_codec(LOG).decode_many([record.value or b"" for record in records])
    return to_table(
        LOG, [LogRow(r.partition, r.offset, fact) for r, fact in zip(records, facts, strict=True)]
    )


def _differs(found: Sequence[StoredDifference]) -> bool:
    """Return whether an entry differs by more than the rounding of floats."""
    return any(
        one.found is None
        or one.meant is None
        or not all(_close(one.found[name], one.meant[name]) for name in one.meant)
        for one in found
    )


def _close(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9)
    return left == right


def main() -> None:
    """Measure sparse and dense keys, by fact and by column."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=100_000)
    count = parser.parse_args().facts
    figures: dict[str, float] = {"load_average": load_average()}
    for users in (SPARSE, DENSE):
        rows = columns_of(count, users)
        facts = [fact(place, *row) for place, row in enumerate(rows.iter_rows())]
        for name, by_columns in (("by fact", False), ("by column", True)):
            label = f"{users} users, {name}"
            figures[label] = round(max(log_rate(facts, by_columns=by_columns) for _ in range(2)))
            print(f"{label:30} {figures[label]:10,.0f} facts per CPU-second")
    rows = columns_of(count, SPARSE)
    facts = [fact(place, *row) for place, row in enumerate(rows.iter_rows())]
    for name, by_columns in (("by fact", False), ("by column", True)):
        label = f"history, {name}"
        figures[label] = round(max(history_rate(facts, by_columns=by_columns) for _ in range(2)))
        print(f"{label:30} {figures[label]:10,.0f} facts per CPU-second")
    report_result("columns", figures)


if __name__ == "__main__":
    main()

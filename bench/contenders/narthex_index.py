"""Narthex's index writer: from the topic into the index.

python -m bench.contenders.narthex_index BOOTSTRAP TOPIC DIRECTORY
"""

import math
import sys
import time
from pathlib import Path

import polars as pl

from bench.tallies import (
    CHECKED,
    PARTITIONS,
    SPAN_US,
    START_US,
    Spent,
    cpu_of_tree,
    index_spec,
    peak_mb_of_tree,
    print_figures,
    rows_path,
    windows_at_the_end,
)
from narthex._formats.avro.codec import fact_codec
from narthex_spark_apps.platform import gc_tuning
from narthex_spark_apps.platform.log_consumer import poll_together
from narthex_stores import IndexHandle, LmdbIndex, LogReader, column_reader


def main() -> None:
    """Read the whole topic as the index writer's process does; then check the index."""
    bootstrap, topic, directory = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    spec = index_spec()
    path = directory / "index"
    path.mkdir()
    index = LmdbIndex(path, spec)
    columns = column_reader(spec.log) if index.takes_columns else None
    codec = fact_codec(spec.log)
    with LogReader(bootstrap) as reader:
        ends = reader.end_offsets([topic])
        began, cpu_began = time.monotonic(), cpu_of_tree()
        reader.assign({(topic, partition): 0 for partition in range(PARTITIONS)})
        rows = 0
        while any(reader.positions[place] < end for place, end in ends.items()):
            records = poll_together(reader, timeout_s=0.05)
            if not records:
                continue
            datums = [record.value or b"" for record in records]
            offsets = {(r.topic, r.partition): r.offset + 1 for r in records}
            if columns is None:
                index.apply(codec.decode_many(datums), offsets=offsets, epoch=1)
            else:
                index.apply_columns(columns.read(datums), offsets=offsets, epoch=1)
            rows += len(records)
        index.sync()
        cpu_s, wall_s = cpu_of_tree() - cpu_began, time.monotonic() - began
    peak_mb = peak_mb_of_tree()
    correct = is_right(index, pl.read_parquet(rows_path(directory)))
    index.close()
    print_figures(Spent(rows=rows, cpu_s=cpu_s, wall_s=wall_s, peak_mb=peak_mb, correct=correct))


def is_right(index: IndexHandle, rows: pl.DataFrame) -> bool:
    """Return whether users' answers at the end are equal to those of Polars."""
    users = rows["user"].unique(maintain_order=True).head(CHECKED).to_list()
    meant = windows_at_the_end(rows, users)
    with index.read() as snapshot:
        found = snapshot.lookup([(user,) for user in users], [START_US + SPAN_US] * len(users))
    for user, answer in zip(users, found, strict=True):
        if answer is None or not all(map(_same, answer.values, meant[user])):
            print(f"{user}: {answer} instead of {meant[user]}", file=sys.stderr)
            return False
    return True


def _same(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9)
    return left == right


if __name__ == "__main__":
    gc_tuning.tune_gc()
    main()

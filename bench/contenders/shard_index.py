"""One shard of an index: the rows of its partition, in the batches of an index writer.

python -m bench.contenders.shard_index DIRECTORY SHARD SHARDS ROWS USERS
"""

import sys
import time
from pathlib import Path
from typing import Final

import attrs
import polars as pl

from bench.contenders.narthex_index import is_right
from bench.tallies import (
    LOG,
    Spent,
    columns_of,
    cpu_of_tree,
    fact,
    index_spec,
    peak_mb_of_tree,
    print_figures,
)
from narthex._formats.avro.codec import fact_codec
from narthex._formats.keys import key_bytes
from narthex._ir import partition_of
from narthex_spark_apps.platform import gc_tuning
from narthex_stores import LmdbIndexStore, column_reader

NAME: Final = "nx_index"
BATCH: Final = 2_000


def main() -> None:
    """Write the rows of one partition to its shard; then check the shard."""
    directory, (shard, shards, count, users) = Path(sys.argv[1]), map(int, sys.argv[2:6])
    codec, reader = fact_codec(LOG), column_reader(LOG)
    if reader is None:
        raise SystemExit("the log cannot be read by columns")
    rows = _rows_of(shard, shards, columns_of(count, users))
    datums = [codec.encode(fact(place, *row)) for place, row in enumerate(rows.iter_rows())]
    spec = attrs.evolve(index_spec(), shards=shards)
    index = LmdbIndexStore(directory).open(NAME, spec, shard=shard)
    began, cpu_began = time.monotonic(), cpu_of_tree()
    for start in range(0, len(datums), BATCH):
        batch = reader.read(datums[start : start + BATCH])
        index.apply_columns(batch, offsets={("payments", shard): start + BATCH}, epoch=1)
    index.sync()
    cpu_s, wall_s = cpu_of_tree() - cpu_began, time.monotonic() - began
    correct = is_right(index, rows)
    index.close()
    print_figures(
        Spent(
            rows=len(datums),
            cpu_s=cpu_s,
            wall_s=wall_s,
            peak_mb=peak_mb_of_tree(),
            correct=correct,
        )
    )


def _rows_of(shard: int, shards: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the partition with the number of a shard."""
    keys = rows["user"].unique().to_list()
    mine = [key for key in keys if partition_of(key_bytes(LOG.keys, (key,)), shards) == shard]
    return rows.filter(pl.col("user").is_in(mine))


if __name__ == "__main__":
    gc_tuning.tune_gc()
    main()

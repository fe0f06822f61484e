"""Hand-written Spark jobs: from the topic into tiles in LMDB.

python -m bench.contenders.spark_tiles stream|batch BOOTSTRAP TOPIC DIRECTORY

`stream` is a Structured Streaming job: each row to its four windows, groupBy, update mode, state
in RocksDB, foreachBatch upserts what changed. `batch` writes the tiles of our ladder: one groupBy a
level, each from the finer one. Neither stores the rows, so neither could be exact at the edges of
a sliding window, retract a row, or be repeated without counting twice.
"""

import sys
import time
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.avro.functions import from_avro

from bench.contenders.tiles import NAMES, TileStore
from bench.tallies import (
    LOG,
    WINDOWS,
    Spent,
    cpu_of_tree,
    index_spec,
    peak_mb_of_tree,
    print_figures,
    rows_path,
    same_tiles,
    stored,
    tumbled,
)
from narthex._formats.avro.codec import avro_schema
from narthex.settings import Settings
from narthex_spark_apps.platform.session import open_session
from narthex_stack.machine.jars import CONNECTORS, resolve

ROWS_A_BATCH = 40_000


def session(directory: Path) -> SparkSession:
    """Start Spark as the platform does, with state in RocksDB and a shuffle for two cores."""
    settings = Settings(
        home=directory,
        install_id="benchpee",
        ledger_dsn="",
        kafka="",
        server_url="",
        token="",
        index_dir=directory,
        history_dir=str(directory),
        checkpoint_dir=directory,
        files_root=directory,
        jars_dir=resolve(CONNECTORS),
        spark_master="local[2]",
    )
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    return open_session(
        settings,
        name="by hand",
        extra={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.stateStore.providerClass": provider,
            "spark.driver.memory": "2g",
        },
    )


def upsert(tiles: TileStore, table: pa.Table) -> None:
    """Put the tiles of a table, whose columns are those of `NAMES`."""
    users, lengths, numbers, *values = (table.column(name).to_pylist() for name in NAMES)
    places = zip(users, lengths, numbers, strict=True)
    tiles.upsert(zip(places, zip(*values, strict=True), strict=True))


def parsed(raw: DataFrame) -> DataFrame:
    """Read the facts: user, at, amount, price."""
    facts = raw.select(from_avro(F.col("value"), avro_schema(LOG)).alias("f"))
    return facts.select(
        F.col("f.k_user").alias("user"),
        F.col("f.event_time").alias("at"),
        F.col("f.v_amount").alias("amount"),
        F.col("f.v_price").alias("price"),
    )


def stream(
    spark: SparkSession, bootstrap: str, topic: str, directory: Path, tiles: TileStore
) -> None:
    """Run the streaming job over the whole topic."""
    lengths = F.array(*[F.lit(length) for length in WINDOWS.values()])
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_A_BATCH)
        .load()
    )
    counted = (
        parsed(raw)
        .withColumn("length", F.explode(lengths))
        .withColumn("number", F.expr("at div length"))
        .groupBy("user", "length", "number")
        .agg(*_values())
    )
    (
        counted.writeStream.outputMode("update")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .foreachBatch(lambda frame, _number: upsert(tiles, frame.toArrow()))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def batch(spark: SparkSession, bootstrap: str, topic: str, tiles: TileStore) -> None:
    """Run the batch job: one groupBy a level, a finer level feeds the next."""
    raw = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    finest, *coarser = index_spec().ladder_us
    level = (
        parsed(raw)
        .withColumn("length", F.lit(finest))
        .withColumn("number", F.expr("at div length"))
        .groupBy("user", "length", "number")
        .agg(*_values())
    )
    for length in (finest, *coarser):
        if length != finest:
            level = (
                level.withColumn("number", F.expr(f"number div ({length} div length)"))
                .withColumn("length", F.lit(length))
                .groupBy("user", "length", "number")
                .agg(
                    F.sum("count").alias("count"),
                    F.sum("sum").alias("sum"),
                    F.sum("price").alias("price"),
                    F.max("most").alias("most"),
                )
            )
        level = level.persist()
        for part in _parts(level):
            upsert(tiles, part)


def _parts(frame: DataFrame) -> Iterable[pa.Table]:
    yield frame.toArrow()


def _values() -> tuple[object, ...]:
    return (
        F.count("*").alias("count"),
        F.sum("amount").alias("sum"),
        F.sum("price").alias("price"),
        F.max("amount").alias("most"),
    )


def main() -> None:
    """Run one of the jobs; then check every tile."""
    how, bootstrap, topic, directory = (*sys.argv[1:4], Path(sys.argv[4]))
    home = directory / how
    home.mkdir()
    spark = session(home)
    spark.range(1000).selectExpr("sum(id)").collect()  # the JVM is warm, as ours is
    tiles = TileStore(home / "tiles")
    began, cpu_began = time.monotonic(), cpu_of_tree()
    if how == "stream":
        stream(spark, bootstrap, topic, home, tiles)
    else:
        batch(spark, bootstrap, topic, tiles)
    cpu_s, wall_s = cpu_of_tree() - cpu_began, time.monotonic() - began
    peak_mb = peak_mb_of_tree()
    rows = pl.read_parquet(rows_path(directory))
    lengths = tuple(WINDOWS.values()) if how == "stream" else index_spec().ladder_us
    correct = same_tiles(stored(tiles), tumbled(rows, lengths))
    spark.stop()
    print_figures(
        Spent(rows=rows.height, cpu_s=cpu_s, wall_s=wall_s, peak_mb=peak_mb, correct=correct)
    )


if __name__ == "__main__":
    main()

"""Compare four aggregates over four windows of 100k users, from Kafka into a store; print JSON too.

    python -m bench.throughput [--rows 300000] [--users 100000] [--quick] [--only NAME …]

Compares the index writer with a hand-written Structured Streaming job that upserts the same windows
into the same kind of store, and with jobs of Quix Streams and Bytewax that do; as a backfill, with
a Spark batch that writes the same tiles. Polars and DuckDB, which store nothing, are the floor.
Reports rows per CPU-second of each process tree, without its start. All run on one machine, one
after the other; a wrong result is void.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import attrs
import polars as pl

from bench.contenders.tiles import TileStore
from bench.figures import keep_raw, load_average, report_result, show
from bench.peers import peers_python
from bench.running import say
from bench.tallies import (
    LOG,
    WINDOWS,
    Spent,
    columns_of,
    contend,
    index_spec,
    produce,
    rows_path,
    same_tiles,
    stored,
    tumbled,
)
from narthex._formats.avro.codec import avro_schema
from narthex_stack.servers.local_servers import kafka_broker

TOPIC = "bench.tallies"
QUICK_ROWS = 20_000
AT_LEAST_OF_STREAM = 1.0
AT_MOST_OF_BATCH = 1.3


OURS, STREAMING, BATCH, POLARS, DUCKDB, QUIX, BYTEWAX = CONTENDERS = (
    "Narthex index writer",
    "Structured Streaming by hand",
    "Spark batch by hand",
    "Polars, nothing stored",
    "DuckDB, nothing stored",
    "Quix Streams",
    "Bytewax",
)


def measure(rows: int, users: int, contenders: Sequence[str]) -> dict[str, Spent]:
    """Run the contenders on the same rows."""
    with tempfile.TemporaryDirectory() as name, kafka_broker(Path(name)) as bootstrap:
        directory = Path(name)
        drawn = columns_of(rows, users)
        drawn.write_parquet(rows_path(directory))
        say(f"producing {rows} rows")
        produce(bootstrap, TOPIC, drawn)
        spark = "bench.contenders.spark_tiles"
        runs: Mapping[str, Callable[[], Spent]] = {
            OURS: lambda: contend("bench.contenders.narthex_index", bootstrap, TOPIC, name),
            STREAMING: lambda: contend(spark, "stream", bootstrap, TOPIC, name),
            BATCH: lambda: contend(spark, "batch", bootstrap, TOPIC, name),
            POLARS: lambda: contend("bench.contenders.polars_tiles", "stream", name),
            DUCKDB: lambda: _duckdb(directory, rows),
            QUIX: lambda: _peer("quix", bootstrap, directory, drawn),
            BYTEWAX: lambda: _peer("bytewax", bootstrap, directory, drawn),
        }
        results_by_name: dict[str, Spent] = {}
        for contender in contenders:
            say(contender)
            results_by_name[contender] = runs[contender]()
        return results_by_name


def _peer(module: str, bootstrap: str, directory: Path, drawn: pl.DataFrame) -> Spent:
    """Run a contender that has its own environment and stores tiles; then check every tile."""
    (directory / "schema.json").write_text(avro_schema(LOG))
    lengths = tuple(WINDOWS.values())
    arguments = (bootstrap, TOPIC, str(directory), _texts(lengths), str(drawn.height))
    found = contend(f"bench.contenders.{module}_tiles", *arguments, python=str(peers_python()))
    tiles = stored(TileStore(directory / module))
    return attrs.evolve(found, correct=same_tiles(tiles, tumbled(drawn, lengths)))


def _duckdb(directory: Path, rows: int) -> Spent:
    arguments = (str(directory), _texts(WINDOWS.values()), str(rows))
    return contend("bench.contenders.duckdb_tiles", *arguments, python=str(peers_python()))


def _texts(lengths: Iterable[int]) -> str:
    return ",".join(str(length) for length in lengths)


def _ratios(found: Mapping[str, Spent]) -> dict[str, float]:
    """Return the ratios to the hand-written jobs that ran and were correct."""
    ratios: dict[str, float] = {}
    ours = found.get(OURS)
    if ours is not None and ours.correct:
        if STREAMING in found and found[STREAMING].correct:
            ratios["of_streaming"] = round(ours.per_cpu_s / found[STREAMING].per_cpu_s, 2)
            ratios["of_streaming_target"] = AT_LEAST_OF_STREAM
        if BATCH in found and found[BATCH].correct:
            ratios["cpu_times_batch"] = round(ours.cpu_s / found[BATCH].cpu_s, 2)
            ratios["cpu_times_batch_target"] = AT_MOST_OF_BATCH
    return ratios


def main() -> int:
    """Run; exit with 1 if a contender's result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument(
        "--quick", action="store_true", help=f"run {QUICK_ROWS} rows, to check correctness"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=CONTENDERS,
        default=CONTENDERS,
        help="run only these contenders",
    )
    asked = parser.parse_args()
    rows = QUICK_ROWS if asked.quick else asked.rows
    busy = load_average()
    found = measure(rows, asked.users, asked.only)
    show(
        f"{rows} rows of {asked.users} users, {len(index_spec().aggregates)} aggregates",
        ("", "rows/CPU-s", "CPU s", "wall s", "MB", "right"),
        [
            (
                name,
                f"{one.per_cpu_s:,.0f}",
                f"{one.cpu_s:.1f}",
                f"{one.wall_s:.1f}",
                f"{one.peak_mb:.0f}",
                "yes" if one.correct else "NO",
            )
            for name, one in found.items()
        ],
    )
    keep_raw(
        "throughput",
        ("contender", "rows", "cpu_s", "wall_s", "peak_mb", "correct"),
        [(name, *attrs.astuple(one)) for name, one in found.items()],
    )
    ok = all(one.correct for one in found.values())
    result = {
        "bench": "throughput",
        "result": "ok" if ok else "failed",
        "rows": rows,
        "users": asked.users,
        "load_average": busy,
        **_ratios(found),
        "contenders": {name: attrs.asdict(one) for name, one in found.items()},
    }
    report_result("throughput", result)
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())

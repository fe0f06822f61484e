"""The computation of the side-by-side benchmarks: four aggregates over four windows, of 100k users.

Rows are contributions as in a dataset's log, Avro in a topic of two partitions, in order of
time over 30 days. Every contender reads that topic. Polars computes the expected result
from the same columns, and a contender with another result gets no figure.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np
import polars as pl
import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from bench.contenders.tiles import NAMES, TileStore
from narthex._aggregates.tiles import DIVIDED_ABOVE, ladder, parts
from narthex._base.times import DAY_US, HOUR_US
from narthex._formats.avro.codec import fact_codec
from narthex._formats.keys import key_bytes
from narthex._ir.aggregate_specs import AggregateSpec, Average, Count, Max, Sum, TypedAggregate
from narthex._ir.assets import IndexSpec, LogShape, LogSpec
from narthex._ir.facts import Fact, RowId, Version, position
from narthex._ir.schema import Column
from narthex._ir.types import DataType, Float, Int, Optional, Str
from narthex._ir.windows import Continuous
from narthex_stores import LogProducer

START_US = 1_699_920_000_000_000
"""A day's beginning."""

SPAN_US = 30 * DAY_US
PARTITIONS = 2
WINDOWS = {"1h": HOUR_US, "1d": DAY_US, "7d": 7 * DAY_US, "30d": 30 * DAY_US}
LOG = LogSpec(
    shape=LogShape.CONTRIBUTIONS,
    keys=(Column("user", Str()),),
    values=(Column("amount", Int()), Column("price", Float())),
    time_field="at",
)
CHECKED = 2_000
"""So many users' answers are checked."""


def index_spec() -> IndexSpec:
    """Describe the index of the four aggregates over the four windows."""
    found: list[TypedAggregate] = []
    for name in WINDOWS:
        window = Continuous(name)
        asked: tuple[tuple[AggregateSpec, DataType | None, DataType], ...] = (
            (Count(into=f"count_{name}", window=window), None, Int()),
            (Sum(into=f"sum_{name}", window=window, of="amount"), Int(), Int()),
            (Average(into=f"mean_{name}", window=window, of="price"), Float(), Float()),
            (Max(into=f"max_{name}", window=window, of="amount"), Int(), Optional(Int())),
        )
        found += [TypedAggregate(spec, of, into) for spec, of, into in asked]
    aggregates = tuple(found)
    lengths = ladder(aggregates)
    return IndexSpec(
        log=LOG,
        aggregates=aggregates,
        ladder_us=lengths,
        parts_us=parts(lengths),
        divided_above=DIVIDED_ABOVE,
    )


def columns_of(rows: int, users: int, seed: int = 7) -> pl.DataFrame:
    """Draw random rows: user, amount, price, at (microseconds), in order of time."""
    rng = np.random.default_rng(seed)
    at = START_US + np.sort(rng.integers(0, SPAN_US, rows))
    return pl.DataFrame(
        {
            "user": pl.Series(rng.integers(0, users, rows)).cast(pl.String),
            "amount": rng.integers(0, 1000, rows),
            "price": rng.random(rows) * 100,
            "at": at,
        }
    )


def fact(place: int, user: str, amount: int, price: float, at: int) -> Fact:
    """Return a row as the fact of its log."""
    return Fact(
        row_id=RowId(position("kafka:localhost:9092/payments", 0, place)),
        version=Version(b"\x00"),
        event_time=at,
        key=(user,),
        values=(amount, price),
    )


def produce(bootstrap: str, topic: str, rows: pl.DataFrame) -> None:
    """Append the rows to a new topic, keyed as a job keys them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    codec = fact_codec(LOG)
    with LogProducer(bootstrap, linger_ms=50) as producer:
        for place, row in enumerate(rows.iter_rows()):
            made = fact(place, *row)
            producer.post(topic, value=codec.encode(made), key=key_bytes(LOG.keys, made.key))
        producer.flush(timeout_s=300)


def windows_at_the_end(rows: pl.DataFrame, users: Sequence[str]) -> dict[str, tuple[object, ...]]:
    """Return each user's sixteen values as of the end of the span, by definition."""
    as_of = START_US + SPAN_US
    named = pl.DataFrame({"user": list(users)})
    for name, length in WINDOWS.items():
        counted = rows.filter(pl.col("at") > as_of - length - 1).group_by("user")
        named = named.join(
            counted.agg(
                pl.len().cast(pl.Int64).alias(f"count_{name}"),
                pl.col("amount").sum().alias(f"sum_{name}"),
                pl.col("price").mean().alias(f"mean_{name}"),
                pl.col("amount").max().alias(f"max_{name}"),
            ),
            on="user",
            how="left",
        ).with_columns(
            pl.col(f"count_{name}", f"sum_{name}").fill_null(0),
            pl.col(f"mean_{name}").fill_null(0.0),
        )
    return {row[0]: row[1:] for row in named.iter_rows()}


def tumbled(rows: pl.DataFrame, lengths_us: Sequence[int]) -> pl.DataFrame:
    """Return the tiles of each length: user, length, number, count, sum, price, most."""
    return pl.concat(
        [
            rows.group_by("user", (pl.col("at") // length).alias("number")).agg(
                pl.lit(length, dtype=pl.Int64).first().alias("length"),
                pl.len().cast(pl.Int64).alias("count"),
                pl.col("amount").sum().alias("sum"),
                pl.col("price").sum().alias("price"),
                pl.col("amount").max().alias("most"),
            )
            for length in lengths_us
        ]
    ).select(*NAMES)


def stored(tiles: TileStore) -> pl.DataFrame:
    """Return every tile that a contender stored."""
    return pl.DataFrame(tiles.all(), schema=NAMES, orient="row")


def same_tiles(found: pl.DataFrame, meant: pl.DataFrame) -> bool:
    """Whether two sets of tiles are the same; floats to 1e-9."""
    order = ["user", "length", "number"]
    left = found.select(meant.columns).sort(order)
    right = meant.sort(order)
    exact = [*order, "count", "sum", "most"]
    if not left.select(exact).equals(right.select(exact)):
        return False
    return bool(np.allclose(left["price"].to_numpy(), right["price"].to_numpy(), rtol=1e-9))


@attrs.frozen(kw_only=True)
class Spent:
    """The resources of a contender, without the start of its process and its imports."""

    rows: int
    cpu_s: float
    wall_s: float
    peak_mb: float
    correct: bool

    @property
    def per_cpu_s(self) -> float:
        """Rows per CPU-second; 0 for a wrong result."""
        return self.rows / self.cpu_s if self.correct and self.cpu_s else 0.0


def cpu_of_tree() -> float:
    """Return the CPU seconds of this process and its running descendants."""
    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return float(total)


def peak_mb_of_tree() -> float:
    """Return the sum of the resident sets of this process and its descendants, in MB."""
    own = psutil.Process()
    return sum(p.memory_info().rss for p in (own, *own.children(recursive=True))) / 1e6


def contend(module: str, *arguments: str, python: str = sys.executable) -> Spent:
    """Run a contender in a separate process; its last line has its figures.

    A contender that does not report whether its result is correct counts as wrong.

    Raises:
        RuntimeError: It failed.
    """
    done = subprocess.run(
        [python, "-m", module, *arguments],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RuntimeError(f"{module} ended with {done.returncode}")
    found: Mapping[str, float] = json.loads(lines[-1])
    return Spent(
        rows=int(found["rows"]),
        cpu_s=found["cpu_s"],
        wall_s=found["wall_s"],
        peak_mb=found["peak_mb"],
        correct=bool(found.get("correct", False)),
    )


def print_figures(spent: Spent) -> None:
    """Print a contender's figures for the calling process."""
    print(json.dumps(attrs.asdict(spent)))


def rows_path(directory: Path) -> Path:
    """Return the path of the drawn rows, for the check."""
    return directory / "rows.parquet"

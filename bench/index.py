"""Measure how fast the index accepts facts and answers; print a table and one line of JSON.

Reports facts per CPU-second of the process, without decoding, the best of three runs, and
microseconds per key for answers. The bench first compares every run with the in-memory index; a
wrong run is void.
"""

import argparse
import gc
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random  # noqa: TID251 - seeded below

import attrs

from bench.figures import report_result
from narthex._aggregates.tiles import DIVIDED_ABOVE, ladder, parts
from narthex._ir.aggregate_specs import (
    AggregateSpec,
    Average,
    Count,
    Max,
    Min,
    Quantile,
    Sum,
    TypedAggregate,
)
from narthex._ir.assets import VALIDITY_COLUMNS, IndexSpec, LogShape, LogSpec
from narthex._ir.facts import Fact, RowId, Version, position
from narthex._ir.schema import Column
from narthex._ir.types import DataType, Float, Int, Optional, Str
from narthex._ir.windows import Continuous
from narthex_stores.indexes import InMemoryIndex, LmdbIndex, LookupResult

SMALL = 200
START_US = 1_700_000_000_000_000
LOG = LogSpec(
    shape=LogShape.CONTRIBUTIONS,
    keys=(Column("user", Str()),),
    values=(Column("amount", Int()), Column("price", Float())),
    time_field="at",
)


def aggregates(windows: Sequence[str], *, each: int) -> tuple[TypedAggregate, ...]:
    """Return `count` aggregates over each window."""
    found: list[TypedAggregate] = []
    for window in windows:
        span = Continuous(window)
        asked: tuple[tuple[AggregateSpec, DataType | None, DataType], ...] = (
            (Sum(into=f"sum_{window}", window=span, of="amount"), Int(), Int()),
            (Count(into=f"count_{window}", window=span), None, Int()),
            (Average(into=f"mean_{window}", window=span, of="price"), Float(), Float()),
            (Max(into=f"max_{window}", window=span, of="amount"), Int(), Optional(Int())),
            (Min(into=f"min_{window}", window=span, of="price"), Float(), Optional(Float())),
        )
        found += [TypedAggregate(spec, of, into) for spec, of, into in asked[:each]]
    return tuple(found)


def index_spec(windows: Sequence[str], *, each: int = 4, correctable: bool = False) -> IndexSpec:
    """Describe the index of those aggregates."""
    asked = aggregates(windows, each=each)
    lengths = ladder(asked)
    return IndexSpec(
        log=LOG,
        aggregates=asked,
        ladder_us=lengths,
        parts_us=parts(lengths),
        divided_above=DIVIDED_ABOVE,
        correctable=correctable,
    )


def make_facts(count: int, *, keys: int, days: float, seed: int = 7) -> list[Fact]:
    """Return facts of random keys in order of time."""
    rng = Random(seed)  # noqa: S311 - reproducible, not secret
    step = int(days * 86_400_000_000 / count)
    return [
        Fact(
            row_id=RowId(position("kafka:localhost:9092/payments", 0, offset)),
            version=Version(b"\x00"),
            event_time=START_US + offset * step + rng.randrange(step),
            key=(f"user-{rng.randrange(keys)}",),
            values=(rng.randrange(1000), rng.random() * 100),
        )
        for offset in range(count)
    ]


def living(facts: Sequence[Fact], *, stand: int) -> tuple[IndexSpec, list[Fact]]:
    """Return contributions of keyed rows, of which the newest are valid, and their index."""
    last = len(facts) - stand
    ends = [facts[min(at + stand, len(facts) - 1)].event_time for at in range(last)]
    rows = [
        attrs.evolve(fact, values=(*fact.values, fact.event_time, end))
        for fact, end in zip(facts, [*ends, *[None] * stand], strict=True)
    ]
    log = attrs.evolve(LOG, values=(*LOG.values, *VALIDITY_COLUMNS))
    spec = IndexSpec(log=log, aggregates=aggregates(("forever",), each=5), correctable=True)
    return spec, rows


def exact_quantile(window: str) -> IndexSpec:
    """Describe the index of an exact quantile, whose rows are folded."""
    quantile = Quantile(into="q", window=Continuous(window), of="price", p=0.9, approx=False)
    asked = (TypedAggregate(quantile, Float(), Optional(Float())),)
    return IndexSpec(log=LOG, aggregates=asked, ladder_us=ladder(asked))


def write_rate(spec: IndexSpec, facts: Sequence[Fact], *, batch: int) -> float:
    """Return facts per CPU-second of one run."""
    with tempfile.TemporaryDirectory() as directory:
        index = LmdbIndex(Path(directory), spec)
        began = time.process_time()
        for start in range(0, len(facts), batch):
            index.apply(
                facts[start : start + batch], offsets={("payments", 0): start + batch}, epoch=1
            )
        spent = time.process_time() - began
        index.close()
    return len(facts) / spent


def read_cost(
    spec: IndexSpec, facts: Sequence[Fact], *, keys: int, check: int, asks: int = 200
) -> float:
    """Return microseconds per key for one lookup of many keys as of the newest instant."""
    as_of = facts[-1].event_time
    asked = [(f"user-{number % keys}",) for number in range(asks)]
    with tempfile.TemporaryDirectory() as directory:
        index = LmdbIndex(Path(directory), spec)
        twin = InMemoryIndex(spec)
        index.apply(facts, offsets={}, epoch=1)
        twin.apply(facts, offsets={}, epoch=1)
        best = math.inf
        with index.read() as reader:
            answers = reader.lookup(asked, [as_of] * len(asked))
            for _ in range(5):
                began = time.process_time()
                reader.lookup(asked, [as_of] * len(asked))
                best = min(best, time.process_time() - began)
        with twin.read() as expected:
            wanted = expected.lookup(asked[:check], [as_of] * check)
        index.close()
    if not all(same(a, b) for a, b in zip(answers, wanted, strict=False)):
        raise SystemExit("the answers are wrong")
    return best / len(asked) * 1e6


def same(found: LookupResult | None, wanted: LookupResult | None) -> bool:
    """Compare two answers; floats to 1e-9."""
    if found is None or wanted is None:
        return found is wanted
    return found.event_time == wanted.event_time and all(
        math.isclose(a, b, rel_tol=1e-9)
        if isinstance(a, float) and isinstance(b, float)
        else a == b
        for a, b in zip(found.values, wanted.values, strict=True)
    )


def main() -> None:
    """Run all: 100k keys for writes, sparse and dense groups for reads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=100_000)
    count = parser.parse_args().facts
    figures: dict[str, float] = {}
    windows = ("1h", "1d", "7d")
    spread = make_facts(count, keys=100_000, days=1)
    few = make_facts(count, keys=1_000, days=1)
    # A writer has one batch of facts in memory; keep the collector off the bench's own objects.
    gc.freeze()
    for name, spec in (
        ("4x3", index_spec(windows)),
        ("4x3 correctable", index_spec(windows, correctable=True)),
        ("4x4 forever", index_spec((*windows, "forever"))),
    ):
        for batch in (SMALL, 2_000, 20_000):
            part = count // 4 if batch == SMALL else count
            for keys, facts in (("100k keys", spread), ("1k keys", few)):
                label = f"write {name}, {keys}, batch {batch}"
                figures[label] = max(write_rate(spec, facts[:part], batch=batch) for _ in range(3))
                print(f"{label:56} {figures[label]:10,.0f} facts per CPU-second")
    five = ("1m", "1h", "1d", "7d", "30d")
    for name, size in (("sparse, 10 rows a key", count // 10), ("dense, 2,000 rows a key", 50)):
        facts = make_facts(count, keys=size, days=31)
        for each in (1, 5):
            cost = read_cost(index_spec(five, each=each), facts, keys=size, check=20)
            label = f"read 5 windows, {each} aggregates, {name}"
            figures[label] = cost
            print(f"{label:56} {cost:10.1f} us a key")
    for each in (1_000, 10_000):
        facts = make_facts(2 * each, keys=2, days=31)
        spec, rows = living(facts, stand=200)
        for label, cost in (
            ("an exact quantile", read_cost(exact_quantile("30d"), facts, keys=2, check=2, asks=4)),
            ("validity intervals, 100 valid rows", read_cost(spec, rows, keys=2, check=2, asks=4)),
        ):
            named = f"read {label}, {each:,} rows a key"
            figures[named] = cost
            print(f"{named:56} {cost:10.1f} us a key")
    report_result("index", {name: round(value, 1) for name, value in figures.items()})


if __name__ == "__main__":
    main()

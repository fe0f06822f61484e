"""Lookups of a history in Spark: the states that were read by given offsets, and no others."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random  # noqa: TID251 - seeded below

import attrs
import pytest
from pyspark.sql import SparkSession

from narthex._ir.assets import DatasetPlan, HistorySpec, IndexSpec
from narthex._ir.facts import Cell, Fact, Version
from narthex._ir.schema import Schema
from narthex._ir.windows import Continuous, Hopping, Tumbling
from narthex_spark_apps.offline.historical_lookup import ReplayLimit
from narthex_spark_apps.offline.lookup_jobs import OfflineLookup, look_up
from narthex_spark_apps.offline.offline_request import OfflineDataset
from narthex_spark_apps.offline.pins import PinnedDataset
from narthex_stores import HistoryAdapter, HistoryTable, LogRow
from narthex_stores.indexes import InMemoryIndex, LookupResult
from tests.stores.indexes.index_suite import KEYED, KEYS, Delivery, row, same, taken_back
from tests.stores.indexes.test_index_validity import (
    GROUPS,
    JobOutput,
    State,
    contributed,
    differences,
    expected,
    rows_of,
    spec_of,
    step_over,
)

pytestmark = pytest.mark.spark

PARTITIONS = 2
HISTORY_US = 14


def plan_of(spec: IndexSpec) -> DatasetPlan:
    return DatasetPlan(
        name="D",
        version=1,
        schema=Schema(()),
        log=spec.log,
        aggregates=spec.aggregates,
        ladder_us=spec.ladder_us,
        online=True,
        offline=True,
        correctable=spec.correctable,
        history_us=spec.history_us,
    )


def logged(facts: Sequence[Fact]) -> list[LogRow]:
    """Return facts the offsets of a log, in the partition of their key."""
    ends = [0] * PARTITIONS
    rows: list[LogRow] = []
    for fact in facts:
        partition = len(str(fact.key)) * 7 % PARTITIONS if fact.key[0] != "a" else 0
        rows.append(LogRow(partition, ends[partition], fact))
        ends[partition] += 1
    return rows


def history_of(path: Path, spec: IndexSpec, rows: Sequence[LogRow]) -> PinnedDataset:
    history = HistorySpec(log=spec.log)
    HistoryAdapter(history_dir=str(path)).create("nx_h", history, asset_id=1, timeout_s=20.0)
    table = HistoryTable(path / "nx_h", history)
    for start in range(0, len(rows), 9):
        table.append_rows(rows[start : start + 9])
    dataset = OfflineDataset(plan=plan_of(spec), history=str(path / "nx_h"), log="topic")
    return PinnedDataset(dataset=dataset, history=table.snapshot())


def online(spec: IndexSpec, rows: Sequence[LogRow], wanted: OfflineLookup) -> LookupResult | None:
    """Return the answers of an index that has read up to the offsets."""
    ends = json.loads(wanted.limits) if wanted.limits else None
    facts = [r.fact for r in rows if ends is None or r.offset < ends.get(str(r.partition), 0)]
    index = InMemoryIndex(spec)
    index.apply(facts, offsets={}, epoch=1)
    with index.read() as reader:
        return reader.lookup([wanted.key], [wanted.as_of])[0]


def asked(
    keys: Sequence[Cell], instants: Sequence[int], rows: Sequence[LogRow]
) -> list[OfflineLookup]:
    """Ask each key as of each instant, at all offsets and at some."""
    some = [
        json.dumps({str(p): sum(r.partition == p for r in rows) * part // 3 for p in range(2)})
        for part in (1, 2)
    ]
    texts: tuple[ReplayLimit, ...] = ("", *some)
    return [
        OfflineLookup("D", (key,), at, text) for text in texts for key in keys for at in instants
    ]


def drawn_rows(rng: Random, count: int) -> list[Fact]:
    """Draw keyed rows in the order in which they come."""
    facts: list[Fact] = []
    for number in range(count):
        user, at, is_alive = rng.randrange(6), rng.randrange(30), rng.random() < 0.8
        cells: tuple[Cell, ...] = (
            rng.choice(GROUPS),
            rng.choice([None, -2, 0, 3]),
            rng.randrange(-8, 9) / 8,
            rng.randrange(30),
        )
        fact = row(str(user), at, number.to_bytes(8))
        facts.append(
            attrs.evolve(
                fact,
                key=(user,),
                row_id=fact.row_id,
                values=cells if is_alive else (None,) * len(cells),
                alive=is_alive,
            )
        )
    return facts


@pytest.mark.parametrize(
    ("along", "windows"),
    [
        (None, (Continuous("forever"), Continuous(9))),
        ("seen", (Tumbling(5, 2), Hopping(10, 5, 2))),
    ],
)
def test_contributions_of_keyed_rows_match_the_reference(
    spark: SparkSession,
    tmp_path: Path,
    along: str | None,
    windows: tuple[Continuous | Tumbling | Hopping, ...],
) -> None:
    step = step_over(windows, along)
    spec = attrs.evolve(spec_of(step), history_us=HISTORY_US)
    given = drawn_rows(Random(7), 40)  # noqa: S311 - drawn the same each time
    facts: list[Fact] = []
    standing: State = {}
    for end in range(1, len(given) + 1):
        after = contributed(step, rows_of(given[:end]))
        for change in differences(standing, after):
            facts.append(attrs.evolve(change, version=Version(len(facts).to_bytes(8))))
        standing = after
    rows = logged(facts)
    moved = {f.row_id: {g.key for g in facts if g.row_id == f.row_id} for f in facts}
    assert any(len(keys) > 1 for keys in moved.values()), "no row changed its group"

    wanted = asked(GROUPS, range(0, 45, 4), rows)
    found = look_up(spark, history_of(tmp_path, spec, rows), wanted)

    told = JobOutput(step, HISTORY_US, rows_of(given), Delivery(facts, []))
    for one in wanted:
        assert same(found[one], online(spec, rows, one)), one
        if not one.limits:
            assert same(found[one], expected(told, str(one.key[0]), one.as_of)), one


def test_retracted_keyed_rows_are_not_found(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(3)  # noqa: S311 - drawn the same each time
    spec = IndexSpec(log=KEYED, correctable=True)
    facts: list[Fact] = []
    for number in range(60):
        fact = row(rng.choice(KEYS), rng.randrange(6), number.to_bytes(8), number, ("x",))
        facts.append(taken_back(fact) if rng.random() < 0.4 else fact)
    rows = logged(facts)

    wanted = asked(KEYS, range(-1, 8), rows)
    found = look_up(spark, history_of(tmp_path, spec, rows), wanted)

    assert {one: found[one] for one in wanted} == {one: online(spec, rows, one) for one in wanted}
    assert any(one is not None for one in found.values())

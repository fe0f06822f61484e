"""The as-of kernel finds the rows that an index finds that has read the same states."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narthex._columnar_query import EVENT_TIME, FOUND, cells_of, key_name, value_name
from narthex._expr.polars.columns import series_of
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.assets import DatasetPlan, Decay, LogShape, LogSpec
from narthex._ir.facts import TOMBSTONE_TIME, Cell, Fact, Version
from narthex._ir.schema import Column, Field, Role, Schema
from narthex._ir.types import (
    Bool,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Map,
    Optional,
    Str,
    optional,
)
from narthex_spark_apps.offline.asof_kernel import KeyedStates, is_answered
from narthex_spark_apps.offline.historical_lookup import HistoricalLookup
from narthex_spark_apps.offline.kernel import AskedKeys, look_up_in_memory
from narthex_stores import LogRow, LookupResult, to_table
from narthex_stores.indexes import InMemoryIndex

VALUES = (
    Column("text", Str()),
    Column("count", Optional(Int())),
    Column("ratio", Float()),
    Column("price", Optional(Decimal(2))),
    Column("day", Date()),
    Column("at", Datetime()),
    Column("tags", Optional(List(Int()))),
)
KEYS = {
    "user": (Str(), ("a", "b", "å" * 9)),
    "number": (Int(), (-1, 0, 2**40)),
    "is_new": (Bool(), (True, False)),
    "fee": (Decimal(2), (0, 199, -5)),
}
INSTANTS = range(-2, 14)


def plan_of(keys: Sequence[str], *, is_correctable: bool, history_us: int | None) -> DatasetPlan:
    named = tuple(Column(name, KEYS[name][0]) for name in keys)
    log = LogSpec(shape=LogShape.KEYED, keys=named, values=VALUES, time_field="seen_at")
    schema = Schema(
        (
            *(Field(name=c.name, type=c.type, role=Role.KEY) for c in named),
            *(Field(name=c.name, type=c.type) for c in VALUES),
            Field(name="seen_at", type=Datetime(), role=Role.TIMESTAMP),
        )
    )
    return DatasetPlan(
        name="D",
        version=1,
        schema=schema,
        log=log,
        aggregates=(),
        ladder_us=(),
        online=True,
        offline=True,
        correctable=is_correctable,
        history_us=history_us,
        disorder_us=2 if history_us is not None else 0,
    )


@attrs.frozen
class Case:
    """A history, and lookups of it below some offsets."""

    plan: DatasetPlan
    rows: list[LogRow]
    limits: dict[int, int]
    keys: list[tuple[Cell, ...]]
    as_of: list[int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=3, unique=True))
    is_correctable = draw(st.booleans())
    plan = plan_of(
        names,
        is_correctable=is_correctable,
        history_us=draw(st.sampled_from([None, 0, 3, 100])),
    )
    keys = st.tuples(*(st.sampled_from(KEYS[name][1]) for name in names))
    count = draw(st.integers(0, 25))
    # A fact may arrive twice: then it has the same version and the same content.
    versions = draw(st.permutations(range(count)))
    facts = [draw(states(plan, keys, version)) for version in versions]
    again = draw(st.lists(st.sampled_from(facts), max_size=3)) if facts else []
    rows: list[LogRow] = []
    ends = {0: 0, 1: 0}
    for fact in (*facts, *again):
        partition = sum(key_bytes(plan.log.keys, fact.key)) % 2
        rows.append(LogRow(partition, ends[partition], fact))
        ends[partition] += 1
    limits = {p: draw(st.integers(0, end)) for p, end in ends.items()}
    asked = draw(st.lists(st.tuples(keys, st.sampled_from(INSTANTS)), max_size=20))
    return Case(plan, rows, limits, [key for key, _ in asked], [at for _, at in asked])


@st.composite
def states(
    draw: st.DrawFn, plan: DatasetPlan, keys: st.SearchStrategy[tuple[Cell, ...]], version: int
) -> Fact:
    key, at = draw(keys), draw(st.sampled_from(INSTANTS))
    fact = Fact(
        row_id=keyed_row_id(key_bytes(plan.log.keys, key), at),
        version=Version(version.to_bytes(2)),
        event_time=at,
        key=key,
        values=(
            draw(st.sampled_from(["", "x", "å"])),
            draw(st.sampled_from([None, -3, 2**62])),
            draw(st.sampled_from([0.5, -0.0, float("inf")])),
            draw(st.sampled_from([None, 1999, -1])),
            draw(st.integers(-5, 5)),
            draw(st.integers(-5, 5)),
            draw(st.sampled_from([None, (), (1, 2)])),
        ),
    )
    kinds = ["row", "row", "absence", *(["retraction"] if plan.correctable else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "row":
        return fact
    absent = attrs.evolve(fact, values=(None,) * len(VALUES), alive=False)
    return absent if kind == "absence" else attrs.evolve(absent, event_time=TOMBSTONE_TIME)


def asked_of(case: Case) -> AskedKeys:
    """Return the keys of a case as a lookup gets them."""
    columns = list(zip(*case.keys, strict=True)) or [()] * len(case.plan.log.keys)
    keys = [
        series_of(key_name(column), cells, optional(column.type))
        for column, cells in zip(case.plan.log.keys, columns, strict=True)
    ]
    as_of = pl.Series(case.as_of, dtype=pl.Int64)
    return AskedKeys(keys=pl.DataFrame(keys), as_of=as_of, take=VALUES)


def results_of(rows: pl.DataFrame) -> list[LookupResult | None]:
    """Return the rows that a lookup of all values found."""
    cells = zip(
        *(cells_of(rows[value_name(column)], column.type) for column in VALUES), strict=True
    )
    return [
        LookupResult(values=values, event_time=event_time) if is_found else None
        for values, event_time, is_found in zip(cells, rows[EVENT_TIME], rows[FOUND], strict=True)
    ]


def found_by_kernel(case: Case) -> list[LookupResult | None]:
    read = [r for r in case.rows if r.offset < case.limits[r.partition]]
    table = pl.DataFrame(pl.from_arrow(to_table(case.plan.log, read)))
    rows = look_up_in_memory(KeyedStates, case.plan.index, table.select, asked_of(case))
    assert rows.height == len(case.keys)
    return results_of(rows)


def found_by_index(case: Case) -> tuple[list[LookupResult | None], int | None]:
    """Return the answers of an index that has read up to the offsets, and its newest row."""
    index = InMemoryIndex(case.plan.index)
    facts = [row.fact for row in case.rows if row.offset < case.limits[row.partition]]
    index.apply(facts, offsets={}, epoch=1)
    with index.read() as reader:
        return reader.lookup(case.keys, case.as_of), reader.newest


@given(cases())
def test_the_kernel_finds_what_an_index_finds(case: Case) -> None:
    assert is_answered(case.plan, VALUES)

    assert found_by_kernel(case) == found_by_index(case)[0]


@settings(max_examples=20)
@given(cases())
def test_the_kernel_finds_what_a_historical_lookup_finds(case: Case) -> None:
    _, newest = found_by_index(case)
    with tempfile.TemporaryDirectory() as directory:
        playback = HistoricalLookup(case.plan.index, case.rows, directory=Path(directory))
        playback.go_to(case.limits)
        expected = playback.lookup(case.keys, case.as_of, newest=newest)
        playback.close()

    assert found_by_kernel(case) == expected


@pytest.mark.parametrize("is_correctable", [True, False])
def test_keys_with_a_null_find_no_row(is_correctable: bool) -> None:
    plan = plan_of(["user", "number"], is_correctable=is_correctable, history_us=None)
    fact = Fact(
        row_id=keyed_row_id(b"1", 5),
        version=Version(b"1"),
        event_time=5,
        key=("a", 0),
        values=("x", 1, 0.5, None, 1, 2, (3,)),
    )
    keys: list[tuple[Cell, ...]] = [(None, 0), ("a", 0), ("a", None), (None, None)]

    found = found_by_kernel(Case(plan, [LogRow(0, 0, fact)], {0: 1}, keys, [9] * 4))

    assert found == [None, LookupResult(values=fact.values, event_time=5), None, None]


def test_other_shapes_are_refused() -> None:
    plan = plan_of(["user"], is_correctable=False, history_us=None)
    log = plan.log

    def is_answered_with(spec: LogSpec, *take: Column) -> bool:
        return is_answered(attrs.evolve(plan, log=spec), take)

    assert is_answered_with(log)
    assert not is_answered_with(attrs.evolve(log, shape=LogShape.CONTRIBUTIONS))
    assert not is_answered_with(attrs.evolve(log, decays=(Decay("ratio", 1),)))
    assert not is_answered_with(attrs.evolve(log, keys=(Column("ratio", Float()),)))
    assert not is_answered_with(log, Column("map", Map(Decimal(2))))
    assert not is_answered_with(log, Column("prices", List(Decimal(2))))


def test_only_needed_columns_are_read() -> None:
    plan = plan_of(["user"], is_correctable=False, history_us=None)
    table = pl.DataFrame(pl.from_arrow(to_table(plan.log, [])))
    asked: list[list[str]] = []

    def read(names: Sequence[str]) -> pl.DataFrame:
        asked.append(list(names))
        return table.select(names)

    one = AskedKeys(
        keys=pl.DataFrame({"k_user": ["a"]}),
        as_of=pl.Series([1], dtype=pl.Int64),
        take=VALUES[:1],
    )
    look_up_in_memory(KeyedStates, plan.index, read, one)

    assert asked == [["event_time", "alive", "k_user", "v_text"]]

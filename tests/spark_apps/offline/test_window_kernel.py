"""The kernel of windows computes what an index computes that has read the same rows."""

import math
from collections.abc import Sequence

import attrs
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narthex._columnar_query import EVENT_TIME, FOUND, cells_of, key_name, value_name
from narthex._expr.polars.columns import series_of
from narthex._ir.aggregate_specs import (
    AggregateSpec,
    Average,
    Count,
    Max,
    Min,
    Quantile,
    Stddev,
    Sum,
    TypedAggregate,
)
from narthex._ir.aggregate_types import type_aggregate
from narthex._ir.assets import VALIDITY_COLUMNS, DatasetPlan, LogShape, LogSpec
from narthex._ir.facts import TOMBSTONE_TIME, Cell, Fact, RowId, Version
from narthex._ir.schema import Column, Field, Role, Schema
from narthex._ir.types import Date, Datetime, Decimal, Float, Int, Optional, Str, optional
from narthex._ir.windows import Continuous, Tumbling, Window
from narthex_spark_apps.offline.kernel import AskedKeys, InexactError, look_up_in_memory
from narthex_spark_apps.offline.window_kernel import WindowRows, is_answered
from narthex_stores import LogRow, LookupResult, to_table
from narthex_stores.indexes import InMemoryIndex

INPUTS = (
    Column("amount", Optional(Int())),
    Column("price", Optional(Float())),
    Column("fee", Optional(Decimal(2))),
    Column("day", Optional(Date())),
    Column("at", Datetime()),
)
NAMED = {column.name: column.type for column in INPUTS}
WINDOWS = (Continuous(0), Continuous(3), Continuous(50), Continuous("forever"))
INSTANTS = range(-2, 14)
USERS = ("a", "b", "å" * 9)


def aggregates_over(window: Window) -> list[AggregateSpec]:
    return [
        Count(into="rows", window=window),
        Count(into="prices", window=window, of="price", dropnull=True),
        Count(into="all_prices", window=window, of="price"),
        Sum(into="amount", window=window, of="amount"),
        Sum(into="price", window=window, of="price"),
        Sum(into="fee", window=window, of="fee"),
        Average(into="mean_amount", window=window, of="amount"),
        Average(into="mean_price", window=window, of="price", default=None),
        Average(into="mean_fee", window=window, of="fee", default=-1.5),
        Min(into="least_amount", window=window, of="amount"),
        Max(into="most_amount", window=window, of="amount", default=7),
        Min(into="least_price", window=window, of="price", default=0.5),
        Max(into="most_price", window=window, of="price"),
        Max(into="last_day", window=window, of="day"),
        Min(into="first_at", window=window, of="at"),
    ]


def typed(spec: AggregateSpec) -> TypedAggregate:
    of = None if spec.of is None else NAMED[spec.of]
    found = type_aggregate(spec, of)
    assert isinstance(found, TypedAggregate), found
    return found


def plan_of(
    specs: Sequence[AggregateSpec],
    *,
    is_correctable: bool = False,
    history_us: int | None = None,
    values: tuple[Column, ...] = INPUTS,
) -> DatasetPlan:
    aggregates = tuple(map(typed, specs))
    key = Column("user", Str())
    return DatasetPlan(
        name="D",
        version=1,
        schema=Schema(
            (
                Field(name="user", type=Str(), role=Role.KEY),
                *(Field(name=one.spec.into, type=one.output) for one in aggregates),
                Field(name="seen_at", type=Datetime(), role=Role.TIMESTAMP),
            )
        ),
        log=LogSpec(shape=LogShape.CONTRIBUTIONS, keys=(key,), values=values, time_field="seen_at"),
        aggregates=aggregates,
        ladder_us=(),
        online=True,
        offline=True,
        correctable=is_correctable,
        history_us=history_us,
        disorder_us=2 if history_us is not None else 0,
    )


@attrs.frozen
class Case:
    """Rows, and lookups."""

    plan: DatasetPlan
    facts: list[Fact]
    keys: list[tuple[Cell, ...]]
    as_of: list[int]


def take_of(plan: DatasetPlan) -> list[Column]:
    return [Column(one.spec.into, one.output) for one in plan.aggregates]


CELLS = st.tuples(
    st.sampled_from([None, 0, 3, -7, 2**62, -(2**63)]),
    st.sampled_from([None, 0.1, -0.0, 1e16, -1e16, 2.5]),
    st.sampled_from([None, 1999, -1, 10**27]),
    st.sampled_from([None, -5, 20_000]),
    st.integers(-5, 5),
)


@st.composite
def cases(draw: st.DrawFn, *, may_be_correctable: bool = True) -> Case:
    is_correctable = may_be_correctable and draw(st.booleans())
    window = draw(st.sampled_from(WINDOWS))
    plan = plan_of(
        aggregates_over(window),
        is_correctable=is_correctable,
        history_us=draw(st.sampled_from([None, 0, 3, 100])),
    )
    count = draw(st.integers(0, 30))
    facts = [draw(rows(number)) for number in range(count)]
    if is_correctable and facts:
        facts += [draw(corrected(plan, facts, number)) for number in range(draw(st.integers(0, 6)))]
    again = draw(st.lists(st.sampled_from(facts), max_size=3)) if facts else []
    asked = draw(
        st.lists(st.tuples(st.sampled_from(USERS), st.sampled_from(INSTANTS)), max_size=20)
    )
    order = draw(st.permutations([*facts, *again]))
    return Case(plan, list(order), [(user,) for user, _ in asked], [at for _, at in asked])


@st.composite
def rows(draw: st.DrawFn, number: int) -> Fact:
    return Fact(
        row_id=RowId(number.to_bytes(2)),
        version=Version(b"\x00"),
        event_time=draw(st.sampled_from(INSTANTS)),
        key=(draw(st.sampled_from(USERS)),),
        values=draw(CELLS),
    )


@st.composite
def corrected(draw: st.DrawFn, plan: DatasetPlan, facts: Sequence[Fact], number: int) -> Fact:
    """Draw a later state of a row: in another group, at another instant, or retracted."""
    row = draw(st.sampled_from(facts))
    version = Version(bytes([1 + number]))
    if draw(st.booleans()):
        return attrs.evolve(
            row,
            version=version,
            event_time=TOMBSTONE_TIME,
            alive=False,
            values=(None,) * len(plan.log.values),
        )
    return attrs.evolve(draw(rows(0)), row_id=row.row_id, version=version)


def found_by_kernel(case: Case) -> list[LookupResult | None]:
    states = to_table(case.plan.log, [LogRow(0, n, fact) for n, fact in enumerate(case.facts)])
    read = pl.DataFrame(pl.from_arrow(states)).select
    return results_of(case, look_up_in_memory(WindowRows, case.plan.index, read, asked_of(case)))


def asked_of(case: Case) -> AskedKeys:
    """Return the keys of a case as a lookup gets them."""
    keys = [
        series_of(key_name(column), [key[0] for key in case.keys], optional(column.type))
        for column in case.plan.log.keys
    ]
    as_of = pl.Series(case.as_of, dtype=pl.Int64)
    return AskedKeys(keys=pl.DataFrame(keys), as_of=as_of, take=take_of(case.plan))


def results_of(case: Case, found: pl.DataFrame) -> list[LookupResult | None]:
    """Return the aggregates that a lookup found."""
    take = take_of(case.plan)
    assert found.height == len(case.keys)
    cells = zip(*(cells_of(found[value_name(c)], c.type) for c in take), strict=True)
    return [
        LookupResult(values=values, event_time=event_time) if is_found else None
        for values, event_time, is_found in zip(cells, found[EVENT_TIME], found[FOUND], strict=True)
    ]


def found_by_index(case: Case) -> list[LookupResult | None]:
    index = InMemoryIndex(case.plan.index)
    index.apply(case.facts, offsets={}, epoch=1)
    with index.read() as reader:
        return reader.lookup(case.keys, case.as_of)


ROUNDED = {"price", "mean_price"}


def assert_same(case: Case, found: list[LookupResult | None]) -> None:
    """Compare by `==`; sums and means of floats by a relative 1e-9."""
    for one, other in zip(found, found_by_index(case), strict=True):
        if one is None or other is None:
            assert one == other
            continue
        assert one.event_time == other.event_time
        for column, cell, meant in zip(take_of(case.plan), one.values, other.values, strict=True):
            if column.name in ROUNDED and isinstance(cell, float) and isinstance(meant, float):
                assert math.isclose(cell, meant, rel_tol=1e-9), column
            else:
                assert (cell, type(cell)) == (meant, type(meant)), column


@pytest.mark.slow
@given(cases())
def test_the_kernel_computes_what_an_index_computes(case: Case) -> None:
    assert is_answered(case.plan, take_of(case.plan))

    assert_same(case, found_by_kernel(case))


@settings(max_examples=20)
@given(st.data())
def test_long_ranges_are_folded(data: st.DataObject) -> None:
    count = data.draw(st.integers(60, 200))
    facts = [attrs.evolve(data.draw(rows(number)), key=("a",)) for number in range(count)]
    asked = list(INSTANTS)
    case = Case(plan_of(aggregates_over(Continuous(4))), facts, [("a",)] * len(asked), asked)

    assert_same(case, found_by_kernel(case))


@pytest.mark.parametrize("price", [math.inf, -math.inf, math.nan, 1e200])
def test_floats_that_are_not_summed_exactly_are_refused(price: float) -> None:
    fact = Fact(
        row_id=RowId(b"1"),
        version=Version(b""),
        event_time=1,
        key=("a",),
        values=(1, price, None, None, 1),
    )
    case = Case(plan_of(aggregates_over(Continuous(4))), [fact], [("a",)], [2])

    with pytest.raises(InexactError, match="price"):
        found_by_kernel(case)


def test_keys_with_a_null_find_no_row() -> None:
    fact = Fact(row_id=RowId(b"1"), version=Version(b""), event_time=1, key=("a",), values=(1,) * 5)
    case = Case(
        plan_of([Count(into="rows", window=Continuous(4))]), [fact], [(None,), ("a",)], [9, 9]
    )

    assert found_by_kernel(case) == [None, LookupResult(values=(0,), event_time=1)]


def test_other_aggregates_and_windows_are_refused() -> None:
    def is_answered_for(*specs: AggregateSpec) -> bool:
        plan = plan_of(specs)
        return is_answered(plan, take_of(plan))

    window = Continuous(4)
    count = Count(into="rows", window=window)
    assert is_answered_for(count)
    assert not is_answered_for(Count(into="n", window=window, of="amount", unique=True))
    assert not is_answered_for(Stddev(into="n", window=window, of="amount"))
    assert not is_answered_for(Quantile(into="n", window=window, of="price", p=0.5))
    assert not is_answered_for(Min(into="n", window=window, of="fee"))
    assert not is_answered_for(Count(into="n", window=Tumbling(4)))
    ended = plan_of([count], values=(*INPUTS, *VALIDITY_COLUMNS))
    assert not is_answered(ended, take_of(ended))
    both = plan_of([count, Stddev(into="n", window=window, of="amount")])
    assert is_answered(both, take_of(both)[:1])

"""Each aggregate is an algebra: how its rows are ordered and cut changes nothing."""

import math
import statistics
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._aggregates import (
    MissingInputError,
    Sharing,
    algebra,
    fold,
    folding,
    partials,
    seen_until,
)
from narthex._ir.aggregate_specs import (
    AggregateSpec,
    Average,
    Count,
    Distinct,
    ExpDecaySum,
    FirstK,
    LastK,
    Max,
    Min,
    Quantile,
    Stddev,
    Sum,
    TypedAggregate,
)
from narthex._ir.facts import Cell
from narthex._ir.types import (
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Map,
    Optional,
    Str,
    Struct,
    StructField,
)
from narthex._ir.windows import Continuous, Tumbling

W = Continuous("forever")
LATER = 100
_ints = st.none() | st.integers(-(2**63), 2**63 - 1)
_floats = st.none() | st.floats(-1e6, 1e6).map(lambda number: round(number, 3))
_decimals = st.none() | st.integers(-(10**28), 10**28)
_texts = st.none() | st.text("abc", max_size=2)
_maps = st.dictionaries(st.sampled_from("ab"), st.integers(0, 1))
_lists = st.lists(st.integers(0, 2), max_size=2).map(tuple)

CASES: list[tuple[AggregateSpec, DataType, st.SearchStrategy[Cell]]] = [
    (Count(into="n", window=W), Int(), _ints),
    (Count(into="n", window=W, of="x", dropnull=True), Optional(Int()), _ints),
    (Count(into="n", window=W, of="x", unique=True), Optional(Str()), _texts),
    (Count(into="n", window=W, of="x", unique=True, approx=True), Optional(Str()), _texts),
    *(
        (spec, of, cells)
        for of, cells in ((Int(), _ints), (Float(), _floats), (Decimal(2), _decimals))
        for spec in (
            Sum(into="s", window=W, of="x"),
            Average(into="a", window=W, of="x"),
            Stddev(into="d", window=W, of="x"),
            Min(into="l", window=W, of="x", default=5),
            Max(into="m", window=W, of="x"),
            Quantile(into="q", window=W, of="x", p=0.5),
            Quantile(into="q", window=W, of="x", p=1.0, default=-1.0),
            Quantile(into="q", window=W, of="x", p=0.25, approx=True),
            ExpDecaySum(into="e", window=W, of="x", half_life_us=3),
        )
    ),
    *(
        (spec, of, _ints)
        for of in (Date(), Datetime(), Optional(Datetime()))
        for spec in (Min(into="l", window=W, of="x"), Max(into="m", window=W, of="x", default=7))
    ),
    *(
        (spec, of, cells)
        for of, cells in (
            (Optional(Str()), _texts),
            (List(Int()), _lists),
            (Decimal(1), _decimals),
        )
        for spec in (
            FirstK(into="f", window=W, of="x", limit=3, dedup=False, dropnull=False),
            FirstK(into="f", window=W, of="x", limit=2, dedup=True, dropnull=True),
            Distinct(into="s", window=W, of="x", unordered=True),
            Distinct(into="s", window=W, of="x", unordered=False, dropnull=True),
        )
    ),
    (LastK(into="k", window=W, of="x", limit=3, dedup=False), Optional(Str()), _texts),
    (LastK(into="k", window=W, of="x", limit=3, dedup=True), Optional(Str()), _texts),
    (LastK(into="k", window=W, of="x", limit=2, dedup=True, dropnull=True), Str(), _texts),
    (LastK(into="k", window=W, of="x", limit=2, dedup=True), List(Int()), _lists),
    (LastK(into="k", window=W, of="x", limit=2, dedup=False), Decimal(1), _decimals),
    (LastK(into="k", window=W, of="x", limit=2, dedup=True), Optional(Float()), _floats),
    (LastK(into="k", window=W, of="x", limit=2, dedup=True), Map(Int()), _maps),
    (
        FirstK(into="f", window=W, of="x", limit=2, dedup=True, dropnull=False),
        Struct("P", (StructField("a", Int()),)),
        st.fixed_dictionaries({"a": st.integers(0, 2)}),
    ),
]


def _same(found: Cell, wanted: Cell) -> bool:
    if isinstance(found, float) and isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-7)
    return found == wanted


@pytest.mark.parametrize("case", CASES, ids=str)
@given(data=st.data())
def test_batches_and_their_order_do_not_change_the_value(
    case: tuple[AggregateSpec, DataType, st.SearchStrategy[Cell]], data: st.DataObject
) -> None:
    spec, of, strategy = case
    found = algebra(TypedAggregate(spec, of, of))
    cells = data.draw(st.lists(strategy, max_size=8))
    rows = [((index // 2, bytes([index])), cell) for index, cell in enumerate(cells)]
    whole = found.finish(found.gather(cells, [order for order, _ in rows]), LATER)
    shuffled = data.draw(st.permutations(rows))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    pieces = [
        shuffled[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True)
    ]
    states = [found.gather([c for _, c in piece], [o for o, _ in piece]) for piece in pieces]
    stored = [msgspec.msgpack.decode(msgspec.msgpack.encode(state)) for state in states]

    left = found.identity()
    right = found.identity()
    for state in stored:
        left = found.merge(left, state)
        right = found.merge(state, right)
    one_by_one = found.identity()
    for order, cell in shuffled:
        one_by_one = found.add(one_by_one, order, cell)
    each = found.each([c for _, c in shuffled], [o for o, _ in shuffled])

    assert _same(found.finish(left, LATER), whole)
    assert _same(found.finish(right, LATER), whole)
    assert _same(found.finish(found.merge_all(stored), LATER), whole)
    assert _same(found.finish(found.merge_all(each), LATER), whole)
    assert _same(found.finish(one_by_one, LATER), whole)
    for state in found.scatter(each, Sharing.of([0] * len(each))):
        assert _same(found.finish(state, LATER), whole)
    pairs = found.merge_pairs(stored, stored[::-1])
    assert all(
        _same(found.finish(pair, LATER), found.finish(found.merge(a, b), LATER))
        for pair, a, b in zip(pairs, stored, stored[::-1], strict=True)
    )


def _value(spec: AggregateSpec, of: DataType | None, cells: Sequence[Cell]) -> Cell:
    found = algebra(TypedAggregate(spec, of, Int()))
    return found.finish(found.gather(cells, [(index, b"") for index in range(len(cells))]), LATER)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_integers_sum_and_spread_exactly(numbers: list[int]) -> None:
    nearest = max(-(2**63), min(2**63 - 1, sum(numbers)))
    assert _value(Sum(into="s", window=W, of="x"), Int(), numbers) == nearest
    found = _value(Stddev(into="d", window=W, of="x"), Int(), numbers)
    assert isinstance(found, float)
    assert math.isclose(found, statistics.pstdev(numbers), rel_tol=1e-12, abs_tol=0)


def test_a_sum_beyond_its_type_is_the_nearest_value_and_comes_back_exactly() -> None:
    ints = algebra(TypedAggregate(Sum(into="s", window=W, of="x"), Int(), Int()))
    beyond = ints.merge(ints.gather([2**63 - 1], [(0, b"")]), ints.gather([7], [(1, b"")]))
    back = ints.merge(beyond, ints.gather([-8], [(2, b"")]))

    assert ints.finish(beyond, LATER) == 2**63 - 1
    assert ints.finish(back, LATER) == 2**63 - 2
    assert _value(Sum(into="s", window=W, of="x"), Int(), [-(2**63), -1]) == -(2**63)
    large = 6 * 10**27
    assert _value(Sum(into="s", window=W, of="x"), Decimal(2), [large, large]) == 10**28 - 1
    assert _value(Sum(into="s", window=W, of="x"), Decimal(2), [-large, -large]) == 1 - 10**28


def test_a_float_sum_keeps_what_cancels() -> None:
    assert _value(Sum(into="s", window=W, of="x"), Float(), (1e16, 1.0, -1e16)) == 1.0


def test_infinite_and_undefined_floats_show() -> None:
    assert _value(Sum(into="s", window=W, of="x"), Float(), (1.0, math.inf)) == math.inf
    for spec in (
        Sum(into="s", window=W, of="x"),
        Average(into="a", window=W, of="x"),
        Stddev(into="d", window=W, of="x"),
        Min(into="l", window=W, of="x"),
        Max(into="m", window=W, of="x"),
    ):
        found = _value(spec, Float(), (1.0, math.nan, math.inf, 3.0))
        assert isinstance(found, float)
        assert math.isnan(found)


def test_no_rows_give_the_empty_value_or_the_default() -> None:
    assert _value(Count(into="n", window=W), None, ()) == 0
    assert _value(Sum(into="s", window=W, of="x"), Float(), (None,)) == 0.0
    assert _value(Average(into="a", window=W, of="x"), Int(), ()) == 0.0
    assert _value(Average(into="a", window=W, of="x", default=None), Int(), ()) is None
    assert _value(Stddev(into="d", window=W, of="x"), Float(), ()) == -1.0
    assert _value(Min(into="l", window=W, of="x"), Int(), (None,)) is None
    assert _value(Min(into="l", window=W, of="x", default=91), Decimal(2), ()) == 91
    assert _value(Min(into="l", window=W, of="x", default=19_000), Date(), (None,)) == 19_000
    assert _value(Max(into="m", window=W, of="x", default=1), Float(), ()) == 1.0
    assert _value(LastK(into="k", window=W, of="x", limit=2, dedup=False), Str(), ()) == ()
    first = FirstK(into="k", window=W, of="x", limit=2, dedup=False, dropnull=True)
    assert _value(first, Optional(Str()), (None,)) == ()
    assert _value(Distinct(into="k", window=W, of="x", unordered=True), Str(), ()) == ()
    assert _value(Quantile(into="q", window=W, of="x", p=0.5), Float(), (None,)) is None
    assert _value(Quantile(into="q", window=W, of="x", p=0.5, default=2), Int(), ()) == 2.0
    assert _value(ExpDecaySum(into="e", window=W, of="x", half_life_us=1), Int(), (None,)) == 0.0


def test_zero_is_an_extreme_and_one_value_spreads_by_nothing() -> None:
    assert _value(Min(into="l", window=W, of="x", default=5), Int(), (0, 3)) == 0
    assert _value(Stddev(into="d", window=W, of="x"), Float(), (2.5,)) == 0.0


def test_decimals_keep_their_scale_and_averages_of_them_are_floats() -> None:
    assert _value(Sum(into="s", window=W, of="x"), Decimal(2), (150, 25)) == 175
    assert _value(Average(into="a", window=W, of="x"), Decimal(2), (150, 25)) == 0.875
    assert _value(Stddev(into="d", window=W, of="x"), Decimal(1), (10, 30)) == 1.0


def test_the_last_values_come_newest_first_and_ties_by_row_id() -> None:
    found = algebra(
        TypedAggregate(LastK(into="k", window=W, of="x", limit=3, dedup=True), Str(), List(Str()))
    )

    state = found.gather(("a", "b", "a", "c"), ((1, b"1"), (5, b"2"), (5, b"1"), (2, b"1")))

    assert found.finish(state, LATER) == ("b", "a", "c")


@pytest.mark.parametrize(
    ("p", "found"), [(0.0, 1.0), (0.24, 1.0), (0.25, 2.0), (0.5, 3.0), (0.99, 4.0), (1.0, 4.0)]
)
def test_a_quantile_is_the_element_at_the_floor_of_its_share(p: float, found: float) -> None:
    assert _value(Quantile(into="q", window=W, of="x", p=p), Int(), (4, None, 2, 3, 1)) == found


_wide = st.floats(1e-9, 1e9) | st.floats(-1e9, -1e-9) | st.just(0.0)


@given(st.lists(_wide, min_size=20, max_size=40), st.floats(0, 1), st.integers(1, 30))
def test_an_approximate_quantile_is_exact_of_few_and_within_one_percent_of_many(
    numbers: list[float], p: float, pieces: int
) -> None:
    spec = Quantile(into="q", window=W, of="x", p=p, approx=True)
    found = algebra(TypedAggregate(spec, Float(), Float()))
    many = numbers * 60
    orders = [(0, b"")] * len(many)

    whole = found.gather(many, orders)
    cut = [found.gather(many[i::pieces], orders[i::pieces]) for i in range(pieces)]

    assert found.merge_all(cut) == whole
    exact = _value(Quantile(into="q", window=W, of="x", p=p), Float(), many)
    near = found.finish(whole, LATER)
    assert isinstance(exact, float)
    assert isinstance(near, float)
    assert math.isclose(near, exact, rel_tol=0.0101, abs_tol=0)
    assert (
        _value(spec, Float(), numbers)
        == sorted(numbers)[min(math.floor(p * len(numbers)), len(numbers) - 1)]
    )


def test_an_approximate_quantile_keeps_the_order_of_what_no_bucket_holds() -> None:
    numbers = [-math.inf, -1e308, -5e-324, 0.0, 5e-324, 1e308, math.inf, math.nan]

    def at(p: float) -> Cell:
        return _value(
            Quantile(into="q", window=W, of="x", p=p, approx=True), Float(), numbers * 200
        )

    found = [at(place / len(numbers)) for place in range(len(numbers))]

    assert found[0] == -math.inf
    assert found[3] == 0.0
    assert found[6] == math.inf
    assert [one for one in found if isinstance(one, float) and math.isnan(one)] == found[7:]
    assert found[:7] == sorted(found[:7], key=lambda one: one if isinstance(one, float) else 0)
    for near, exact in ((found[1], -1e308), (found[5], 1e308)):
        assert isinstance(near, float)
        assert math.isclose(near, exact, rel_tol=0.0101)


def test_quantiles_of_decimals_are_floats_and_nan_sorts_last() -> None:
    low, high = (Quantile(into="q", window=W, of="x", p=p) for p in (0.0, 1.0))

    assert _value(low, Decimal(2), (150, 10**30, 25)) == 0.25
    assert _value(high, Decimal(2), (150, 10**30, 25)) == 1e28
    assert _value(low, Float(), (math.nan, 2.0, math.inf)) == 2.0
    undefined = _value(high, Float(), (math.nan, 2.0, math.inf))
    assert isinstance(undefined, float)
    assert math.isnan(undefined)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from([None, "a", "b", "c"])), max_size=12),
    st.integers(1, 4),
)
def test_first_and_distinct_values_match_their_definition(
    rows: list[tuple[int, str | None]], limit: int
) -> None:
    ordered = [
        cell for _, _, cell in sorted((at, i, c) for i, (at, c) in enumerate(rows) if c is not None)
    ]
    once = list(dict.fromkeys(ordered))
    cells, orders = [cell for _, cell in rows], [(at, bytes([i])) for i, (at, _) in enumerate(rows)]

    def value(spec: AggregateSpec) -> Cell:
        made = algebra(TypedAggregate(spec, Optional(Str()), List(Str())))
        return made.finish(made.gather(cells, orders), LATER)

    first = {"into": "f", "window": W, "of": "x", "limit": limit, "dropnull": True}
    assert value(FirstK(dedup=False, **first)) == tuple(ordered[:limit])
    assert value(FirstK(dedup=True, **first)) == tuple(once[:limit])
    distinct = Distinct(into="s", window=W, of="x", unordered=True, dropnull=True)
    assert value(distinct) == tuple(once)


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(-1000, 1000)), min_size=1, max_size=9),
    st.integers(1, 5000),
    st.integers(0, 20_000),
    st.data(),
)
def test_a_sum_decays_by_the_microsecond_to_the_instant_of_the_question(
    rows: list[tuple[int, int]], half_life_us: int, later: int, data: st.DataObject
) -> None:
    spec = ExpDecaySum(into="e", window=W, of="x", half_life_us=half_life_us)
    made = algebra(TypedAggregate(spec, Int(), Float()))
    as_of = max(at for at, _ in rows) + later
    exact = math.fsum(x * 2.0 ** (-(as_of - at) / half_life_us) for at, x in rows)
    size = math.fsum(abs(x) * 2.0 ** (-(as_of - at) / half_life_us) for at, x in rows)

    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    parts = [
        made.gather([x for _, x in part], [(at, b"") for at, _ in part])
        for part in (shuffled[:cut], shuffled[cut:])
    ]
    found = made.finish(made.merge(*parts), as_of)

    assert isinstance(found, float)
    assert math.isclose(found, exact, rel_tol=1e-9, abs_tol=size * 1e-12)


def test_a_value_halves_once_a_half_life_and_what_cancels_leaves_nothing() -> None:
    spec = ExpDecaySum(into="e", window=W, of="x", half_life_us=10)
    made = algebra(TypedAggregate(spec, Decimal(1), Float()))
    state = made.gather((80,), ((7, b""),))

    assert [made.finish(state, as_of) for as_of in (7, 17, 27)] == [8.0, 4.0, 2.0]
    both = made.merge(state, made.gather((-40, 0), ((-3, b""), (10**12, b""))))
    assert made.finish(both, 10**12) == 0.0
    assert made.finish(made.merge(state, made.gather((-160,), ((17, b""),))), 17) == -12.0


def test_a_decaying_sum_with_a_lookback_shows_the_earlier_value() -> None:
    shown, then = (
        fold((TypedAggregate(spec, Int(), Float()),), ("x",), [(7, b"", (80,))], as_of)
        for spec, as_of in (
            (
                ExpDecaySum(into="e", window=Tumbling(10, lookback=20), of="x", half_life_us=10),
                37,
            ),
            (ExpDecaySum(into="e", window=Tumbling(10), of="x", half_life_us=10), 17),
        )
    )

    assert shown == then == (40.0,)


def test_an_approximate_count_is_within_two_percent_and_blind_to_cuts() -> None:
    spec = Count(into="n", window=W, of="x", unique=True, approx=True)
    found = algebra(TypedAggregate(spec, Int(), Int()))
    cells = tuple(range(20_000))
    orders = [(0, b"")] * len(cells)

    whole = found.gather(cells, orders)
    pieces = [found.gather(cells[i : i + 700], orders[i : i + 700]) for i in range(0, 20_000, 700)]

    assert found.merge_all(pieces) == whole
    value = found.finish(whole, LATER)
    assert isinstance(value, int)
    assert abs(value - len(cells)) < 0.02 * len(cells)


def test_aggregates_that_differ_only_in_window_share_a_state() -> None:
    first = Sum(into="a", window=Continuous("1h"), of="x")
    second = Sum(into="b", window=Continuous("1d"), of="x")
    third = Sum(into="c", window=Continuous("1d"), of="y")
    typed = tuple(TypedAggregate(spec, Int(), Int()) for spec in (first, second, third))

    assert [(p.kind, p.of) for p in partials(typed)] == [("Sum", "x"), ("Sum", "y")]
    assert [slot.partial for slot in folding(typed, ("x", "y")).slots] == [0, 0, 1]


def test_a_fold_is_exact_at_both_ends() -> None:
    typed = (TypedAggregate(Count(into="n", window=Continuous(10)), None, Int()),)
    rows = [(90, b"r", ()), (100, b"s", ())]

    counts = [fold(typed, (), rows, as_of) for as_of in (89, 90, 100, 101, 110, 111)]

    assert counts == [(0,), (1,), (2,), (1,), (1,), (0,)]


def test_a_discrete_window_shows_rows_only_after_it_closes() -> None:
    typed = (TypedAggregate(Count(into="n", window=Tumbling(10)), None, Int()),)

    assert [seen_until(typed, as_of) for as_of in (9, 10, 19, 20)] == [-1, 9, 9, 19]


def test_an_aggregate_of_an_unknown_column_is_refused() -> None:
    with pytest.raises(MissingInputError):
        algebra(TypedAggregate(Sum(into="s", window=W, of="x"), None, Int()))
    with pytest.raises(MissingInputError):
        algebra(TypedAggregate(Count(into="n", window=W, of="x", unique=True), None, Int()))

"""The contract of every index, against an oracle that is the definition; engines inherit it."""

import math
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from random import Random  # noqa: TID251 - seeded below

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narthex._aggregates.tiles import DIVIDED_ABOVE, ladder, parts
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.aggregate_specs import (
    AggregateSpec,
    Average,
    Count,
    Distinct,
    ExpDecaySum,
    FirstK,
    LastK,
    Max,
    Quantile,
    Stddev,
    Sum,
    TypedAggregate,
)
from narthex._ir.assets import IndexSpec, LogShape, LogSpec
from narthex._ir.facts import TOMBSTONE_TIME, Cell, Fact, RowId, Version
from narthex._ir.schema import Column
from narthex._ir.types import (
    Bool,
    DataType,
    Decimal,
    Float,
    Int,
    List,
    Optional,
    Str,
    Struct,
    StructField,
)
from narthex._ir.windows import Continuous, Tumbling, Window
from narthex_stores.indexes import (
    IndexFenced,
    InMemoryIndex,
    Invalidation,
    LookupResult,
    NotCorrectableError,
    WritableIndex,
    WrongShapeError,
)

USER = Column("user", Str())
KEYS: tuple[str, ...] = ("a", "b", "long " * 60)
VALUES = (Column("amount", Optional(Int())), Column("price", Optional(Float())))
CONTRIBUTIONS = LogSpec(shape=LogShape.CONTRIBUTIONS, keys=(USER,), values=VALUES, time_field="at")
KEYED = LogSpec(
    shape=LogShape.KEYED,
    keys=(USER,),
    values=(Column("price", Optional(Decimal(2))), Column("tags", Optional(List(Str())))),
    time_field="at",
)
ROWS = LogSpec(
    shape=LogShape.ROWS,
    keys=(),
    values=(Column("user", Optional(Str())), Column("ok", Bool())),
    time_field="at",
)
HALF_LIFE_US = 10
EMPTY: tuple[Cell, ...] = (0, 0, 0.0, -1.0, -1, (), (), (), -1.0, 0.0, -2.0)
"""The values of aggregates without rows."""
WINDOWS: tuple[Window, ...] = (Continuous(0), Continuous(7), Continuous(40), Continuous("forever"))
LADDERS: tuple[tuple[int, ...], ...] = ((), (5,), (10, 30), (4, 12, 24))
PARTS: dict[tuple[int, ...], tuple[tuple[int, ...], int]] = {
    (10, 30): ((5, 1), 3),
    (4, 12, 24): ((2, 1), 2),
}
"""For ladders whose finest tiles are divided: the lengths of parts, and above how many rows."""


def aggregates_over(windows: Iterable[Window]) -> tuple[TypedAggregate, ...]:
    """Ask every kind of state over each window."""
    found: list[TypedAggregate] = []
    for window in windows:
        asked: tuple[tuple[AggregateSpec, DataType | None], ...] = (
            (Count(into="n", window=window), None),
            (Sum(into="s", window=window, of="amount"), Int()),
            (Average(into="a", window=window, of="price"), Float()),
            (Stddev(into="d", window=window, of="amount"), Int()),
            (Max(into="m", window=window, of="amount", default=-1), Int()),
            (LastK(into="k", window=window, of="amount", limit=2, dedup=True), Optional(Int())),
            (
                FirstK(into="f", window=window, of="amount", limit=2, dedup=True, dropnull=True),
                Optional(Int()),
            ),
            (Distinct(into="u", window=window, of="amount", unordered=True), Optional(Int())),
            (
                Quantile(into="q", window=window, of="price", p=0.5, default=-1.0, approx=True),
                Float(),
            ),
            (ExpDecaySum(into="e", window=window, of="amount", half_life_us=HALF_LIFE_US), Int()),
            (
                Quantile(into="x", window=window, of="price", p=0.9, default=-2.0, approx=False),
                Float(),
            ),
        )
        found += [TypedAggregate(spec, of, Int()) for spec, of in asked]
    return tuple(found)


def contributions_spec(
    ladder_us: tuple[int, ...],
    *,
    correctable: bool = False,
    windows: Sequence[Window] = WINDOWS,
) -> IndexSpec:
    """Describe an index of contributions; some ladders have parts."""
    parts_us, divided_above = PARTS.get(ladder_us, ((), 0))
    return IndexSpec(
        log=CONTRIBUTIONS,
        aggregates=aggregates_over(windows),
        ladder_us=ladder_us,
        correctable=correctable,
        parts_us=parts_us,
        divided_above=divided_above,
    )


def contribution(
    row_id: bytes,
    at: int,
    *cells: Cell,
    user: str = "a",
    version: bytes = b"\x00",
    alive: bool = True,
) -> Fact:
    """Make a fact of the contributions."""
    return Fact(
        row_id=RowId(row_id),
        version=Version(version),
        event_time=at,
        key=(user,),
        values=cells or (1, 1.0),
        alive=alive,
    )


def row(user: str, at: int, version: bytes, *cells: Cell, alive: bool = True) -> Fact:
    """Make a keyed fact."""
    return Fact(
        row_id=keyed_row_id(key_bytes((USER,), (user,)), at),
        version=Version(version),
        event_time=at,
        key=(user,),
        values=cells or (None, None),
        alive=alive,
    )


def taken_back(fact: Fact) -> Fact:
    """Turn a keyed fact into a tombstone of its row."""
    return attrs.evolve(fact, event_time=TOMBSTONE_TIME, values=(None, None), alive=False)


def standing(facts: Iterable[Fact]) -> list[Fact]:
    """Return the state of each row with the greatest version: the definition of a dataset."""
    newest: dict[bytes, Fact] = {}
    for fact in facts:
        if fact.row_id not in newest or newest[fact.row_id].version < fact.version:
            newest[fact.row_id] = fact
    return list(newest.values())


def expected_fold(
    facts: Sequence[Fact], user: str, as_of: int, windows: Sequence[Window]
) -> LookupResult | None:
    """Return what a lookup must find, by definition and without an algebra."""
    known = [f for f in standing(facts) if f.key == (user,) and f.event_time <= as_of and f.alive]
    if not known:
        return None
    values: list[Cell] = []
    for window in windows:
        assert isinstance(window, Continuous)
        first = -math.inf if window.duration is None else as_of - window.duration
        rows = sorted(
            (f for f in known if f.event_time >= first),
            key=lambda f: (f.event_time, f.row_id),
        )
        values += _values_of(rows, as_of)
    return LookupResult(values=tuple(values), event_time=max(f.event_time for f in known))


def _values_of(rows: Sequence[Fact], as_of: int) -> list[Cell]:
    amounts = [f.values[0] for f in rows if isinstance(f.values[0], int)]
    prices = [f.values[1] for f in rows if isinstance(f.values[1], float)]
    mean = sum(amounts) / len(amounts) if amounts else 0.0
    spread = sum((amount - mean) ** 2 for amount in amounts)
    return [
        len(rows),
        sum(amounts),
        math.fsum(prices) / len(prices) if prices else 0.0,
        math.sqrt(spread / len(amounts)) if amounts else -1.0,
        max(amounts, default=-1),
        tuple(dict.fromkeys(f.values[0] for f in reversed(rows)))[:2],
        tuple(dict.fromkeys(amounts))[:2],
        tuple(dict.fromkeys(f.values[0] for f in rows)),
        sorted(prices)[min(len(prices) // 2, len(prices) - 1)] if prices else -1.0,
        math.fsum(
            amount * 2.0 ** ((f.event_time - as_of) / HALF_LIFE_US)
            for f in rows
            if isinstance(amount := f.values[0], int)
        ),
        sorted(prices)[min(math.floor(0.9 * len(prices)), len(prices) - 1)] if prices else -2.0,
    ]


def same(found: LookupResult | None, wanted: LookupResult | None) -> bool:
    """Compare answers; floats to 1e-9."""
    if found is None or wanted is None:
        return found is wanted
    return found.event_time == wanted.event_time and all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
        if isinstance(a, float) and isinstance(b, float)
        else a == b
        for a, b in zip(found.values, wanted.values, strict=True)
    )


_times = st.integers(-30, 90)
_versions = st.sampled_from([b"\x00", b"\x01", b"\x01\x00", b"\x02"])
_amounts = st.none() | st.integers(-3, 3)
_prices = st.none() | st.integers(-8, 8).map(lambda number: number / 8)
_row_ids = st.integers(0, 12).map(lambda number: b"r%02d" % number) | st.integers(0, 2).map(
    lambda number: b"long" * 80 + bytes([number])
)
free_contributions = st.builds(
    lambda row_id, at, amount, price, user, version, alive: contribution(
        row_id, at, amount, price, user=user, version=version, alive=alive
    ),
    _row_ids,
    _times,
    _amounts,
    _prices,
    st.sampled_from(KEYS),
    _versions,
    st.sampled_from([True, True, True, False]),
)
hot_contributions = st.builds(
    lambda number, at, amount, price, version, alive: contribution(
        b"r%02d" % number, at, amount, price, version=version, alive=alive
    ),
    st.integers(0, 40),
    st.sampled_from([-1, 0, 4, 5, 5, 5, 5, 6, 7, 9, 9, 10, 11, 12, 14, 15]) | st.integers(-12, 40),
    _amounts,
    _prices,
    st.sampled_from([b"\x00", b"\x00", b"\x01"]),
    st.sampled_from([True, True, True, True, False]),
)
"""Rows of one group that fall together: at the ends of tiles and parts, and at one instant."""
keyed_rows = st.builds(
    lambda user, at, version, price, tags, alive: row(user, at, version, price, tags, alive=alive),
    st.sampled_from(KEYS),
    st.integers(0, 12),
    _versions,
    st.none() | st.integers(-(10**27), 10**27),
    st.none() | st.lists(st.text("xy", max_size=1), max_size=2).map(tuple),
    st.booleans(),
)
_rows_and_ends = st.builds(
    lambda fact, is_taken_back: taken_back(fact) if is_taken_back else fact,
    keyed_rows,
    st.sampled_from([False, False, True]),
)


def _keyed_logs() -> st.SearchStrategy[tuple["Delivery", bool]]:
    """Draw keyed facts and whether rows may be taken back, which a correctable index is for."""
    return st.tuples(deliveries(_rows_and_ends), st.just(value=True)) | st.tuples(
        deliveries(keyed_rows), st.booleans()
    )


def once_a_version(facts: Sequence[Fact]) -> list[Fact]:
    """Keep the first fact of each (row_id, version): a log never has two different ones."""
    kept: dict[tuple[bytes, bytes], Fact] = {}
    for fact in facts:
        kept.setdefault((fact.row_id, fact.version), fact)
    return list(kept.values())


def at_home(facts: Sequence[Fact]) -> list[Fact]:
    """Assign every state of a row the position of the first one: no row moves."""
    home: dict[bytes, Fact] = {}
    for fact in facts:
        home.setdefault(fact.row_id, fact)
    return [
        attrs.evolve(fact, key=home[fact.row_id].key, event_time=home[fact.row_id].event_time)
        for fact in facts
    ]


@attrs.frozen
class Delivery:
    """The facts, and the batches in which a log delivered them: late, twice, in any order."""

    facts: list[Fact]
    batches: list[list[Fact]]


@st.composite
def deliveries(draw: st.DrawFn, facts: st.SearchStrategy[Fact], *, most: int = 24) -> Delivery:
    """Draw facts, repeat some, shuffle them, and cut them into batches."""
    distinct = once_a_version(draw(st.lists(facts, max_size=most)))
    again = draw(st.lists(st.sampled_from(distinct), max_size=6)) if distinct else []
    order = draw(st.permutations([*distinct, *again]))
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=4)))
    batches = [
        order[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(order)], strict=True)
    ]
    return Delivery(distinct, batches)


examples = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)


class IndexSuite:
    """Inherit it and define how to open an empty index, which is closed after the block."""

    def opened(self, spec: IndexSpec) -> AbstractContextManager[WritableIndex]:
        raise NotImplementedError

    @examples
    @given(deliveries(free_contributions), st.sampled_from(LADDERS), st.data())
    def test_corrected_contributions_match_the_definition(
        self, delivery: Delivery, ladder_us: tuple[int, ...], data: st.DataObject
    ) -> None:
        with self.opened(contributions_spec(ladder_us, correctable=True)) as index:
            self._check_folds(index, delivery, delivery.facts, data)

    @examples
    @given(deliveries(free_contributions), st.sampled_from(LADDERS), st.data())
    def test_unmoved_contributions_match_the_definition(
        self, delivery: Delivery, ladder_us: tuple[int, ...], data: st.DataObject
    ) -> None:
        home = {(f.row_id, f.version): f for f in at_home(delivery.facts)}
        batches = [[home[f.row_id, f.version] for f in batch] for batch in delivery.batches]
        settled = Delivery(list(home.values()), batches)
        with self.opened(contributions_spec(ladder_us)) as index:
            self._check_folds(index, settled, settled.facts, data)

    @examples
    @given(
        deliveries(hot_contributions, most=60),
        st.sampled_from([*PARTS]),
        st.booleans(),
        st.data(),
    )
    def test_groups_whose_rows_fall_together_match_the_definition(
        self,
        delivery: Delivery,
        ladder_us: tuple[int, ...],
        correctable: bool,
        data: st.DataObject,
    ) -> None:
        kept = delivery.facts if correctable else at_home(delivery.facts)
        home = {(f.row_id, f.version): f for f in kept}
        batches = [[home[f.row_id, f.version] for f in batch] for batch in delivery.batches]
        with self.opened(contributions_spec(ladder_us, correctable=correctable)) as index:
            self._check_folds(index, Delivery(kept, batches), kept, data)

    def test_thousands_of_rows_within_a_minute_match_the_definition(self) -> None:
        asked = aggregates_over([Continuous("30s"), Continuous("1h"), Tumbling("1s")])
        chosen = tuple(one for one in asked if not isinstance(one.spec, Quantile | ExpDecaySum))
        ladder_us = ladder(chosen)
        spec = IndexSpec(
            log=CONTRIBUTIONS,
            aggregates=chosen,
            ladder_us=ladder_us,
            parts_us=parts(ladder_us),
            divided_above=DIVIDED_ABOVE,
        )
        rng = Random(3)  # noqa: S311 - reproducible, not secret
        began = 1_700_000_000_000_000
        ats = [began + rng.randrange(60_000_000) for _ in range(1_200)] + [began + 7_000_001] * 300
        facts = [
            contribution(b"%05d" % number, at, rng.randrange(9), 0.5)
            for number, at in enumerate(ats)
        ]
        rng.shuffle(facts)
        again = [attrs.evolve(one, version=Version(b"\x01"), values=(4, 1.0)) for one in facts[:40]]
        gone = [attrs.evolve(one, version=Version(b"\x01"), alive=False) for one in facts[40:80]]
        batches = [facts[:50], facts[50:900], facts[900:], again, gone]
        edges = (0, 7_000_000, 7_000_001, 7_000_002, 30_000_000, 37_000_001, 59_999_999, 90_000_000)
        twin = InMemoryIndex(spec)
        with self.opened(spec) as index:
            for batch in batches:
                index.apply(batch, offsets={}, epoch=1)
                twin.apply(batch, offsets={}, epoch=1)
                instants = [began + edge for edge in edges] + [ats[5], ats[6] + 30_000_000]
                with index.read() as reader, twin.read() as expected:
                    found = reader.lookup([("a",)] * len(instants), instants)
                    wanted = expected.lookup([("a",)] * len(instants), instants)
                assert all(same(*pair) for pair in zip(found, wanted, strict=True))

    def _check_folds(
        self, index: WritableIndex, delivery: Delivery, facts: list[Fact], data: st.DataObject
    ) -> None:
        taken = 0
        for batch in delivery.batches:
            applied = index.apply(batch, offsets={("t", 0): taken}, epoch=1)
            taken += len(batch)
            assert applied.fresh + applied.duplicates == len(batch)
        ends = [f.event_time + w for f in facts for w in (-1, 0, 1, 7, 8, 40, 41)]
        moments = data.draw(st.lists(st.sampled_from(ends or [0]) | _times, min_size=1, max_size=6))
        questions = [(user, at) for user in KEYS for at in moments]
        with index.read() as reader:
            found = reader.lookup([(user,) for user, _ in questions], [at for _, at in questions])
        for (user, at), answer in zip(questions, found, strict=True):
            assert same(answer, expected_fold(facts, user, at, WINDOWS)), (user, at)

    @examples
    @given(_keyed_logs(), st.lists(st.integers(-1, 14), min_size=1, max_size=5))
    def test_a_keyed_lookup_is_the_floor_of_the_greatest_versions(
        self, log: tuple[Delivery, bool], moments: list[int]
    ) -> None:
        delivery, correctable = log
        with self.opened(IndexSpec(log=KEYED, correctable=correctable)) as index:
            for batch in delivery.batches:
                index.apply(batch, offsets={}, epoch=1)
            questions = [(user, at) for user in KEYS for at in moments]
            with index.read() as reader:
                found = reader.lookup([(user,) for user, _ in questions], [a for _, a in questions])
        for (user, at), answer in zip(questions, found, strict=True):
            known = [f for f in standing(delivery.facts) if f.key == (user,) and f.event_time <= at]
            newest = max(known, key=lambda fact: fact.event_time, default=None)
            wanted = (
                LookupResult(values=newest.values, event_time=newest.event_time)
                if newest is not None and newest.alive
                else None
            )
            assert answer == wanted

    @examples
    @given(_keyed_logs())
    def test_each_change_of_the_past_is_touched(self, log: tuple[Delivery, bool]) -> None:
        delivery, correctable = log
        moments = list(range(-1, 15))
        keys = [(user,) for user in KEYS for _ in moments]
        with self.opened(IndexSpec(log=KEYED, correctable=correctable)) as index:
            for batch in delivery.batches:
                with index.read() as reader:
                    before = reader.lookup(keys, moments * len(KEYS))
                announced = index.preview_invalidations(batch)
                invalidations = index.apply(batch, offsets={}, epoch=1).invalidations
                with index.read() as reader:
                    after = reader.lookup(keys, moments * len(KEYS))
                for key, at, old, new in zip(keys, moments * len(KEYS), before, after, strict=True):
                    if old != new:
                        assert _covers(invalidations, key, at)
                        assert _covers(announced, key, at)

    @examples
    @given(st.data(), st.booleans())
    def test_rows_by_columns_are_the_current_rows(
        self, data: st.DataObject, correctable: bool
    ) -> None:
        users = st.sampled_from(["a", "b", None])
        strategy = st.builds(
            lambda row_id, at, user, version, alive: Fact(
                row_id=RowId(row_id),
                version=Version(version),
                event_time=at,
                key=(),
                values=(user if alive else None, True),
                alive=alive,
            ),
            _row_ids,
            st.integers(0, 12),
            users,
            _versions if correctable else st.just(b"\x00"),
            st.sampled_from([True, True, False]) if correctable else st.just(True),
        )
        delivery = data.draw(deliveries(strategy))
        first, last = sorted(data.draw(st.tuples(st.integers(-1, 14), st.integers(-1, 14))))
        spec = IndexSpec(log=ROWS, by=("user",), correctable=correctable)
        with self.opened(spec) as index:
            for batch in delivery.batches:
                index.apply(batch, offsets={}, epoch=1)
            for user in ("a", "b", None):
                wanted = sorted(
                    (f for f in standing(delivery.facts) if f.alive and f.values[0] == user),
                    key=lambda fact: (fact.event_time, fact.row_id),
                )
                with index.read() as reader:
                    assert reader.rows((user,), -1, None) == wanted
                    assert reader.rows((user,), first, last) == [
                        f for f in wanted if first <= f.event_time < last
                    ]

    def test_a_replay_changes_nothing_and_touches_nothing(self) -> None:
        facts = [row("a", at, b"v", 1, ()) for at in (1, 5)]
        moved = [contribution(b"r", 5), contribution(b"r", 6, version=b"\x01")]
        with self.opened(IndexSpec(log=KEYED)) as index:
            first = index.apply(facts, offsets={}, epoch=1)
            again = index.apply(facts, offsets={}, epoch=1)
        for correctable in (True, False):
            spec = contributions_spec((4,), correctable=correctable)
            with self.opened(spec) as index:
                index.apply(moved, offsets={}, epoch=1)
                assert index.apply(moved, offsets={}, epoch=1).fresh == 0

        assert (first.fresh, first.duplicates) == (2, 0)
        assert (again.fresh, again.duplicates, again.invalidations) == (0, 2, ())

    def test_a_touched_span_ends_where_the_next_version_begins(self) -> None:
        with self.opened(IndexSpec(log=KEYED)) as index:
            index.apply([row("a", 7, b"v", 1, ()), row("b", 6, b"v", 1, ())], offsets={}, epoch=1)
            late = [row("a", 6, b"v", 1, ()), row("a", 7, b"w", 1, ())]
            announced = index.preview_invalidations(late)
            applied = index.apply(late, offsets={}, epoch=1)

        spans = (
            Invalidation(key=("a",), from_us=6, to_us=7),
            Invalidation(key=("a",), from_us=7, to_us=None),
        )
        assert applied.invalidations == spans
        assert announced == spans

    def test_a_retracted_row_uncovers_the_previous_one(self) -> None:
        second = row("a", 7, b"\x01", 2, ())
        steps = (
            [row("a", 5, b"\x01", 1, ()), second],
            [taken_back(attrs.evolve(second, version=Version(b"\x02")))],
            [second],
            [attrs.evolve(second, version=Version(b"\x03"))],
        )
        with self.opened(IndexSpec(log=KEYED, correctable=True)) as index:
            seen = []
            for facts in steps:
                announced = index.preview_invalidations(facts)
                invalidations = index.apply(facts, offsets={}, epoch=1).invalidations
                with index.read() as reader:
                    (found,) = reader.lookup([("a",)], [9])
                seen.append((found.values[0] if found else None, announced, invalidations))
            with index.read() as reader:
                last = reader.floor([("a",)], [TOMBSTONE_TIME - 1], not_before=[6])

        span = (Invalidation(key=("a",), from_us=7, to_us=None),)
        assert [value for value, _, _ in seen] == [2, 1, 1, 2]
        assert [announced for _, announced, _ in seen[1:]] == [span, (), span]
        assert [invalidations for _, _, invalidations in seen[1:]] == [span, (), span]
        assert last[0] is not None

    def test_an_index_without_corrections_refuses_a_retraction(self) -> None:
        gone = taken_back(row("a", 5, b"v", 1, ()))
        with self.opened(IndexSpec(log=KEYED)) as index:
            with pytest.raises(NotCorrectableError):
                index.apply([gone], offsets={("t", 0): 1}, epoch=1)

            assert index.offsets() == {}

    def test_a_row_that_was_retracted_never_was(self) -> None:
        gone = contribution(b"r", 5, None, None, version=b"\x01", alive=False)
        for correctable in (True, False):
            with self.opened(contributions_spec((4,), correctable=correctable)) as index:
                index.apply([contribution(b"r", 5, 2, 0.5)], offsets={}, epoch=1)
                with index.read() as reader:
                    before = reader.lookup([("a",), ("a",), ("b",)], [4, 5, 5])
                index.apply([gone], offsets={}, epoch=1)
                with index.read() as reader:
                    (alone,) = reader.lookup([("a",)], [9])
                index.apply([contribution(b"q", 3, 2, 0.5)], offsets={}, epoch=1)
                with index.read() as reader:
                    (other,) = reader.lookup([("a",)], [60])

            assert [found is not None for found in before] == [False, True, False]
            assert alone is None
            assert other is not None
            assert other.event_time == 3
            assert other.values[: len(EMPTY)] == EMPTY

    def test_a_retraction_may_come_before_its_row(self) -> None:
        gone = contribution(b"r", 5, None, None, version=b"\x01", alive=False)
        for correctable in (True, False):
            with self.opened(contributions_spec((4,), correctable=correctable)) as index:
                index.apply([gone], offsets={}, epoch=1)
                applied = index.apply([contribution(b"r", 5, 2, 0.5)], offsets={}, epoch=1)
                with index.read() as reader:
                    (found,) = reader.lookup([("a",)], [9])

            assert applied.duplicates == 1
            assert found is None

    def test_a_row_that_changes_its_group_leaves_the_old_one_as_if_it_never_was(self) -> None:
        with self.opened(contributions_spec((4,), correctable=True)) as index:
            index.apply([contribution(b"r", 5)], offsets={}, epoch=1)
            index.apply([contribution(b"r", 6, user="b", version=b"\x01")], offsets={}, epoch=1)
            with index.read() as reader:
                old, new = reader.lookup([("a",), ("b",)], [9, 9])

        assert old is None
        assert new is not None
        assert new.values[0] == 0
        assert new.values[-7] == 1

    def test_a_discrete_window_shows_when_it_closes(self) -> None:
        spec = contributions_spec((4,), windows=(Tumbling(10),))
        with self.opened(spec) as index:
            index.apply([contribution(b"%d" % at, at) for at in (0, 5, 10)], offsets={}, epoch=1)
            with index.read() as reader:
                found = reader.lookup([("a",)] * 5, [9, 10, 19, 20, 30])

        assert [None if f is None else f.values[0] for f in found] == [None, 2, 2, 1, 0]

    def test_a_row_outside_the_bound_does_not_match(self) -> None:
        with self.opened(IndexSpec(log=KEYED)) as index:
            index.apply([row("a", 5, b"v", 1, ())], offsets={}, epoch=1)
            with index.read() as reader:
                found = reader.floor([("a",)] * 3, [9, 9, 9], not_before=[5, 6, None])

        assert [f is not None for f in found] == [True, False, True]

    def test_offsets_are_part_of_the_batch_and_never_go_back(self) -> None:
        with self.opened(IndexSpec(log=KEYED)) as index:
            index.apply([], offsets={("t", 0): 5, ("t", 1): 7, ("u.x", 0): 1}, epoch=1)
            index.apply([], offsets={("t", 0): 3, ("t", 1): 8}, epoch=1)

            assert index.offsets() == {("t", 0): 5, ("t", 1): 8, ("u.x", 0): 1}
            with index.read() as reader:
                assert reader.offsets == index.offsets()

    def test_a_snapshot_does_not_see_what_comes_later(self) -> None:
        with self.opened(IndexSpec(log=KEYED)) as index:
            with index.read() as reader:
                assert reader.lookup([("a",)], [9]) == [None]
                index.apply([row("a", 5, b"v", 1, ())], offsets={("t", 0): 1}, epoch=1)
                assert reader.lookup([("a",)], [9]) == [None]
            with index.read() as reader:
                assert reader.lookup([("a",)], [9]) != [None]

    def test_a_key_may_have_cells_without_a_hash(self) -> None:
        point = Column("place", Struct("Point", (StructField("x", Int()), StructField("y", Int()))))
        log = attrs.evolve(KEYED, keys=(point,))
        here, there = {"x": 1, "y": 2}, {"x": 2, "y": 1}
        fact = Fact(
            row_id=keyed_row_id(key_bytes((point,), (here,)), 5),
            version=Version(b"v"),
            event_time=5,
            key=(here,),
            values=(1, ()),
        )
        with self.opened(IndexSpec(log=log)) as index:
            index.apply([fact], offsets={}, epoch=1)
            with index.read() as reader:
                found = reader.lookup([(here,), (there,), (here,)], [9, 9, 4])

        assert found == [LookupResult(values=(1, ()), event_time=5), None, None]

    def test_answers_from_rows_alone_equal_those_from_tiles(self) -> None:
        spec = contributions_spec((4, 12, 24))
        facts = [contribution(b"%d" % n, n, n, n / 8) for n in range(60)]
        asked = list(range(0, 70, 7))
        with self.opened(spec) as index:
            index.apply(facts, offsets={}, epoch=1)
            with index.read() as reader:
                keys = [("a",)] * len(asked)
                by_rows = reader.reading(sys.maxsize).lookup(keys, asked)
                by_tiles = reader.reading(0).lookup(keys, asked)

        assert None not in by_rows
        assert all(same(one, other) for one, other in zip(by_rows, by_tiles, strict=True))

    def test_a_writer_of_an_earlier_epoch_changes_nothing(self) -> None:
        with self.opened(IndexSpec(log=KEYED)) as index:
            index.apply([], offsets={}, epoch=2)
            index.raise_epoch(3)

            with pytest.raises(IndexFenced):
                index.apply([row("a", 5, b"v", 1, ())], offsets={("t", 0): 1}, epoch=2)
            with pytest.raises(IndexFenced):
                index.raise_epoch(2)
            assert index.offsets() == {}
            with index.read() as reader:
                assert reader.lookup([("a",)], [9]) == [None]

    def test_a_question_of_another_shape_is_refused(self) -> None:
        with (
            self.opened(IndexSpec(log=KEYED)) as index,
            index.read() as reader,
            pytest.raises(WrongShapeError),
        ):
            reader.rows(("a",), 0, None)
        with (
            self.opened(IndexSpec(log=ROWS, by=("user",))) as index,
            index.read() as reader,
        ):
            with pytest.raises(WrongShapeError):
                reader.lookup([("a",)], [0])
            with pytest.raises(WrongShapeError):
                reader.floor([("a",)], [0], not_before=[None])


def _covers(invalidations: Iterable[Invalidation], key: tuple[Cell, ...], at: int) -> bool:
    return any(
        span.key == key and span.from_us <= at and (span.to_us is None or at < span.to_us)
        for span in invalidations
    )

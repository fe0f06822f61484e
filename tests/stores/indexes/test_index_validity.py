"""Contributions of keyed rows, which are there for a while only, against the reference."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from narthex._analysis.schemas.groups import aggregate_schema
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
    Sum,
)
from narthex._ir.assets import VALIDITY_COLUMNS, IndexSpec, LogShape, LogSpec
from narthex._ir.facts import TOMBSTONE_TIME, Cell, Fact, RowId, Version
from narthex._ir.node_schema import NodeSchema
from narthex._ir.operators import Aggregate, DatasetRef
from narthex._ir.schema import Column
from narthex._ir.types import Datetime, Float, Int, Optional, Str
from narthex._ir.windows import Continuous, Hopping, Tumbling, Window
from narthex_reference.semantics.aggregates import find, groups
from narthex_reference.semantics.content import Content, content, rows_of_facts
from narthex_reference.semantics.grouped_rows import contributions
from narthex_stores.indexes import InMemoryIndex, LmdbIndex, LookupResult, WritableIndex
from tests.stores.indexes.index_suite import Delivery, same

USERS = NodeSchema(
    keys=(Column("user", Int()),),
    values=(
        Column("group", Str()),
        Column("amount", Optional(Int())),
        Column("price", Float()),
        Column("seen", Datetime()),
    ),
    timestamp="at",
    correctable=True,
)
INPUTS = ("amount", "price")
GROUPS = ("a", "b")
STANDING: Sequence[tuple[Window, ...]] = (
    (Continuous("forever"), Continuous(7), Continuous(1)),
    (Hopping("forever", 5, 3), Hopping("forever", 4, 3)),
)
"""Windows that rows of a key may have without `along`."""
PASSING: Sequence[tuple[Window, ...]] = (
    *STANDING,
    (Tumbling(5), Hopping(10, 5), Hopping("forever", 3)),
    (Tumbling(6, 4), Hopping(9, 3, 4)),
)

State: TypeAlias = dict[bytes, Fact]


def step_over(windows: Sequence[Window], along: str | None) -> Aggregate:
    """Ask several kinds of aggregates over each window."""
    specs: list[AggregateSpec] = []
    for number, window in enumerate(windows):
        specs += [
            Count(into=f"n{number}", window=window),
            Sum(into=f"s{number}", window=window, of="amount"),
            Max(into=f"m{number}", window=window, of="amount", default=-1),
            LastK(into=f"k{number}", window=window, of="amount", limit=2, dedup=True),
            FirstK(
                into=f"f{number}", window=window, of="amount", limit=2, dedup=False, dropnull=False
            ),
            Distinct(into=f"u{number}", window=window, of="amount", unordered=True),
            Average(into=f"a{number}", window=window, of="price"),
            Quantile(
                into=f"q{number}", window=window, of="price", p=0.5, default=-1.0, approx=False
            ),
            ExpDecaySum(into=f"e{number}", window=window, of="amount", half_life_us=10),
        ]
    return Aggregate(DatasetRef("Users"), by=("group",), specs=tuple(specs), along=along)


def spec_of(step: Aggregate) -> IndexSpec:
    """Describe the index of an aggregate over keyed rows."""
    made = aggregate_schema(step, USERS)
    assert made.errors == ()
    columns = USERS.columns
    log = LogSpec(
        shape=LogShape.CONTRIBUTIONS,
        keys=made.keys,
        values=(*(Column(name, columns[name]) for name in INPUTS), *VALIDITY_COLUMNS),
        time_field="at",
        along=step.along is not None,
    )
    return IndexSpec(log=log, aggregates=made.aggregates, correctable=True)


def rows_of(facts: Sequence[Fact]) -> Content:
    """Return the current keyed rows."""
    return content(rows_of_facts("Users", facts, USERS), USERS)


def contributed(step: Aggregate, rows: Content) -> State:
    """Return the valid contributions, without versions."""
    return {
        one.row.row_id: Fact(
            row_id=one.row.row_id,
            version=Version(b""),
            event_time=one.instant,
            key=(one.row.cells["group"],),
            values=(*(one.row.cells[name] for name in INPUTS), one.since, one.until),
        )
        for one in contributions(step, rows)
    }


def differences(before: State, after: State) -> Iterator[Fact]:
    """Yield the facts that a job emits when its contributions have changed."""
    for row_id, fact in after.items():
        if before.get(row_id) != fact:
            yield fact
    for row_id, fact in before.items():
        if row_id not in after:
            yield attrs.evolve(
                fact, event_time=TOMBSTONE_TIME, values=(None,) * len(fact.values), alive=False
            )


_times = st.integers(0, 30)
_users = st.builds(
    lambda user, at, group, amount, price, seen, alive: Fact(
        row_id=keyed_row_id(key_bytes(USERS.keys, (user,)), at),
        version=Version(b""),
        event_time=at,
        key=(user,),
        values=(group, amount, price, seen) if alive else (None,) * 4,
        alive=alive,
    ),
    st.integers(0, 3),
    _times,
    st.sampled_from(GROUPS),
    st.none() | st.integers(-3, 3),
    st.integers(-8, 8).map(lambda number: number / 8),
    _times,
    st.sampled_from([True, True, True, False]),
)


@attrs.frozen
class JobOutput:
    """The output of a job for rows that arrived one by one, and the current rows at the end."""

    step: Aggregate
    history_us: int | None
    rows: Content
    delivery: Delivery


@st.composite
def told(draw: st.DrawFn) -> JobOutput:
    """Draw keyed rows in any order, and deliver the job's output in any order."""
    along = draw(st.sampled_from([None, "seen"]))
    step = step_over(draw(st.sampled_from(STANDING if along is None else PASSING)), along)
    known: list[Fact] = []
    standing: State = {}
    log: list[Fact] = []
    for number, fact in enumerate(draw(st.lists(_users, max_size=12))):
        known.append(attrs.evolve(fact, version=Version(number.to_bytes(8))))
        after = contributed(step, rows_of(known))
        for change in differences(standing, after):
            log.append(attrs.evolve(change, version=Version(len(log).to_bytes(8))))
        standing = after
    again = draw(st.lists(st.sampled_from(log), max_size=6)) if log else []
    order = draw(st.permutations([*log, *again]))
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=4)))
    batches = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    history_us = draw(st.sampled_from([None, 0, 3, 12]))
    return JobOutput(step, history_us, rows_of(known), Delivery(log, batches))


def expected(one: JobOutput, group: str, as_of: int) -> LookupResult | None:
    """Return the reference's answer."""
    schema = aggregate_schema(one.step, USERS)
    made = groups(one.step, one.rows, schema)
    oldest = None
    if one.history_us is not None:
        standing = max((found.newest for found in made.values()), default=as_of)
        oldest = min(as_of, standing) - one.history_us
    value = find(one.step, made, schema, {"group": group}, as_of, oldest=oldest)
    if value is None:
        return None
    values = tuple(value.cells[spec.into] for spec in one.step.specs)
    return LookupResult(values=values, event_time=value.event_time)


class ValiditySuite:
    """Inherit it and define how to open an empty index."""

    def opened(self, spec: IndexSpec) -> AbstractContextManager[WritableIndex]:
        raise NotImplementedError

    @settings(
        max_examples=150, deadline=None, suppress_health_check=[HealthCheck.differing_executors]
    )
    @given(told(), st.lists(st.integers(-1, 45), min_size=1, max_size=8))
    def test_rows_count_while_they_are_the_current_ones_of_their_keys(
        self, one: JobOutput, moments: list[int]
    ) -> None:
        questions = [(group, at) for group in GROUPS for at in moments]
        spec = attrs.evolve(spec_of(one.step), history_us=one.history_us)
        with self.opened(spec) as index:
            for batch in one.delivery.batches:
                index.apply(batch, offsets={}, epoch=1)
            with index.read() as reader:
                found = reader.lookup([(g,) for g, _ in questions], [at for _, at in questions])
        for (group, at), answer in zip(questions, found, strict=True):
            wanted = expected(one, group, at)
            assert same(answer, wanted), (group, at, answer, wanted)

    def test_a_group_that_its_rows_have_left_is_found_empty_since_then(self) -> None:
        step = step_over((Continuous("forever"),), None)
        row_id = RowId(b"r")
        with self.opened(spec_of(step)) as index:
            index.apply([_contribution(row_id, b"\x01", since=5, until=9)], offsets={}, epoch=1)
            with index.read() as reader:
                found = reader.lookup([("a",)] * 4, [4, 5, 8, 9])

        assert [None if one is None else one.values[0] for one in found] == [None, 1, 1, 0]
        assert [None if one is None else one.event_time for one in found] == [None, 5, 5, 9]

    def test_a_retracted_contribution_creates_no_group(self) -> None:
        step = step_over((Continuous("forever"),), None)
        row_id = RowId(b"r")
        gone = attrs.evolve(
            _contribution(row_id, b"\x02", since=5),
            event_time=TOMBSTONE_TIME,
            alive=False,
            values=(None,) * 4,
        )
        with self.opened(spec_of(step)) as index:
            index.apply([_contribution(row_id, b"\x01", since=5), gone], offsets={}, epoch=1)
            with index.read() as reader:
                assert reader.lookup([("a",)], [9]) == [None]


def _contribution(row_id: RowId, version: bytes, *, since: int, until: int | None = None) -> Fact:
    values: Mapping[str, Cell] = {"amount": 1, "price": 1.0}
    return Fact(
        row_id=row_id,
        version=Version(version),
        event_time=since,
        key=("a",),
        values=(*values.values(), since, until),
    )


class TestValidityInMemory(ValiditySuite):
    @override
    @contextmanager
    def opened(self, spec: IndexSpec) -> Iterator[InMemoryIndex]:
        yield InMemoryIndex(spec)


class TestValidityInLmdb(ValiditySuite):
    @override
    @contextmanager
    def opened(self, spec: IndexSpec) -> Iterator[LmdbIndex]:
        with tempfile.TemporaryDirectory() as directory:
            index = LmdbIndex(Path(directory), spec)
            try:
                yield index
            finally:
                index.close()

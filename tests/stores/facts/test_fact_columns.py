"""Facts taken in by columns are those taken in one by one: the same facts, and the same index."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._formats.avro.codec import CorruptFactError, fact_codec
from narthex._ir.aggregate_specs import (
    AggregateSpec,
    Average,
    Count,
    LastK,
    Max,
    Sum,
    TypedAggregate,
)
from narthex._ir.assets import IndexSpec, LogShape, LogSpec
from narthex._ir.facts import Fact, RowId, Version
from narthex._ir.schema import Column
from narthex._ir.types import (
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Optional,
    Str,
)
from narthex._ir.windows import Continuous
from narthex_stores import LmdbIndex, column_reader, stored_entries
from narthex_stores.indexes import WrongShapeError

W = Continuous(40)
LOG = LogSpec(
    shape=LogShape.CONTRIBUTIONS,
    keys=(Column("user", Str()), Column("place", Int())),
    values=(
        Column("amount", Optional(Int())),
        Column("price", Float()),
        Column("name", Optional(Str())),
    ),
    time_field="at",
)
ALL_FLAT = LogSpec(
    shape=LogShape.KEYED,
    keys=(Column("k", Bytes()), Column("day", Date())),
    values=(
        Column("i", Int()),
        Column("f", Optional(Float())),
        Column("s", Optional(Str())),
        Column("b", Bool()),
        Column("y", Optional(Bytes())),
        Column("t", Datetime()),
        Column("d", Optional(Date())),
    ),
    time_field="at",
)
_LONG = (1 << 63) - 1


def spec(ladder_us: tuple[int, ...] = (4, 12, 24), *, correctable: bool = False) -> IndexSpec:
    asked: tuple[tuple[AggregateSpec, DataType | None], ...] = (
        (Count(into="n", window=W), None),
        (Sum(into="s", window=W, of="amount"), Int()),
        (Average(into="a", window=W, of="price"), Float()),
        (Max(into="m", window=W, of="amount", default=-1), Int()),
        (LastK(into="k", window=W, of="name", limit=2, dedup=False), Optional(Str())),
    )
    return IndexSpec(
        log=LOG,
        aggregates=tuple(TypedAggregate(one, of, Int()) for one, of in asked),
        ladder_us=ladder_us,
        correctable=correctable,
        parts_us=(2, 1) if 4 in ladder_us else (),
        divided_above=2 if 4 in ladder_us else 0,
    )


texts = st.text(max_size=5)
row_ids = st.one_of(st.binary(min_size=1, max_size=2), st.binary(min_size=230, max_size=250)).map(
    RowId
)
contributions = st.builds(
    Fact,
    row_id=row_ids,
    version=st.binary(max_size=1).map(Version),
    event_time=st.integers(-60, 60),
    key=st.tuples(st.sampled_from(["a", "b", "long " * 60]), st.integers(0, 1)),
    values=st.tuples(
        st.none() | st.integers(-9, 9),
        st.sampled_from([0.5, 1e300, -0.1, 3.0]),
        st.none() | texts,
    ),
    alive=st.sampled_from([True, True, False]),
)
flat = st.builds(
    Fact,
    row_id=st.binary(max_size=300).map(RowId),
    version=st.binary(max_size=3).map(Version),
    event_time=st.integers(-_LONG, _LONG),
    key=st.tuples(st.binary(max_size=70), st.integers(-9999, 9999)),
    values=st.tuples(
        st.integers(-_LONG, _LONG),
        st.none() | st.floats(allow_nan=False),
        st.none() | texts,
        st.booleans(),
        st.none() | st.binary(max_size=70),
        st.integers(-_LONG, _LONG),
        st.none() | st.integers(-9999, 9999),
    ),
    alive=st.booleans(),
)


@given(st.lists(flat, max_size=40))
def test_columns_hold_the_facts_of_the_log(facts: list[Fact]) -> None:
    reader = column_reader(ALL_FLAT)
    assert reader is not None

    found = reader.read([fact_codec(ALL_FLAT).encode(fact) for fact in facts])

    assert [found.fact(place) for place in range(len(found))] == facts


@given(st.lists(flat, min_size=1, max_size=5), st.data())
def test_invalid_fact_bytes_are_refused(facts: list[Fact], data: st.DataObject) -> None:
    reader = column_reader(ALL_FLAT)
    assert reader is not None
    datums = [fact_codec(ALL_FLAT).encode(fact) for fact in facts]
    place = data.draw(st.integers(0, len(datums) - 1))
    datums[place] = data.draw(
        st.sampled_from([datums[place][:-1], datums[place] + b"\x00", b"", datums[place] * 2])
    )

    with pytest.raises(CorruptFactError):
        reader.read(datums)


def test_a_cut_fact_is_refused_when_the_next_one_makes_up_for_its_length() -> None:
    log = LogSpec(shape=LogShape.ROWS, keys=(), values=(Column("v", Bytes()),), time_field="at")
    reader = column_reader(log)
    assert reader is not None
    first, second, third = (
        Fact(
            row_id=RowId(row_id),
            version=Version(version),
            event_time=at,
            key=(),
            values=(value,),
            alive=True,
        )
        for row_id, version, at, value in (
            (b"r", b"", 1, b"ab\x00"),
            (b"", b"x", 0, None),
            (b"s", b"", 2, b"c"),
        )
    )
    encode = fact_codec(log).encode
    # The second fact begins with the byte that the first one lacks, and lacks it at its own end.
    datums = [encode(first)[:-1], encode(second), b"\x00" + encode(third)]

    with pytest.raises(CorruptFactError):
        reader.read(datums)


@pytest.mark.parametrize("of", [Decimal(2), List(Int()), Optional(List(Str()))])
def test_a_log_with_nested_columns_is_not_read_by_columns(of: DataType) -> None:
    log = LogSpec(shape=LogShape.ROWS, keys=(), values=(Column("v", of),), time_field="at")

    assert column_reader(log) is None


@pytest.mark.slow
@given(
    st.lists(st.lists(contributions, max_size=12), max_size=5),
    st.sampled_from([(), (5,), (4, 12, 24)]),
)
def test_an_index_is_the_same_however_facts_come(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[Fact]],
    ladder_us: tuple[int, ...],
) -> None:
    reader = column_reader(LOG)
    assert reader is not None
    index = LmdbIndex(tmp_path_factory.mktemp("columns"), spec(ladder_us))
    twin = LmdbIndex(tmp_path_factory.mktemp("facts"), spec(ladder_us))

    for number, batch in enumerate(batches):
        datums = [fact_codec(LOG).encode(fact) for fact in batch]
        offsets = {("t", 0): number + 1}
        by_column = index.apply_columns(reader.read(datums), offsets=offsets, epoch=1)
        by_fact = twin.apply(batch, offsets=offsets, epoch=1)
        assert by_column == by_fact

    with (
        index.read() as snapshot,
        stored_entries(snapshot) as entries,
        twin.read() as other,
    ):
        assert snapshot.offsets == other.offsets
        every = [fact for batch in batches for fact in batch]
        rounded = [
            one
            for one in entries.differences(every)
            if one.found is None or one.meant is None or _differ(one.found, one.meant)
        ]
        assert rounded == []
        keys = [fact.key for fact in every]
        asked = [40] * len(keys)
        assert [_shown(one) for one in snapshot.reading(0).lookup(keys, asked)] == [
            _shown(one) for one in other.reading(0).lookup(keys, asked)
        ]
    index.close()
    twin.close()


def _differ(found: dict[str, object], meant: dict[str, object]) -> bool:
    return any(_shown(found[name]) != _shown(meant[name]) for name in meant)


def _shown(value: object) -> object:
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


def test_an_index_that_is_corrected_takes_no_columns(tmp_path: Path) -> None:
    index = LmdbIndex(tmp_path, spec(correctable=True))
    reader = column_reader(LOG)
    assert reader is not None

    assert not index.takes_columns
    with pytest.raises(WrongShapeError):
        index.apply_columns(reader.read([]), offsets={}, epoch=1)
    index.close()

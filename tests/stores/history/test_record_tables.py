"""A log's records become the same table, decoded by columns or row by row."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._formats.avro.codec import CorruptFactError, fact_codec
from narthex._ir.assets import LogShape, LogSpec
from narthex._ir.facts import Fact, RowId, Version
from narthex._ir.schema import Column
from narthex._ir.types import Date, Datetime, Float, Int, List, Optional, Str
from narthex_stores import LogRow, Record, column_reader, next_offsets, record_table, to_table

FLAT = LogSpec(
    shape=LogShape.KEYED,
    keys=(Column("user", Str()),),
    values=(
        Column("price", Optional(Float())),
        Column("seen", Datetime()),
        Column("born", Optional(Date())),
    ),
    time_field="at",
)
NESTED = attrs.evolve(FLAT, values=(*FLAT.values, Column("tags", List(Int()))))
LONG = (1 << 63) - 1

positions = st.tuples(st.integers(0, 3), st.integers(0, LONG))
facts = st.builds(
    Fact,
    row_id=st.binary(min_size=1, max_size=300).map(RowId),
    version=st.binary(max_size=3).map(Version),
    event_time=st.integers(-LONG, LONG),
    key=st.tuples(st.text(max_size=3)),
    values=st.tuples(
        st.none() | st.floats(allow_nan=False),
        st.integers(-LONG, LONG),
        st.none() | st.integers(-9999, 9999),
    ),
    alive=st.booleans(),
)


def record(log: LogSpec, place: tuple[int, int], fact: Fact) -> Record:
    value = fact_codec(log).encode(fact)
    return Record("t", place[0], place[1], 0, b"key", value, ())


@pytest.mark.parametrize("log", [FLAT, NESTED], ids=["flat", "nested"])
@given(st.lists(st.tuples(positions, facts, st.lists(st.integers(-9, 9), max_size=2)), max_size=20))
def test_a_table_holds_the_facts_of_its_records_in_order(
    log: LogSpec, drawn: list[tuple[tuple[int, int], Fact, list[int]]]
) -> None:
    assert (column_reader(log) is None) is (log is NESTED)
    rows = [
        LogRow(
            *place,
            fact if log is FLAT else attrs.evolve(fact, values=(*fact.values, tuple(numbers))),
        )
        for place, fact, numbers in drawn
    ]

    table = record_table(log, [record(log, (r.partition, r.offset), r.fact) for r in rows])

    assert table.equals(to_table(log, rows))


@pytest.mark.parametrize("value", [None, b"", b"\x00garbage"])
def test_a_record_that_is_not_a_fact_is_refused(value: bytes | None) -> None:
    with pytest.raises(CorruptFactError):
        record_table(FLAT, [Record("t", 0, 0, 0, b"key", value, ())])


def test_the_next_offset_of_a_partition_follows_its_last_record() -> None:
    records = [
        Record("t", partition, offset, 0, None, b"", ())
        for partition, offset in ((0, 4), (1, 9), (0, 5))
    ]

    assert next_offsets(records) == {0: 6, 1: 10}
    assert next_offsets([]) == {}

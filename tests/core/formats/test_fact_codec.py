"""Facts and keys as bytes: no loss, no collisions, and stable bytes."""

import base64
import json
import math
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._base.records import Json, from_plain
from narthex._formats.arrow import array_of, cells_of, stored_array, stored_cells, stored_type
from narthex._formats.avro.codec import (
    CorruptFactError,
    UnsupportedColumnError,
    WrongCellError,
    avro_schema,
    fact_codec,
)
from narthex._formats.cells import empty_cell
from narthex._formats.keys import key_bytes, key_of, keyed_row_id
from narthex._ir.assets import LogShape, LogSpec
from narthex._ir.facts import Cell, Fact, RowId, Version
from narthex._ir.schema import Column
from narthex._ir.types import (
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    Null,
    Optional,
    Str,
    Struct,
    StructField,
)
from tests.cases import every

VECTORS = Path(__file__).parents[1] / "vectors"

_longs = st.integers(-(2**63), 2**63 - 1)
_SCALARS: list[tuple[DataType, st.SearchStrategy[Cell]]] = [
    (Int(), _longs),
    (Datetime(), _longs),
    (Date(), st.integers(-(2**31), 2**31 - 1)),
    (Float(), st.floats(allow_nan=False)),
    (Bool(), st.booleans()),
    (Str(), st.text(st.characters(codec="utf-8"), max_size=8)),
    (Bytes(), st.binary(max_size=8)),
    (Decimal(3), st.integers(-(10**28) + 1, 10**28 - 1)),
    (Embedding(2), st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False))),
]

_Typed = tuple[DataType, st.SearchStrategy[Cell]]


def _wrapped(inner: st.SearchStrategy[_Typed]) -> st.SearchStrategy[_Typed]:
    return st.one_of(
        inner.map(lambda t: (List(t[0]), st.lists(t[1], max_size=3).map(tuple))),
        inner.map(lambda t: (Map(t[0]), st.dictionaries(st.text("ab-", max_size=3), t[1]))),
        inner.map(
            lambda t: (Struct("S", (StructField("m", t[0]),)), st.fixed_dictionaries({"m": t[1]}))
        ),
        inner.filter(lambda t: not isinstance(t[0], Optional)).map(
            lambda t: (Optional(t[0]), st.none() | t[1])
        ),
    )


_typed = st.recursive(st.sampled_from(_SCALARS), _wrapped, max_leaves=4)


def _cell(plain: Json) -> Cell:
    match plain:
        case {"$bytes": str(text)}:
            return base64.b64decode(text)
        case list():
            return tuple(_cell(item) for item in plain)
        case dict():
            return {name: _cell(item) for name, item in plain.items()}
        case _:
            return plain


def _log(*types: DataType, keys: tuple[Column, ...] = ()) -> LogSpec:
    columns = tuple(Column(f"c{index}", of) for index, of in enumerate(types))
    return LogSpec(shape=LogShape.ROWS, keys=keys, values=columns, time_field="at")


@given(st.data())
def test_a_fact_of_any_types_comes_back_as_it_was(data: st.DataObject) -> None:
    columns = data.draw(st.lists(_typed, max_size=3))
    log = _log(*(of for of, _ in columns))
    facts = [
        Fact(
            row_id=RowId(data.draw(st.binary(max_size=4))),
            version=Version(data.draw(st.binary(max_size=4))),
            event_time=data.draw(_longs),
            key=(),
            values=tuple(data.draw(st.none() | cells) for _, cells in columns),
            alive=data.draw(st.booleans()),
        )
        for _ in range(3)
    ]

    encoded = [fact_codec(log).encode(fact) for fact in facts]

    assert fact_codec(log).decode_many(encoded) == facts
    assert [fact_codec(log).decode(datum) for datum in encoded] == facts


@given(
    st.binary(max_size=300).map(RowId),
    st.binary(max_size=300).map(Version),
    st.binary(max_size=300).map(Version),
    _longs,
)
def test_a_version_is_replaced_in_the_bytes_of_a_fact(
    row_id: RowId, former: Version, version: Version, value: int
) -> None:
    codec = fact_codec(_log(Int()))
    fact = Fact(row_id=row_id, version=former, event_time=value, key=(), values=(value,))

    replaced = codec.with_version(codec.encode(fact), version)

    assert replaced == codec.encode(attrs.evolve(fact, version=version))


@given(st.binary(max_size=300), _longs)
def test_the_identity_of_a_keyed_row_contains_its_key(key: bytes, event_time: int) -> None:
    assert key_of(keyed_row_id(key, event_time)) == key


@given(_typed)
def test_an_empty_cell_of_any_type_has_key_bytes(typed: _Typed) -> None:
    of, _ = typed

    assert key_bytes([Column("k", of)], [empty_cell(of)])


@given(st.data())
def test_cells_of_any_type_come_back_from_both_arrow_forms(data: st.DataObject) -> None:
    of, strategy = data.draw(_typed)
    cells = data.draw(st.lists(st.none() | strategy, max_size=3))

    assert stored_cells(stored_array(cells, of), of) == cells
    assert stored_array(cells, of).type == stored_type(of)
    assert cells_of(array_of(cells, of), of) == cells


@given(st.data())
def test_different_keys_have_different_bytes_and_none_begins_another(data: st.DataObject) -> None:
    of, cells = data.draw(_typed)
    columns = (Column("a", of), Column("b", Optional(Str())))
    text = st.none() | st.text(st.characters(codec="utf-8"), max_size=3)
    first = (data.draw(cells), data.draw(text))
    second = (data.draw(cells), data.draw(text))

    one, other = key_bytes(columns, first), key_bytes(columns, second)

    assert (one == other) == (first == second)
    assert first == second or not one.startswith(other)


@every("vector", json.loads((VECTORS / "keys.json").read_text()))
def test_key_bytes_are_those_of_the_vectors(vector: dict[str, Json]) -> None:
    types = from_plain(vector["types"])
    assert isinstance(types, tuple)
    columns = tuple(Column(f"c{index}", of) for index, of in enumerate(types))
    cells = _cell(vector["cells"])
    assert isinstance(cells, tuple)
    event_time = vector["event_time"]
    assert isinstance(event_time, int)

    key = key_bytes(columns, cells)

    assert key.hex() == vector["key"]
    assert keyed_row_id(key, event_time).hex() == vector["row_id"]


def test_facts_are_those_of_the_vectors() -> None:
    for vector in json.loads((VECTORS / "facts.json").read_text()):
        log = from_plain(vector["log"])
        assert isinstance(log, LogSpec)
        assert avro_schema(log) == vector["schema"]
        for plain in vector["facts"]:
            key, values = _cell(plain["key"]), _cell(plain["values"])
            assert isinstance(key, tuple)
            assert isinstance(values, tuple)
            fact = Fact(
                row_id=RowId(bytes.fromhex(plain["row_id"])),
                version=Version(bytes.fromhex(plain["version"])),
                event_time=plain["event_time"],
                key=key,
                values=values,
                alive=plain["alive"],
            )

            assert fact_codec(log).encode(fact).hex() == plain["datum"]
            assert fact_codec(log).decode(bytes.fromhex(plain["datum"])) == fact


def test_zeros_and_nans_are_one_key_each() -> None:
    column = (Column("x", Float()),)

    assert key_bytes(column, (0.0,)) == key_bytes(column, (-0.0,))
    assert key_bytes(column, (math.nan,)) == key_bytes(column, (-math.nan,))


@given(st.binary(max_size=40))
def test_other_bytes_are_refused_or_complete_facts(noise: bytes) -> None:
    codec = fact_codec(_log(Int()))
    fact = Fact(row_id=RowId(b"r"), version=Version(b"v"), event_time=1, key=(), values=(1,))

    try:
        found = codec.decode_many([codec.encode(fact), noise])
    except CorruptFactError:
        return
    assert found[0] == fact
    assert len(found) == 2


def test_a_cut_or_longer_datum_is_refused() -> None:
    codec = fact_codec(_log(Int()))
    datum = codec.encode(
        Fact(row_id=RowId(b"r"), version=Version(b"v"), event_time=1, key=(), values=(1,))
    )

    for wrong in (datum[:-1], datum + b"\x00", b""):
        with pytest.raises(CorruptFactError):
            codec.decode(wrong)


@pytest.mark.parametrize("size", [1, 63, 64, 8191, 8192, 100_000])
def test_a_cut_datum_is_refused_when_the_next_one_makes_up_for_its_length(size: int) -> None:
    codec = fact_codec(_log(Int()))
    first, second = (
        codec.encode(
            Fact(row_id=RowId(row_id), version=Version(b"v"), event_time=1, key=(), values=(1,))
        )
        for row_id in (b"r" * size, b"s" * size)
    )

    assert len(codec.decode_many([first, second])) == 2
    with pytest.raises(CorruptFactError):
        codec.decode_many([first[:-1], first[-1:] + second])


def test_a_cell_of_another_type_is_refused() -> None:
    fact = Fact(row_id=RowId(b"r"), version=Version(b"v"), event_time=1, key=(), values=("x",))

    with pytest.raises(WrongCellError):
        fact_codec(_log(Int())).encode(fact)
    with pytest.raises(WrongCellError):
        fact_codec(_log(Int(), Int())).encode(fact)
    with pytest.raises(WrongCellError, match="integer"):
        key_bytes((Column("x", Int()),), ("x",))
    with pytest.raises(WrongCellError, match="one column"):
        key_bytes((Column("x", Int()),), (1, 2))


def test_values_that_no_log_can_encode_are_refused() -> None:
    with pytest.raises(UnsupportedColumnError):
        avro_schema(_log(Null()))
    with pytest.raises(UnsupportedColumnError):
        avro_schema(_log(keys=(Column("naïve", Int()),)))
    with pytest.raises(UnsupportedColumnError):
        key_bytes((Column("x", Null()),), (None,))


def test_no_facts_decode_to_none() -> None:
    assert fact_codec(_log(Int())).decode_many([]) == []

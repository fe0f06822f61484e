"""The compiled decoder of JSON rows reads what `json` and the coercions read, or nothing."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from narthex._formats.coercion import MistypedError, coercion
from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._ir.types import (
    Between,
    Bool,
    Bytes,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Map,
    Optional,
    Str,
)
from narthex._runtime.ingest.typed_json import TypedJson

COLUMNS = (
    Column("i", Int()),
    Column("f", Float()),
    Column("s", Str()),
    Column("b", Bool()),
    Column("at", Datetime()),
    Column("class", Optional(Int())),
    Column("maybe", Optional(Str())),
    Column("small", Between(of=Int(), min=0, max=9)),
    Column("cost", Optional(Decimal(2))),
    Column("tags", Optional(List(Str()))),
    Column("raw", Optional(Bytes())),
    Column("counts", Optional(Map(Int()))),
)
TYPED = TypedJson.of(COLUMNS)
WELL_TYPED: dict[str, Any] = {
    "i": 1,
    "f": 0.5,
    "s": "x",
    "b": True,
    "at": "2024-05-01T10:00:00.25+02:00",
    "small": 3,
}

_NUMBERS = [
    *(
        "0",
        "-0",
        "1",
        "1.0",
        "-1",
        "1e3",
        "1E400",
        "01",
        "1.",
        ".5",
        "NaN",
        "Infinity",
        "-Infinity",
    ),
    *("9007199254740993", "9007199254740993.0", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "-9223372036854775809", "123456789012345678901234567890", "5e-324"),
    "0.1000000000000000055511151231257827",
]
_TEXTS = [
    *('""', '"x"', '"é"', '"\\u00e9"', '"\\ud800"', '"\\ud83d\\ude00"', '"\\x"', '"1"', '"1.5"'),
    *('"true"', '"2024-01-01T00:00:00Z"', '"2024-02-30T00:00:00Z"', '"AAE="'),
]
_OTHERS = ["null", "true", "false", "[]", '["a"]', '{"a":1}', '{"a":1,"a":2}', '"a\x01"', "nul"]
texts = st.one_of(
    st.sampled_from([*_NUMBERS, *_TEXTS, *_OTHERS]),
    st.integers().map(str),
    st.floats().map(json.dumps),
    st.text(max_size=5).map(json.dumps),
    st.text(max_size=5).map(lambda text: json.dumps(text, ensure_ascii=False)),
)
names = st.sampled_from([*(column.name for column in COLUMNS), "unused", "unused"])
changes = st.lists(st.tuples(names, texts), max_size=4)


def general(text: bytes) -> dict[str, Cell] | None:
    """Read a row the general way; None if it is not a row."""
    try:
        raw = json.loads(text)
        if not isinstance(raw, dict):
            return None
        return {column.name: coercion(column.type)(raw.get(column.name)) for column in COLUMNS}
    except (ValueError, MistypedError):
        return None


def rendered(changed: list[tuple[str, str]]) -> str:
    members = [(name, json.dumps(value)) for name, value in WELL_TYPED.items()]
    return "{" + ",".join(f'"{name}":{value}' for name, value in [*members, *changed]) + "}"


@given(changes)
@example([("unused", "9" * 4400)])
@example([("unused", "[" * 70 + "]" * 70)])
@example([("i", "1"), ("i", '"x"')])
def test_a_row_is_read_as_the_general_way_reads_it_or_not_at_all(
    changed: list[tuple[str, str]],
) -> None:
    text = rendered(changed).encode(errors="surrogatepass")

    cells = TYPED.read(text)

    if cells is not None:
        meant = general(text)
        # `repr` distinguishes 1 from 1.0 and True, and 0.0 from -0.0.
        assert meant is not None
        assert {name: repr(cell) for name, cell in cells.items()} == {
            name: repr(cell) for name, cell in meant.items()
        }


@given(st.binary(max_size=6), st.integers(0, 200))
def test_bytes_that_are_not_json_are_left_to_the_general_way(junk: bytes, place: int) -> None:
    text = rendered([("unused", '"text"')]).encode()
    damaged = text[: place % len(text)] + junk + text[place % len(text) :]

    if TYPED.read(damaged) is not None:
        assert general(damaged) is not None


@given(
    st.fixed_dictionaries(
        {
            "i": st.integers(-(2**63), 2**63 - 1),
            "f": st.floats(allow_nan=False, allow_infinity=False),
            "s": st.text(max_size=9),
            "b": st.booleans(),
            "at": st.datetimes().map(lambda at: at.isoformat() + "Z"),
            "small": st.integers(0, 9),
            "maybe": st.none() | st.text(max_size=9),
            "tags": st.none() | st.lists(st.text(max_size=3), max_size=3),
        }
    )
)
def test_a_row_of_the_declared_types_is_decoded(row: dict[str, Any]) -> None:
    text = json.dumps(row).encode()

    cells = TYPED.read(text)

    assert cells is not None
    assert cells == general(text)


@pytest.mark.parametrize("text", [b"", b"[]", b"1", b"null", b'{"i":1}', b"\xff\xfe{\x00}\x00"])
def test_other_values_are_left_to_the_general_way(text: bytes) -> None:
    assert TYPED.read(text) is None

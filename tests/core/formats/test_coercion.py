"""Raw values of rows are coerced, or refused with a reason."""

import math
from datetime import UTC, datetime
from decimal import Decimal as PythonDecimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._formats.coercion import (
    Mistake,
    MistypedError,
    coerce,
    coerce_row,
    parse_cell,
    render_cell,
)
from narthex._formats.json_cells import render_cells
from narthex._ir.facts import Cell
from narthex._ir.types import (
    Between,
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
    OneOf,
    Optional,
    Regex,
    Str,
    Struct,
    StructField,
)
from tests.cases import every

INT, FLOAT, BOOL, STR, TIME, DAY = Int(), Float(), Bool(), Str(), Datetime(), Date()
POINT = Struct("P", (StructField("x", INT), StructField("y", Optional(TIME))))
SECOND = 1_356_998_400
MICROS = SECOND * 1_000_000


@every(
    ("raw", "of", "cell"),
    [
        (1, INT, 1),
        ("1", INT, 1),
        (" -1.0 ", INT, -1),
        (1.0, INT, 1),
        (1, FLOAT, 1.0),
        ("1.5e3", FLOAT, 1500.0),
        ("-inf", FLOAT, -math.inf),
        (True, BOOL, True),
        ("0", BOOL, False),
        (1, BOOL, True),
        ("True", BOOL, True),
        ("x", STR, "x"),
        ("eA==", Bytes(), b"x"),
        (SECOND, TIME, MICROS),
        (SECOND * 1000 + 1, TIME, MICROS + 1000),
        (MICROS + 1, TIME, MICROS + 1),
        (MICROS * 1000 + 1999, TIME, MICROS + 1),
        (str(SECOND), TIME, MICROS),
        (SECOND + 0.5, TIME, MICROS + 500_000),
        (-1, TIME, -1_000_000),
        ("2013-01-01T00:00:00Z", TIME, MICROS),
        ("2013-01-01 01:00:00+01:00", TIME, MICROS),
        ("2013-01-01T00:00:00.123456789", TIME, MICROS + 123_456),
        ("2013-01-01", TIME, MICROS),
        ("Tue, 01 Jan 2013 00:00:00 GMT", TIME, MICROS),
        (datetime(2013, 1, 1, tzinfo=UTC), TIME, MICROS),
        ("1970-01-02", DAY, 1),
        ("1.25", Decimal(2), 125),
        (1.1, Decimal(2), 110),
        (3, Decimal(2), 300),
        (PythonDecimal("-0.01"), Decimal(2), -1),
        ([1, "2"], List(INT), (1, 2)),
        ([1, None], List(Optional(INT)), (1, None)),
        ([1, 2.5], Embedding(2), (1.0, 2.5)),
        ({"k": "1"}, Map(INT), {"k": 1}),
        ({"x": "1", "z": 0}, POINT, {"x": 1, "y": None}),
        (None, Optional(INT), None),
        (math.nan, Optional(FLOAT), None),
        (1, Between(INT, 1, 9), 1),
        (8.5, Between(FLOAT, 1, 9, strict_max=True), 8.5),
        ("a", OneOf(STR, ("a", "b")), "a"),
        ("aab", Regex("a*b"), "aab"),
    ],
)
def test_raw_values_are_coerced(raw: object, of: DataType, cell: Cell) -> None:
    found = coerce(raw, of)

    assert found == cell
    assert type(found) is type(cell)


@every(
    ("raw", "of"),
    [
        (1.5, INT),
        ("1.5", INT),
        ("1_000", INT),
        (True, INT),
        (2**63, INT),
        ("", FLOAT),
        (None, INT),
        (math.nan, FLOAT),
        ("nan", FLOAT),
        (2, BOOL),
        ("yes", BOOL),
        (1, STR),
        ("\ud800", STR),
        ("?", Bytes()),
        ("soon", TIME),
        ("2013-02-30", TIME),
        (True, TIME),
        ("2013-01-01T00:00:00Z", DAY),
        ("1.255", Decimal(2)),
        ("1e40", Decimal(2)),
        ([1, "x"], List(INT)),
        ([1.0], Embedding(2)),
        ({"x": None}, POINT),
        ([], Map(INT)),
        (0, Between(INT, 0, 9, strict_min=True)),
        (9, Between(INT, 0, 9, strict_max=True)),
        ("c", OneOf(STR, ("a", "b"))),
        ("aabx", Regex("a*b")),
        (10, Optional(Between(INT, 0, 9))),
    ],
)
def test_raw_values_are_refused(raw: object, of: DataType) -> None:
    with pytest.raises(MistypedError, match=r"found|not an instant|not a day|item|member"):
        coerce(raw, of)


def test_a_reason_names_the_place_and_the_value() -> None:
    with pytest.raises(MistypedError) as caught:
        coerce({"x": 1, "y": "never"}, POINT)

    assert str(caught.value) == "member `y`: 'never' is not an instant"


def test_all_mistakes_of_a_row_are_reported_at_once() -> None:
    schema = {"a": INT, "b": STR, "c": Optional(INT)}

    assert coerce_row({"a": "x", "b": None, "other": 1}, schema) == (
        Mistake(column="a", reason="found 'x'; the column is `int`"),
        Mistake(column="b", reason="found null; the column is `str`, not Optional"),
    )
    assert coerce_row({"a": "1", "b": "x"}, schema) == {"a": 1, "b": "x", "c": None}


@pytest.mark.parametrize(
    ("cell", "of", "rendered"),
    [
        (MICROS + 1, TIME, "2013-01-01T00:00:00.000001Z"),
        (1, DAY, "1970-01-02"),
        (-5, Decimal(2), "-0.05"),
        (10**27, Decimal(2), "10000000000000000000000000.00"),
        (b"x", Bytes(), "eA=="),
        (math.inf, FLOAT, "Infinity"),
        (1, FLOAT, 1.0),
        ((1.0, 2.0), Embedding(2), [1.0, 2.0]),
        ({"x": 1, "y": 0}, POINT, {"x": 1, "y": "1970-01-01T00:00:00.000000Z"}),
        (None, Optional(INT), None),
    ],
)
def test_a_cell_in_an_answer(cell: Cell, of: DataType, rendered: object) -> None:
    assert render_cell(cell, of) == rendered
    assert parse_cell(render_cell(cell, of), of) == cell


@given(
    st.sampled_from([INT, Optional(INT), BOOL, STR, Between(INT, 0, 9)]).flatmap(
        lambda of: st.tuples(
            st.just(of), st.lists(st.none() | st.integers() | st.booleans() | st.text())
        )
    )
    | st.tuples(
        st.sampled_from([FLOAT, Optional(FLOAT)]),
        st.lists(st.none() | st.floats() | st.integers(-9, 9)),
    )
    | st.tuples(st.sampled_from([TIME, DAY, Decimal(2)]), st.lists(st.none() | st.integers(0, 9)))
)
def test_a_column_is_rendered_as_its_cells_are(column: tuple[DataType, list[Cell]]) -> None:
    of, cells = column

    assert repr(render_cells(cells, of)) == repr([render_cell(cell, of) for cell in cells])


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_an_instant_survives_its_rendering(instant: int) -> None:
    assert coerce(render_cell(instant, TIME), TIME) == instant


@given(st.integers(-(10**28) + 1, 10**28 - 1))
def test_a_decimal_survives_its_rendering(unscaled: int) -> None:
    rendered = render_cell(unscaled, Decimal(7))

    assert parse_cell(rendered, Decimal(7)) == unscaled
    assert coerce(rendered, Decimal(7)) == unscaled


@given(st.floats(allow_nan=False))
def test_a_float_survives_its_rendering(number: float) -> None:
    assert parse_cell(render_cell(number, FLOAT), FLOAT) == number

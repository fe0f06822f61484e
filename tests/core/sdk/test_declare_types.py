"""Annotations are types; the error for an invalid one lists the valid ones."""

from datetime import date, datetime
from decimal import Decimal as PythonDecimal
from typing import Annotated, Dict, List, Optional, Union  # noqa: UP035 (authors write these)

import pytest

from narthex._ir import types
from narthex._sdk.annotations import parse_annotation
from narthex.dtypes import Decimal, Embedding, Window, between, oneof, regex, struct
from narthex.errors import (
    DefinitionError,
    DefinitionErrors,
    RestrictionInvalid,
    TypeNotSupported,
)
from tests.cases import every


@struct
class Place:
    lat: float
    lon: float
    name: Optional[str]  # noqa: UP045


@every(
    ("annotation", "meant"),
    [
        (int, types.Int()),
        (float, types.Float()),
        (bool, types.Bool()),
        (str, types.Str()),
        (bytes, types.Bytes()),
        (datetime, types.Datetime()),
        (date, types.Date()),
        (Decimal[2], types.Decimal(2)),
        (Embedding[3], types.Embedding(3)),
        (Window, types.WINDOW),
        (Optional[Window], types.Optional(types.WINDOW)),  # noqa: UP045
        (List[Decimal[2]], types.List(types.Decimal(2))),  # noqa: UP006
        (Optional[Embedding[3]], types.Optional(types.Embedding(3))),  # noqa: UP045
        (
            dict[str, list[oneof(str, ["a"])]],
            types.Map(types.List(types.OneOf(types.Str(), ("a",)))),
        ),
        (List[Optional[regex("a")]], types.List(types.Optional(types.Regex("a")))),  # noqa: UP006, UP045
        (Optional[date], types.Optional(types.Date())),  # noqa: UP045
        (Optional[int], types.Optional(types.Int())),  # noqa: UP045
        (int | None, types.Optional(types.Int())),
        (List[int], types.List(types.Int())),  # noqa: UP006
        (list[int | None], types.List(types.Optional(types.Int()))),
        (Dict[str, float], types.Map(types.Float())),  # noqa: UP006
        (between(int, 0, 9), types.Between(types.Int(), 0, 9)),
        (between(float, 0, 1, True, False), types.Between(types.Float(), 0, 1, True, False)),
        (oneof(str, ["a", "b"]), types.OneOf(types.Str(), ("a", "b"))),
        (regex("a+"), types.Regex("a+")),
        (Optional[between(int, 0, 9)], types.Optional(types.Between(types.Int(), 0, 9))),  # noqa: UP045
        (Annotated[int, between(int, 0, 9)], types.Between(types.Int(), 0, 9)),
        (Annotated[PythonDecimal, "of money", Decimal[2]], types.Decimal(2)),
        (Annotated[str, "as people write it"], types.Str()),
        (Annotated[str, regex("a")] | None, types.Optional(types.Regex("a"))),
        (list[Annotated[list[float], Embedding[2]]], types.List(types.Embedding(2))),
        (oneof(int, [1]) | None, types.Optional(types.OneOf(types.Int(), (1,)))),
    ],
)
def test_an_annotation_means_a_type(annotation: object, meant: types.DataType) -> None:
    assert parse_annotation(annotation) == meant


@pytest.mark.parametrize(
    ("annotation", "error", "says"),
    [
        (set, TypeNotSupported, "`set` is not a type of a column"),
        (PythonDecimal, TypeNotSupported, "import `Decimal` from `narthex.dtypes`"),
        (Union[int, str], TypeNotSupported, "union of several types"),  # noqa: UP007
        (Dict[int, str], TypeNotSupported, "keys of a dict are `str`"),  # noqa: UP006
        (Decimal[0], TypeNotSupported, "use `int`"),
        (Decimal[29], TypeNotSupported, "from 1 to 28"),
        (Embedding["x"], TypeNotSupported, "has no length"),
        (between(str, 0, 1), RestrictionInvalid, "expected `int` or `float`"),
        (between(int, 0, 1.5), RestrictionInvalid, "are not both `int`"),
        (between(int, 9, 1), RestrictionInvalid, "no value lies between 9 and 1"),
        (oneof(str, ["a", 1]), RestrictionInvalid, "option 1 of `oneof` is not `str`"),  # type: ignore[list-item]
        (oneof(int, []), RestrictionInvalid, "has no options"),
    ],
)
def test_an_invalid_annotation_is_reported(
    annotation: object, error: type[DefinitionError], says: str
) -> None:
    with pytest.raises(error) as raised:
        parse_annotation(annotation)

    assert says in str(raised.value)


def test_a_struct_is_its_members() -> None:
    assert parse_annotation(Place) == types.Struct(
        "Place",
        (
            types.StructField("lat", types.Float()),
            types.StructField("lon", types.Float()),
            types.StructField("name", types.Optional(types.Str())),
        ),
    )
    assert Place(lat=1.0, lon=2.0, name=None) == Place(lat=1.0, lon=2.0, name=None)


def test_a_struct_is_made_by_name_or_by_position() -> None:
    by_name = Place(lat=1.0, lon=2.0, name="x")

    assert Place(1.0, 2.0, "x") == Place(1.0, 2.0, name="x") == by_name
    assert by_name.as_json() == {"lat": 1.0, "lon": 2.0, "name": "x"}
    for values in ((1.0,), (1.0, 2.0, "x", 3)):
        with pytest.raises(TypeError, match="takes exactly lat, lon, name"):
            Place(*values)
    with pytest.raises(TypeError, match="takes exactly"):
        Place(1.0, 2.0, "x", lat=1.0)


def test_a_window_is_a_struct() -> None:
    begin, end = datetime(2026, 1, 1), datetime(2026, 1, 2)  # noqa: DTZ001

    assert Window(begin, end) == Window(begin=begin, end=end)
    assert Window(begin, end).as_json() == {"begin": begin, "end": end}


def test_an_embedding_is_not_a_literal() -> None:
    with pytest.raises(TypeError, match="is a type"):
        Embedding(3)


def test_a_struct_may_have_structs_inside() -> None:
    @struct
    class Trip:
        @struct
        class Stop:
            name: str

        stops: List[Stop]  # noqa: UP006
        by_name: Dict[str, Stop]  # noqa: UP006

    stop = Trip.Stop(name="a")

    assert Trip([stop], {"a": stop}).as_json() == {
        "stops": [{"name": "a"}],
        "by_name": {"a": {"name": "a"}},
    }


def test_a_struct_has_members_only() -> None:
    with pytest.raises(DefinitionErrors) as raised:

        @struct
        class Car:
            year: int = 1990
            doors: set

            wheels = 4

            class Engine: ...

            def drive(self) -> None: ...

            @classmethod
            def park(cls) -> None: ...

    found = raised.value.exceptions_flat()
    assert sorted(type(error).__name__ for error in found) == [
        *["StructInvalid"] * 5,
        "TypeNotSupported",
    ]
    said = " ".join(error.message for error in found)
    for part in ("default `1990`", "attribute `wheels`", "attribute `Engine`", "method `park`"):
        assert part in said

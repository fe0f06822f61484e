"""Annotations mean types; what cannot be a type is told with what can."""

from datetime import date, datetime
from decimal import Decimal as PythonDecimal
from typing import Dict, List, Optional, Union  # noqa: UP035 (authors write these)

import pytest

from narthex import types
from narthex.annotations import parse_annotation
from narthex.dtypes import Decimal, Embedding, Window, between, oneof, regex, struct
from narthex.errors import (
    DefinitionError,
    DefinitionErrors,
    RestrictionInvalid,
    TypeNotSupported,
)


@struct
class Place:
    lat: float
    lon: float
    name: Optional[str]  # noqa: UP045


@pytest.mark.parametrize(
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
        (between(str, 0, 1), RestrictionInvalid, "wants `int` or `float`"),
        (between(int, 0, 1.5), RestrictionInvalid, "are not both `int`"),
        (between(int, 9, 1), RestrictionInvalid, "no value lies between 9 and 1"),
        (oneof(str, ["a", 1]), RestrictionInvalid, "option 1 of `oneof` is not `str`"),  # type: ignore[list-item]
        (oneof(int, []), RestrictionInvalid, "has no options"),
    ],
)
def test_what_is_no_type_is_told(
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


def test_a_struct_has_members_only() -> None:
    with pytest.raises(DefinitionErrors) as raised:

        @struct
        class Car:
            year: int = 1990
            doors: set

            def drive(self) -> None: ...

    kinds = sorted(type(error).__name__ for error in raised.value.exceptions)
    assert kinds == ["StructInvalid", "StructInvalid", "TypeNotSupported"]

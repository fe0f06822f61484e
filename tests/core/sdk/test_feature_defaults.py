"""Defaults of lookups of all types, and the tolerance of `narthex.compat`."""

from datetime import datetime
from decimal import Decimal as PythonDecimal
from typing import Any

import pytest

from narthex._analysis.tolerance import ToleratedWarning, tolerant
from narthex._expr.python import literal_cell
from narthex._ir.literals import is_literal_of
from narthex._ir.types import Null
from narthex._sdk.annotations import parse_annotation
from narthex._sdk.declare.literals import MisfitError, literal_of
from narthex._sdk.declare.structs import struct
from narthex.datasets import dataset, field
from narthex.dtypes import Decimal
from narthex.errors import DefinitionErrors
from narthex.featuresets import feature, featureset


@struct
class Velocity:
    speed: float
    direction: int


@struct
class Flight:
    velocity: Velocity
    stops: list[str]


@pytest.mark.parametrize(
    ("value", "annotation", "cell"),
    [
        (Velocity(500, 3), Velocity, {"speed": 500.0, "direction": 3}),
        ({"speed": 1.5, "direction": 0}, Velocity, {"speed": 1.5, "direction": 0}),
        (
            Flight(Velocity(1.0, 2), stops=["a"]),
            Flight,
            {"velocity": {"speed": 1.0, "direction": 2}, "stops": ("a",)},
        ),
        ({"b": 1, "a": None}, dict[str, int | None], {"a": None, "b": 1}),
        ([Velocity(1.0, 2)], list[Velocity], ({"speed": 1.0, "direction": 2},)),
        (0.0, Decimal[2], 0),
        (1.25, Decimal[2], 125),
        (PythonDecimal("1.5"), Decimal[2], 150),
    ],
)
def test_a_value_is_a_literal_of_its_type_and_a_cell_again(
    value: object, annotation: object, cell: object
) -> None:
    of = parse_annotation(annotation)

    literal = literal_of(value, of)

    assert is_literal_of(literal, of)
    assert literal_cell(literal, of) == cell


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (0.125, Decimal[2]),
        (float("inf"), Decimal[2]),
        ({"speed": 1.0}, Velocity),
        ({"speed": 1.0, "direction": 2, "more": 3}, Velocity),
        ("fast", Velocity),
        ({1: 2}, dict[str, int]),
        ([], dict[str, int]),
    ],
)
def test_a_value_of_another_type_is_not_a_literal(value: object, annotation: object) -> None:
    with pytest.raises(MisfitError):
        literal_of(value, parse_annotation(annotation))


@pytest.mark.parametrize("literal", [(1.0,), (1.0, "x"), "x", ((1.0, 2), 3)])
def test_an_invalid_struct_literal_is_refused(literal: Any) -> None:
    assert not is_literal_of(literal, parse_annotation(Velocity))


def test_only_null_is_a_literal_of_the_type_of_null() -> None:
    assert is_literal_of(None, Null())
    assert not is_literal_of(0, Null())


def test_an_answers_struct_equals_an_instance_of_the_class() -> None:
    assert Velocity(550, 90) == {"speed": 550.0, "direction": 90}
    assert Velocity(550, 90) != {"speed": 550.0, "direction": 91}


@dataset(index=True)
class Users:
    uid: int = field(key=True)
    name: str
    at: datetime


def test_a_key_of_another_type_is_refused_and_passes_with_a_warning_where_asked_for() -> None:
    def declare() -> None:
        @featureset
        class Asked:
            uid: str
            name: str = feature(Users.name, default="")

    with pytest.raises(DefinitionErrors, match="as a key of `Users`"):
        declare()
    with tolerant(), pytest.warns(ToleratedWarning, match="the platform refuses that"):
        declare()

"""A class becomes a dataset, or all of its mistakes are reported with file and line."""

import inspect
from datetime import date, datetime
from typing import Optional

import pandas as pd
import pytest

from narthex._ir.entities import Expectation, Index
from narthex._ir.schema import Role
from narthex._ir.types import Between, Datetime, Int, Str
from narthex._sdk.datasets.datasets import dataset_entity
from narthex.compat.declaring import dataset as fennel_dataset
from narthex.datasets import Dataset, dataset, field, index
from narthex.dtypes import between
from narthex.errors import (
    DefinitionError,
    DefinitionErrors,
    ExpectationInvalid,
    FieldInvalid,
    IndexInvalid,
    KeyNotAllowed,
    LookupImpossible,
    MetaInvalid,
    NameNotAllowed,
    TimestampUnclear,
    TypeNotSupported,
)
from narthex.lib import (
    expect_column_pair_values_A_to_be_greater_than_B,
    expect_column_values_to_be_between,
    expect_column_values_to_be_in_set,
    expectations,
    meta,
)

HERE = __file__.rpartition("/")[2]


def _line() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def _mistakes(raised: pytest.ExceptionInfo[DefinitionErrors]) -> list[DefinitionError]:
    return list(raised.value.exceptions_flat())


def test_annotations_are_fields_in_order() -> None:
    @meta(owner="a@b.co", tags=["pii"])
    @dataset(version=3, history="1y", index=True)
    class User:
        uid: int = field(key=True, erase_key=True)
        # the name
        # as written
        name: str
        age: between(int, 0, 200)
        seen: datetime

    entity = dataset_entity(User)

    assert [f.name for f in entity.schema.fields] == ["uid", "name", "age", "seen"]
    assert [f.role for f in entity.schema.fields] == [
        Role.KEY,
        Role.VALUE,
        Role.VALUE,
        Role.TIMESTAMP,
    ]
    assert entity.schema.columns["age"] == Between(Int(), 0, 200)
    assert entity.schema.fields[0].erase_key
    assert entity.schema.fields[1].metadata.description == "the name\nas written"
    assert (entity.version, entity.index) == (3, Index(online=True, offline=True))
    assert entity.history_us == 365 * 86_400_000_000
    assert (entity.metadata.owner, entity.metadata.tags) == ("a@b.co", ("pii",))


def test_a_dataset_has_the_number_of_partitions_that_its_author_writes() -> None:
    @dataset(partitions=1024)
    class Wide:
        at: datetime

    @dataset
    class Usual:
        at: datetime

    assert (dataset_entity(Wide).partitions, dataset_entity(Usual).partitions) == (1024, None)


@pytest.mark.parametrize("number", [0, 1025, -1, True, 2.0, "2"])
def test_an_impossible_number_of_partitions_is_reported_at_its_line(number: object) -> None:
    with pytest.raises(DefinitionErrors) as refused:
        dataset(partitions=number)(type("Wide", (), {"__annotations__": {"at": datetime}}))  # type: ignore[call-overload]

    (error,) = _mistakes(refused)
    assert f"`partitions` got `{number!r}`, which is not a whole number from 1 to 1024" in str(
        error
    )
    assert "test_declare_datasets.py:" in str(error)


def test_fields_are_attributes_even_when_named_like_parts_of_a_dataset() -> None:
    @dataset
    class Shop:
        name: str = field(key=True)
        version: int
        index: int
        at: datetime

    assert Shop.name.fqn() == "Shop.name"
    assert Shop.version.dtype == Int()
    assert Shop.timestamp_field == "at"
    assert Shop.key_fields == ["name"]
    with pytest.raises(AttributeError, match="has no field `nmae`"):
        _ = Shop.nmae


def test_the_only_datetime_is_the_timestamp_and_a_mark_decides_between_two() -> None:
    @dataset
    class One:
        at: datetime
        day: date

    @dataset
    class Two:
        made: datetime
        at: datetime = field(timestamp=True)

    assert One.timestamp_field == "at"
    assert Two.timestamp_field == "at"
    assert Two.made.dtype == Datetime()


def test_mistakes_of_one_dataset_are_reported_together_with_file_and_line() -> None:
    first = _line() + 5
    with pytest.raises(DefinitionErrors) as raised:

        @dataset
        class Orders:
            uid: Optional[int] = field(key=True)  # noqa: UP045
            amount: set
            fields: int
            at: datetime

    found = _mistakes(raised)
    assert [type(error) for error in found] == [KeyNotAllowed, TypeNotSupported, NameNotAllowed]
    assert [error.origin.line for error in found] == [first, first + 1, first + 2]
    assert all(error.origin.file.endswith(HERE) for error in found)
    assert "[NX103] field `amount`: `set` is not a type of a column" in str(raised.value)
    assert f"{HERE}:{first + 1}" in str(raised.value)
    assert str(raised.value).endswith("3 mistakes")


@pytest.mark.parametrize(
    ("annotations", "values", "error"),
    [
        ({"a": int}, {}, TimestampUnclear),
        ({"a": datetime, "b": datetime}, {}, TimestampUnclear),
        ({"a": date}, {"a": field(timestamp=True)}, TypeNotSupported),
        ({"k": datetime, "at": datetime}, {"k": field(key=True, timestamp=True)}, KeyNotAllowed),
        ({"k": float, "at": datetime}, {"k": field(key=True)}, KeyNotAllowed),
        ({"k": between(float, 0, 1), "at": datetime}, {"k": field(key=True)}, KeyNotAllowed),
        ({"k": int, "at": datetime}, {"k": field(erase_key=True)}, FieldInvalid),
        ({"k": int, "at": datetime}, {"k": 5}, FieldInvalid),
        ({"k": int, "at": datetime}, {"k": field().meta(deprecated=True)}, FieldInvalid),
        ({"k": int, "at": datetime}, {"k": field().meta(owner="me")}, MetaInvalid),
        ({"__x": int, "at": datetime}, {}, NameNotAllowed),
    ],
)
def test_an_invalid_field_is_refused(
    annotations: dict[str, object], values: dict[str, object], error: type[DefinitionError]
) -> None:
    made = type("D", (), {**values, "__annotations__": annotations})

    with pytest.raises(DefinitionErrors) as raised:
        dataset(made)

    assert [type(found) for found in _mistakes(raised)] == [error]


@pytest.mark.parametrize(
    ("options", "index_of"),
    [
        ({"index": True}, Index(online=True, offline=True)),
        ({"index": True, "offline": False}, Index(online=True, offline=False)),
        ({"index": True, "online": False}, Index(online=False, offline=True)),
        ({"offline": True}, Index(online=False, offline=True)),
        ({"online": True}, Index(online=True, offline=False)),
        ({}, None),
    ],
)
def test_index_options_determine_the_lookups(
    options: dict[str, bool], index_of: Index | None
) -> None:
    made = type("D", (), {"__annotations__": {"k": int, "at": datetime}, "k": field(key=True)})

    found = dataset(**options)(made)  # type: ignore[arg-type]

    assert dataset_entity(found).index == index_of


def test_indexes_that_mean_nothing_are_refused() -> None:
    keyed = {"__annotations__": {"k": int, "at": datetime}, "k": field(key=True)}
    for options in ({"index": True, "online": True}, {"online": True, "offline": True}):
        with pytest.raises(DefinitionErrors) as raised:
            dataset(**options)(type("D", (), dict(keyed)))  # type: ignore[call-overload]
        assert isinstance(_mistakes(raised)[0], IndexInvalid)

    with pytest.raises(DefinitionErrors, match="has an index but no key"):
        dataset(index=True)(type("D", (), {"__annotations__": {"at": datetime}}))


def test_a_second_index_decorator_is_refused() -> None:
    @index(online=False)
    @dataset
    class Once:
        k: int = field(key=True)
        at: datetime

    assert dataset_entity(Once).index == Index(online=False, offline=True)
    with pytest.raises(DefinitionErrors, match="has an index already"):
        index(Once)


def test_expectations_are_promises_about_columns() -> None:
    @dataset
    class Orders:
        amount: float
        paid: float
        kind: str
        at: datetime

        @expectations
        def promises(cls) -> list[object]:  # noqa: N805
            return [
                expect_column_values_to_be_between("amount", 0, 10, mostly=0.99),
                expect_column_values_to_be_in_set("kind", ["a", "b"]),
                expect_column_pair_values_A_to_be_greater_than_B("amount", "paid", or_equal=True),
            ]

    first, second, third = dataset_entity(Orders).expectations

    assert first == Expectation(
        kind="expect_column_values_to_be_between",
        arguments=(
            ("column", "amount"),
            ("min_value", 0),
            ("max_value", 10),
            ("strict_min", False),
            ("strict_max", False),
        ),
        mostly=0.99,
    )
    assert ("value_set", ("a", "b")) in second.arguments
    assert ("column_A", "amount") in third.arguments


def test_an_expectation_about_an_unknown_column_is_refused_at_its_line() -> None:
    with pytest.raises(DefinitionErrors) as raised:

        @dataset
        class Orders:
            amount: float
            at: datetime

            @expectations
            def promises(cls) -> list[object]:  # noqa: N805
                return [expect_column_values_to_be_between("amuont", 0, 10)]

    (error,) = _mistakes(raised)
    assert isinstance(error, ExpectationInvalid)
    assert error.hint == "did you mean `amount`?"


def test_a_lookup_outside_an_extractor_is_refused() -> None:
    @dataset(index=True)
    class User:
        uid: str = field(key=True)
        at: datetime

    assert isinstance(User, Dataset)
    assert User.uid.dtype == Str()
    with pytest.raises(LookupImpossible, match="outside an extractor"):
        User.lookup(pd.to_datetime(pd.Series(["2024-01-01"])), uid=pd.Series(["a"]))


def test_code_for_fennels_client_may_have_a_history_without_an_index() -> None:
    @fennel_dataset(history="2y")
    class Orders:
        uid: int
        at: datetime

    @fennel_dataset(index=True, history="2y")
    class Users:
        uid: int = field(key=True)
        at: datetime

    assert dataset_entity(Orders).history_us is None
    assert dataset_entity(Users).history_us == 2 * 365 * 86_400_000_000

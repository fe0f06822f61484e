# ruff: noqa: ARG002
"""Origins of features: an input, a lookup, another feature, an expression, a function."""

from datetime import datetime
from typing import Any, List, Optional  # noqa: UP035 (authors write these)

import pandas as pd
import pytest

from narthex._authoring.error_collection import collecting
from narthex._ir.entities import AliasExtractor, CodeExtractor, ExpressionExtractor, LookupExtractor
from narthex._sdk.features.featuresets import Featureset, featureset_entity
from narthex.datasets import dataset, field
from narthex.errors import (
    ArgumentInvalid,
    CodeForbidden,
    DefinitionError,
    DefinitionErrors,
    ExpressionTypeWrong,
    ExtractorInvalid,
    FeatureInvalid,
    LookupImpossible,
    TypeNotSupported,
)
from narthex.expr import col
from narthex.featuresets import extractor, feature, featureset
from narthex.featuresets import feature as F  # noqa: N812 (authors write it so)
from narthex.lib import inputs, meta, outputs
from tests.cases import every


@dataset(index=True)
class Users:
    uid: int = field(key=True)
    age: int
    nick: Optional[str]  # noqa: UP045
    at: datetime


@dataset(index=True)
class Missing:
    nid: int = field(key=True)
    age: int
    at: datetime


@dataset
class Unindexed:
    uid: int = field(key=True)
    at: datetime


@dataset
class Keyless:
    at: datetime


SERIES = pd.Series([1, 2])
INSTANTS = pd.to_datetime(pd.Series(["2024-01-01", "2024-01-02"]), utc=True)


@featureset
class Request:
    uid: int


@meta(owner="a@b.co")
@featureset
class Person:
    uid: int = F(Request.uid)
    # in years
    age: int = F(Users.age, default=0)
    nick: Optional[str] = F(Users.nick)  # noqa: UP045
    old: bool = F(col("age") > 65, version=2)
    doubled: int
    halved: float

    @extractor(deps=[Users], version=3)
    @inputs("age", Request.uid)
    @outputs("doubled")
    def double(cls, ts: Any, age: Any, uid: Any) -> Any:  # noqa: N805
        _, found = Users.lookup(ts, uid=uid, fields=["age"])
        return (age * 2).where(found).rename("doubled")

    @extractor(env="prod")
    @inputs("age")
    @outputs("halved")
    def halve(cls, ts: Any, age: Any) -> Any:  # noqa: N805
        return (age / 2).rename("halved")


def _extractors(of: Featureset, env: str | None = None) -> list[object]:
    return list(featureset_entity(of, env).extractors)


def test_each_feature_has_the_extractor_that_it_asks_for() -> None:
    alias, age, nick, old, double, halve = _extractors(Person)

    assert isinstance(alias, AliasExtractor)
    assert alias.source == "Request.uid"
    assert isinstance(age, LookupExtractor)
    assert (age.dataset, age.column, age.default, age.has_default) == ("Users", "age", 0, True)
    assert isinstance(nick, LookupExtractor)
    assert not nick.has_default
    assert isinstance(old, ExpressionExtractor)
    assert old.version == 2
    assert isinstance(double, CodeExtractor)
    assert (double.inputs, double.outputs, double.datasets, double.version) == (
        ("Person.age", "Request.uid"),
        ("doubled",),
        ("Users",),
        3,
    )
    assert "Users = reference('Users')" in double.code.source
    assert isinstance(halve, CodeExtractor)


def test_a_commit_takes_the_extractors_of_its_env() -> None:
    assert len(_extractors(Person, "prod")) == 6
    assert len(_extractors(Person, "dev")) == 5


def test_features_are_attributes_and_comments_describe_them() -> None:
    assert Person.age.fqn() == "Person.age"
    assert featureset_entity(Person).features[1].metadata.description == "in years"
    assert featureset_entity(Person).metadata.owner == "a@b.co"
    with pytest.raises(AttributeError, match="has no feature `aeg`"):
        _ = Person.aeg


def test_an_extractor_without_outputs_gives_all_features() -> None:
    @featureset
    class Two:
        a: int
        b: int

        @extractor
        def both(cls, ts: Any) -> Any:  # noqa: N805
            return ts

    (found,) = _extractors(Two)
    assert isinstance(found, CodeExtractor)
    assert found.outputs == ("a", "b")


def _feature(annotation: object, value: object) -> Featureset:
    made = type(
        "Made", (), {"__annotations__": {"uid": int, "other": int, "x": annotation}, "x": value}
    )
    return featureset(made)


@every(
    ("annotation", "value", "error"),
    [
        (int, feature(Users.age), FeatureInvalid),
        (str, feature(Users.age, default=0), FeatureInvalid),
        (int, feature(Users.age, default="x"), FeatureInvalid),
        (int, feature(Users.age, Users.nick), FeatureInvalid),
        (int, feature(default=1), FeatureInvalid),
        (int, feature("Users.age"), FeatureInvalid),
        (str, feature(Request.uid), FeatureInvalid),
        (int, feature(col("other") + 1, default=1), FeatureInvalid),
        (str, feature(col("other") + 1), ExpressionTypeWrong),
        (int, feature(col("ohter") + 1), ExpressionTypeWrong),
        (List[int], feature(Users.age, default=[]), FeatureInvalid),  # noqa: UP006
        (List[int], feature(Users.age, default=0), FeatureInvalid),  # noqa: UP006
        (List[int], feature(Users.age), FeatureInvalid),  # noqa: UP006
        (int, feature(Request.uid, default=1), FeatureInvalid),
        (int, feature(Person.nick, default=""), FeatureInvalid),
        (str, feature(Person.nick, default=1), FeatureInvalid),
        (datetime, feature(Unindexed.at, default=datetime(2020, 1, 1)), LookupImpossible),  # noqa: DTZ001
        (int, feature(Missing.age, default=0), FeatureInvalid),
        (set, feature(), TypeNotSupported),
    ],
)
def test_a_feature_that_does_not_fit_is_refused(
    annotation: object, value: object, error: type[DefinitionError]
) -> None:
    with pytest.raises(DefinitionErrors) as raised:
        _feature(annotation, value)

    (found,) = raised.value.exceptions_flat()
    assert type(found) is error


def test_mistakes_of_a_featureset_are_reported_together() -> None:
    with pytest.raises(DefinitionErrors) as raised:

        @featureset
        class Bad:
            uid: int
            age: int = F(Users.age)
            far: str

            @extractor(deps=[Unindexed], version=-1)
            @inputs("ui", "uid")
            @outputs("fra")
            def f(cls, ts: Any) -> Any:  # noqa: N805
                return open("x")  # noqa: PTH123

    kinds = sorted(type(error).__name__ for error in raised.value.exceptions_flat())
    assert kinds == sorted(
        [
            FeatureInvalid.__name__,
            ExtractorInvalid.__name__,
            ExtractorInvalid.__name__,
            ExtractorInvalid.__name__,
            ExtractorInvalid.__name__,
            LookupImpossible.__name__,
            CodeForbidden.__name__,
        ]
    )


def test_deps_has_two_names_and_one_of_them_is_enough() -> None:
    with pytest.raises(ArgumentInvalid):
        extractor(deps=[Users], depends_on=[Users])


def test_lists_of_keys_look_lists_up() -> None:
    @featureset
    class Many:
        uid: List[int]  # noqa: UP006
        ages: List[int] = F(Users.age, default=7)  # noqa: UP006
        nicks: List[Optional[str]] = F(Users.nick)  # noqa: UP006, UP045

    ages, nicks = _extractors(Many)
    assert isinstance(ages, LookupExtractor)
    assert isinstance(nicks, LookupExtractor)
    assert (ages.is_list, ages.default, ages.has_default) == (True, 7, True)
    assert (nicks.is_list, nicks.has_default) == (True, False)


def test_an_alias_can_have_a_default_where_the_other_feature_can_be_null() -> None:
    @featureset
    class Named:
        nick: str = F(Person.nick, default="nobody")

    (alias,) = _extractors(Named)
    assert isinstance(alias, AliasExtractor)
    assert (alias.source, alias.default, alias.has_default) == ("Person.nick", "nobody", True)


def test_one_field_can_be_looked_up_for_two_features_and_for_two_envs() -> None:
    @featureset
    class Twice:
        uid: int
        age: int = F(Users.age, default=0)
        years: int = F(Users.age, default=1, env="prod")

    assert len(_extractors(Twice, "prod")) == 2
    assert len(_extractors(Twice, "dev")) == 1


def test_users_of_a_broken_entity_get_no_further_errors() -> None:
    with collecting() as found:

        @dataset(index=True)
        class Broken:
            uid: int = field(key=True)
            age: set  # type: ignore[type-arg]
            at: datetime

        @featureset
        class Reads:
            uid: int
            age: int = F(Broken.age, default=0)
            wrong: str = F(col("uid"))

        @featureset
        class Aliases:
            age: int = F(Reads.age)
            other: int = F(Reads.nothing)

    assert [error.code for error in found] == ["NX103", "NX401"]


LOOKUPS = {
    "no key": (Keyless, {}, "has no key to look up by"),
    "by position": (Users, {"positional": True}, "takes its keys by name"),
    "missing": (Users, {"keys": {}}, "has no key `uid`"),
    "unknown": (Users, {"keys": {"uid": SERIES, "uld": SERIES}}, "was given `uld`"),
    "no column": (Users, {"keys": {"uid": 5}}, "is a `int`; expected a Series"),
    "unknown field": (Users, {"fields": ["aeg"]}, "selects `aeg`"),
    "no instants": (Users, {"ts": SERIES}, "`ts` is a column of `int64`, not of instants"),
    "no column of instants": (Users, {"ts": datetime(2020, 1, 1)}, "expected a Series"),  # noqa: DTZ001
    "elsewhere": (Users, {}, "was called outside an extractor"),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_an_impossible_lookup_is_refused_with_a_reason(name: str) -> None:
    of, call, says = LOOKUPS[name]
    given = {"ts": INSTANTS, "keys": {"uid": SERIES}, "fields": [], **call}
    positional = [SERIES] if "positional" in call else []

    with pytest.raises(LookupImpossible) as raised:
        of.lookup(given["ts"], *positional, fields=given["fields"], **given["keys"])

    assert says in raised.value.message

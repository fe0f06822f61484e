"""A small shop, declared as values: orders joined with users, spend per user, features of it."""

from collections.abc import Callable

import attrs
import pytest

from narthex._base.origin import Origin
from narthex._ir.aggregate_specs import Average, Count, LastK, Sum
from narthex._ir.code import Requirement, UserCode
from narthex._ir.entities import (
    AliasExtractor,
    Cdc,
    CodeExtractor,
    Dataset,
    Definitions,
    ExpressionExtractor,
    Feature,
    Featureset,
    Index,
    LookupExtractor,
    Pipeline,
    Source,
    WebhookEndpoint,
)
from narthex._ir.expression_nodes import Call, Literal, Ref
from narthex._ir.operators import Aggregate, DatasetRef, Filter, Join, JoinHow, Operator
from narthex._ir.schema import Field, Metadata, Role, Schema
from narthex._ir.types import Datetime, Float, Int, List, Optional, Str
from narthex._ir.windows import Continuous

OWNED = Metadata(owner="a@b.co")


def _schema(keys: dict[str, object], values: dict[str, object]) -> Schema:
    return Schema(
        (
            *(Field(name=name, type=of, role=Role.KEY) for name, of in keys.items()),
            *(Field(name=name, type=of) for name, of in values.items()),
            Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
        )
    )


def _webhook(endpoint: str, cdc: Cdc, line: int) -> Source:
    return Source(
        connector=WebhookEndpoint(webhook="shop", endpoint=endpoint),
        disorder_us=0,
        cdc=cdc,
        origin=Origin(file="shop.py", line=line),
    )


def _pipeline(name: str, inputs: tuple[str, ...], terminal: Operator, line: int) -> Pipeline:
    return Pipeline(
        name=name, inputs=inputs, terminal=terminal, origin=Origin(file="shop.py", line=line)
    )


def _orders() -> Dataset:
    return Dataset(
        name="Orders",
        version=1,
        schema=_schema({}, {"user": Str(), "amount": Float()}),
        sources=(_webhook("orders", Cdc.APPEND, 10),),
        metadata=OWNED,
        origin=Origin(file="shop.py", line=11),
    )


def _users() -> Dataset:
    return Dataset(
        name="Users",
        version=1,
        schema=_schema({"user": Str()}, {"country": Str()}),
        sources=(_webhook("users", Cdc.UPSERT, 20),),
        index=Index(online=True, offline=True),
        metadata=OWNED,
        origin=Origin(file="shop.py", line=21),
    )


def _enriched() -> Dataset:
    join = Join(
        DatasetRef("Orders"),
        DatasetRef("Users"),
        JoinHow.LEFT,
        (("user", "user"),),
        None,
        0,
        ("country",),
        origin=Origin(file="shop.py", line=34),
    )
    return Dataset(
        name="Enriched",
        version=1,
        schema=_schema({}, {"user": Str(), "amount": Float(), "country": Optional(Str())}),
        pipelines=(_pipeline("join_users", ("Orders", "Users"), join, 33),),
        metadata=OWNED,
        origin=Origin(file="shop.py", line=31),
    )


def _spend() -> Dataset:
    positive = Filter(
        DatasetRef("Enriched"),
        Call("gt", (Ref("amount"), Literal(0.0, Float()))),
        origin=Origin(file="shop.py", line=44),
    )
    specs = (
        Sum(into="total", window=Continuous("1d"), of="amount"),
        Count(into="orders", window=Continuous("forever")),
        Average(into="mean", window=Continuous("1h"), of="amount", default=-1.0),
        LastK(into="last", window=Continuous("1h"), of="amount", limit=3, dedup=False),
    )
    aggregate = Aggregate(positive, ("user",), specs, origin=Origin(file="shop.py", line=45))
    values = {"orders": Int(), "total": Float(), "mean": Float(), "last": List(Float())}
    return Dataset(
        name="Spend",
        version=1,
        schema=_schema({"user": Str()}, values),
        pipelines=(_pipeline("spend", ("Enriched",), aggregate, 43),),
        index=Index(online=True, offline=True),
        metadata=OWNED,
        origin=Origin(file="shop.py", line=41),
    )


def _code() -> UserCode:
    return UserCode(
        entry="risk",
        source="def risk(cls, ts, total, country):\n    return (total * 2).rename('risk')\n",
        requires=(Requirement(distribution="pandas", version="2.3.3"),),
        python="3.11",
        origin=Origin(file="shop.py", line=60),
    )


def _features() -> Featureset:
    def at(line: int) -> Origin:
        return Origin(file="shop.py", line=line)

    ratio = Call("div", (Ref("total"), Ref("mean")))
    return Featureset(
        name="F",
        features=(
            Feature(name="user", type=Str()),
            Feature(name="total", type=Float()),
            Feature(name="mean", type=Float()),
            Feature(name="orders", type=Optional(Int())),
            Feature(name="country", type=Optional(Str())),
            Feature(name="ratio", type=Optional(Float())),
            Feature(name="spent", type=Float()),
            Feature(name="risk", type=Float()),
        ),
        extractors=(
            LookupExtractor(
                feature="total",
                dataset="Spend",
                column="total",
                default=0.0,
                has_default=True,
                origin=at(51),
            ),
            LookupExtractor(
                feature="mean",
                dataset="Spend",
                column="mean",
                default=7.0,
                has_default=True,
                origin=at(52),
            ),
            LookupExtractor(feature="orders", dataset="Spend", column="orders", origin=at(53)),
            LookupExtractor(feature="country", dataset="Users", column="country", origin=at(54)),
            ExpressionExtractor(feature="ratio", expression=ratio, origin=at(55)),
            AliasExtractor(feature="spent", source="F.total", origin=at(56)),
            CodeExtractor(
                name="risk",
                inputs=("F.total", "F.country"),
                outputs=("risk",),
                code=_code(),
                version=1,
                origin=at(59),
            ),
        ),
        metadata=OWNED,
        origin=at(50),
    )


@pytest.fixture
def shop() -> Definitions:
    """Correct definitions: four datasets and a featureset."""
    return Definitions(
        datasets=(_orders(), _users(), _enriched(), _spend()), featuresets=(_features(),)
    )


Edit = Callable[[Dataset], Dataset]


@pytest.fixture
def edited(shop: Definitions) -> Callable[[str, Edit], Definitions]:
    """Return the shop with one dataset changed."""

    def edit(name: str, change: Edit) -> Definitions:
        datasets = tuple(change(one) if one.name == name else one for one in shop.datasets)
        return attrs.evolve(shop, datasets=datasets)

    return edit

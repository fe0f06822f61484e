"""A project with every kind of entity, as authors write it who check their types."""

from datetime import UTC, datetime
from decimal import Decimal as PythonDecimal
from typing import Annotated, Optional, assert_type

import pandas as pd

from narthex.client import Client, Response
from narthex.connectors import Kafka, Secret, Webhook, eval, ref, sink, source
from narthex.datasets import (
    Average,
    Count,
    Groups,
    LastK,
    Rows,
    Sum,
    dataset,
    field,
    index,
    pipeline,
)
from narthex.dtypes import (
    Continuous,
    Decimal,
    Embedding,
    Tumbling,
    Window,
    between,
    oneof,
    regex,
    struct,
)
from narthex.expr import Expr, TypedExpr, col, lit, when
from narthex.featuresets import extractor, feature, featureset
from narthex.integrations import aws
from narthex.lib import (
    bucketize,
    expect_column_values_to_be_between,
    expectations,
    inputs,
    meta,
    outputs,
    secrets,
)
from narthex.testing import TestClient, mock

__owner__ = "shop@example.org"

webhook = Webhook(name="shop")
bus = Kafka("bus", "kafka:9092", "SASL_SSL", "PLAIN", Secret("user"), Secret("password"))
key = aws.Secret("arn:aws:secretsmanager:eu-1:1:secret:shop")["key"]

assert_type(col("a") + 1, Expr)
assert_type(col("a") > lit(1), Expr)
assert_type(when(col("a") > 1).then(1).otherwise(0), Expr)
assert_type((col("a") + 1).astype(int), TypedExpr)
assert_type(bucketize(datetime(2024, 1, 1, tzinfo=UTC), "1d"), Window)


@struct
class Address:
    city: str
    zip: Optional[str]


@source(
    webhook.endpoint("orders"),
    disorder="1h",
    cdc="append",
    preproc={"price": eval(col("cents") / 100, schema={"cents": int}), "user_id": ref("user[id]")},
    where=eval(col("price") > 0.0),
)
@meta(owner="orders@example.org", tags=["money"])
@dataset(version=2)
class Orders:
    user_id: int = field(key=False).meta(description="who bought")
    price: float
    address: Address
    ordered_at: datetime = field(timestamp=True)

    @expectations
    def promises(cls) -> list[object]:
        return [expect_column_values_to_be_between(column="price", min_value=0, max_value=10_000)]


@source(bus.topic("users"), disorder="1d", cdc="upsert", env="prod")
@index
@dataset
class Users:
    user_id: int = field(key=True, erase_key=True)
    country: str
    code: Annotated[str, regex("[a-z]{2}")]
    age: Annotated[int, between(int, 0, 150)] | None
    plan: Annotated[str, oneof(str, ["free", "paid"])]
    balance: Annotated[PythonDecimal, Decimal[2]]
    taste: Annotated[list[float], Embedding[4]]
    changed_at: datetime


@sink(bus.topic("spend"), cdc="debezium")
@dataset(index=True)
class Spend:
    country: str = field(key=True)
    spent: float
    orders: int
    last: list[float]
    ordered_at: datetime

    @pipeline
    @inputs(Orders, Users)
    def by_country(cls, orders: Rows, users: Rows) -> Rows:
        joined = orders.filter(col("price") > 0.0).join(users, how="inner", on=["user_id"])
        assert_type(joined, Rows)
        assert_type(joined.groupby("country"), Groups)
        return joined.groupby("country").aggregate(
            spent=Sum(of="price", window=Tumbling("1d")),
            orders=Count(window=Tumbling("1d")),
            last=LastK(of="price", limit=3, dedup=False, window=Tumbling("1d")),
        )


@dataset(index=True, history="90d")
class Means:
    user_id: int = field(key=True)
    mean: float
    ordered_at: datetime

    @pipeline(env="prod")
    @inputs(Orders)
    def by_user(cls, orders: Rows) -> Rows:
        return orders.groupby("user_id").aggregate(
            mean=Average(of="price", window=Continuous("7d"))
        )


@featureset
class Buyer:
    user_id: int
    mean: float = feature(Means.mean, default=0.0)
    country: str = feature(Users.country, default="?").meta(tags=["geo"])
    is_good: bool = feature(col("mean") > 10.0)
    score: float

    @extractor(version=1)
    @inputs("mean")
    @outputs("score")
    def scored(cls, ts: pd.Series, mean: pd.Series) -> pd.Series:
        return mean * len(secrets.get("salt"))


@mock
def test_means_are_means(client: TestClient) -> None:
    assert_type(
        client.commit("shop", datasets=[Orders, Users, Means], featuresets=[Buyer]), Response
    )
    asked = pd.DataFrame({"Buyer.user_id": [7]})
    assert_type(client.query([Buyer.user_id], [Buyer], asked), pd.DataFrame)
    assert_type(client.clock.now(), datetime)


def commit(client: Client) -> bool:
    answer = client.commit("shop", datasets=[Orders, Users, Spend], featuresets=[Buyer])
    assert_type(client.inspect(Orders), pd.DataFrame)
    rows, found = client.lookup(Users, keys=pd.DataFrame({"user_id": [7]}), fields=["country"])
    assert_type(found, pd.Series)
    return answer.status_code == 200 and not rows.empty

# ruff: noqa: ANN001, ANN201, ARG002, N805
"""A market as its author writes it: three kinds of sources, a join, aggregates, features."""

from datetime import datetime

import pandas as pd

from narthex.connectors import CSV, Files, Kafka, Webhook, source
from narthex.datasets import Average, Count, LastK, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import (
    expect_column_values_to_be_between,
    expect_column_values_to_be_in_set,
    expectations,
    inputs,
    outputs,
)

__owner__ = "market@narthex.dev"

ARCHIVE = "market/orders.csv"
TOPIC = "market.orders"

archive = Files(name="archive")
webhook = Webhook(name="market")
broker = Kafka(
    name="market",
    bootstrap_servers="",
    security_protocol="PLAINTEXT",
    sasl_mechanism="PLAIN",
)


@source(
    archive.path(ARCHIVE, format=CSV(null="NA")),
    disorder="1d",
    cdc="append",
    bounded=True,
    idleness="1h",
)
@source(webhook.endpoint("orders"), disorder="1d", cdc="append")
@source(broker.topic(TOPIC), disorder="1d", cdc="append")
@dataset
class Orders:
    """A purchase."""

    user: str
    item: str
    quantity: int
    price: float
    ordered_at: datetime = field(timestamp=True)

    @expectations
    def promises(cls):
        return [
            expect_column_values_to_be_between(column="quantity", min_value=0, max_value=1000),
            expect_column_values_to_be_in_set(column="item", value_set=["tea", "salt", "rope"]),
        ]


@source(webhook.endpoint("users"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Users:
    """A buyer."""

    user: str = field(key=True)
    country: str
    moved_at: datetime = field(timestamp=True)


@dataset
class Sales:
    """An order that cost something, with the country of its buyer."""

    user: str
    item: str
    quantity: int
    price: float
    country: str | None
    value: float
    ordered_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders, Users)
    def with_country(cls, orders, users):
        return (
            orders.filter(col("quantity") > 0)
            .join(users, how="left", on=["user"])
            .assign(value=(col("price") * col("quantity")).astype(float))
        )


@dataset(index=True)
class Spend:
    """The purchases of a user."""

    user: str = field(key=True)
    orders_1h: int
    orders_1d: int
    orders_ever: int
    quantity_ever: int
    value_1d: float
    items: list[str]
    ordered_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Sales)
    def by_user(cls, sales):
        return sales.groupby("user").aggregate(
            orders_1h=Count(window=Continuous("1h")),
            orders_1d=Count(window=Continuous("1d")),
            orders_ever=Count(window=Continuous("forever")),
            quantity_ever=Sum(of="quantity", window=Continuous("forever")),
            value_1d=Average(of="value", window=Continuous("1d")),
            items=LastK(of="item", limit=3, dedup=False, window=Continuous("forever")),
        )


@dataset(index=True)
class Demand:
    """The purchases of a country."""

    country: str = field(key=True)
    orders: int
    ordered_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Sales)
    def by_country(cls, sales):
        return (
            sales.dropnull("country")
            .groupby("country")
            .aggregate(orders=Count(window=Continuous("forever")))
        )


@featureset
class Buyer:
    """The features of a buyer."""

    user: str
    country: str | None = feature(Users.country)
    orders_1h: int = feature(Spend.orders_1h, default=0)
    orders_1d: int = feature(Spend.orders_1d, default=0)
    orders_ever: int = feature(Spend.orders_ever, default=0)
    quantity_ever: int = feature(Spend.quantity_ever, default=0)
    value_1d: float = feature(Spend.value_1d, default=0.0)
    items: list[str] | None = feature(Spend.items)
    is_new: bool = feature(col("orders_ever") == col("orders_1d"))
    weight: float

    @extractor
    @inputs("value_1d", "orders_1d")
    @outputs("weight")
    def weighed(cls, ts, value, orders):
        return pd.Series(value * orders.astype(float), name="weight")


@featureset
class Country:
    """The features of a country."""

    country: str
    orders: int = feature(Demand.orders, default=0)


DATASETS = [Orders, Users, Sales, Spend, Demand]
FEATURESETS = [Buyer, Country]

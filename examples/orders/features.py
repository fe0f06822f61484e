"""The features of a customer who may get a recommendation.

The orders of 1997 come from a file, those of 1998 from the shop. A customer is compared with the
cohort: the customers who bought first in the same month.
"""

from datetime import datetime

import pandas as pd

from narthex.connectors import CSV, Files, Webhook, source
from narthex.datasets import Average, Count, LastK, Rows, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import (
    expect_column_values_to_be_between,
    expectations,
    inputs,
    meta,
    outputs,
)

__owner__ = "music@example.com"

archive = Files(name="archive")
webhook = Webhook(name="music")


@source(
    archive.path("orders/orders.csv", format=CSV()),
    disorder="1d",
    cdc="append",
    bounded=True,
    idleness="1h",
)
@source(webhook.endpoint("orders"), disorder="1d", cdc="append")
@meta(description="Orders of CDs, from the archive and from the shop.")
@dataset
class Orders:
    """An order: the number of CDs, and the price of the whole order, which is 0 for a gift."""

    customer: int
    cds: int
    dollars: float
    ordered_at: datetime = field(timestamp=True)

    @expectations
    def promises(cls):
        return [
            expect_column_values_to_be_between(column="cds", min_value=1, max_value=100),
            expect_column_values_to_be_between(column="dollars", min_value=0, max_value=1000),
        ]


@source(
    archive.path("orders/customers.csv", format=CSV()),
    disorder="1d",
    cdc="upsert",
    bounded=True,
    idleness="1h",
)
@source(webhook.endpoint("customers"), disorder="1d", cdc="upsert")
@meta(description="Customers, with the month in which they bought first.")
@dataset(index=True)
class Customers:
    """A customer."""

    customer: int = field(key=True)
    cohort: str
    joined_at: datetime = field(timestamp=True)


@dataset(index=True)
class Habits:
    """The orders of a customer, in windows that slide with the query."""

    customer: int = field(key=True)
    orders_30d: int
    orders_90d: int
    orders_ever: int
    spent_90d: float
    spent_ever: float
    dollars_90d: float
    last_sizes: list[int]
    ordered_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def by_customer(cls, orders: Rows) -> Rows:
        return orders.groupby("customer").aggregate(
            orders_30d=Count(window=Continuous("30d")),
            orders_90d=Count(window=Continuous("90d")),
            orders_ever=Count(window=Continuous("forever")),
            spent_90d=Sum(of="dollars", window=Continuous("90d")),
            spent_ever=Sum(of="dollars", window=Continuous("forever")),
            dollars_90d=Average(of="dollars", window=Continuous("90d")),
            last_sizes=LastK(of="cds", limit=3, dedup=False, window=Continuous("forever")),
        )


@dataset(index=True)
class LastOrders:
    """The newest order of a customer."""

    customer: int = field(key=True)
    last_order_at: datetime
    ordered_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def newest(cls, orders: Rows) -> Rows:
        return (
            orders.assign(last_order_at=col("ordered_at").astype(datetime))
            .select("customer", "last_order_at")
            .groupby("customer")
            .latest()
        )


@dataset(index=True)
class Cohorts:
    """The orders of all customers of a cohort."""

    cohort: str = field(key=True)
    orders_30d: int
    dollars_90d: float
    ordered_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders, Customers)
    def by_cohort(cls, orders: Rows, customers: Rows) -> Rows:
        return (
            orders.join(customers, how="inner", on=["customer"])
            .groupby("cohort")
            .aggregate(
                orders_30d=Count(window=Continuous("30d")),
                dollars_90d=Average(of="dollars", window=Continuous("90d")),
            )
        )


@meta(description="A customer at the instant at which a mailing is prepared.")
@featureset
class Shopper:
    """A customer of the shop."""

    customer: int
    cohort: str = feature(Customers.cohort, default="")

    orders_30d: int = feature(Habits.orders_30d, default=0)
    orders_90d: int = feature(Habits.orders_90d, default=0)
    orders_ever: int = feature(Habits.orders_ever, default=0)
    spent_90d: float = feature(Habits.spent_90d, default=0.0)
    spent_ever: float = feature(Habits.spent_ever, default=0.0)
    dollars_90d: float = feature(Habits.dollars_90d, default=0.0)
    last_sizes: list[int] | None = feature(Habits.last_sizes)
    last_order_at: datetime | None = feature(LastOrders.last_order_at)

    cohort_orders_30d: int = feature(Cohorts.orders_30d, default=0)
    cohort_dollars_90d: float = feature(Cohorts.dollars_90d, default=0.0)

    spends_more: bool = feature(col("dollars_90d") > col("cohort_dollars_90d"))
    days_since: float

    @extractor
    @inputs("last_order_at")
    @outputs("days_since")
    def since_last_order(cls, ts, last_order_at):
        passed = ts - pd.to_datetime(last_order_at, utc=True)
        return pd.Series(passed.dt.total_seconds() / 86_400, name="days_since").fillna(-1.0)

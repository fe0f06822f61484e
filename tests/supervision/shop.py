# ruff: noqa: ANN001, ANN201, N805
"""A shop whose live jobs all run in stages: what a supervisor needs, without Spark."""

from datetime import datetime

from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, source
from narthex.datasets import Count, Dataset, Max, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.lib import inputs

__owner__ = "shop@narthex.dev"

webhook = Webhook(name="shop")


@source(webhook.endpoint("orders"), disorder="1d", cdc="append")
@dataset(partitions=4)
class Orders:
    """A purchase."""

    user: str
    item: str
    quantity: int
    at: datetime = field(timestamp=True)


@source(webhook.endpoint("items"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Items:
    """A product."""

    item: str = field(key=True)
    shelf: str
    price: int
    since: datetime = field(timestamp=True)


@dataset(index=True)
class Spend:
    """The spending of a user."""

    user: str = field(key=True)
    orders: int
    dearest: int
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders, Items)
    def by_user(cls, orders, items):
        return (
            orders.join(items, how="inner", on=["item"])
            .groupby("user")
            .aggregate(
                orders=Count(window=Continuous("forever")),
                dearest=Max(of="price", default=0, window=Continuous("forever")),
            )
        )


@dataset(index=True)
class Demand:
    """The sales of a shelf."""

    shelf: str = field(key=True)
    quantity: int
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders, Items)
    def by_shelf(cls, orders, items):
        return (
            orders.join(items, how="inner", on=["item"])
            .groupby("shelf")
            .aggregate(quantity=Sum(of="quantity", window=Continuous("forever")))
        )


@dataset(index=True, partitions=16)
class Volume:
    """The sales of a product; its index and its job have several shards."""

    item: str = field(key=True)
    orders: int
    doubled: int
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def by_item(cls, orders):
        return (
            orders.assign("twice", int, lambda rows: rows["quantity"] * 2)
            .groupby("item")
            .aggregate(
                orders=Count(window=Continuous("forever")),
                doubled=Sum(of="twice", window=Continuous("forever")),
            )
        )


DATASETS: list[Dataset] = [Orders, Items, Spend, Demand, Volume]


def shop() -> Definitions:
    return definitions(DATASETS, [])

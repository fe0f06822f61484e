# ruff: noqa: ANN001, ANN201, N805
"""A shop whose orders are priced by the rate of their currency, and summed by user."""

from datetime import datetime

from narthex._compiler.blueprint import compile_blueprint
from narthex._ir.assets import DatasetPlan
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, source
from narthex.datasets import Count, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.lib import inputs

__owner__ = "shop@narthex.dev"

shop = Webhook(name="shop")


@source(shop.endpoint("orders"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Orders:
    """A purchase."""

    order: str = field(key=True)
    user: str
    currency: str
    amount: float
    at: datetime = field(timestamp=True)


@source(shop.endpoint("rates"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Rates:
    """The value of a currency."""

    currency: str = field(key=True)
    rate: float
    at: datetime = field(timestamp=True)


@dataset(index=True)
class Priced:
    """An order in euros."""

    order: str = field(key=True)
    user: str
    currency: str
    euros: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders, Rates)
    def price(cls, orders, rates):
        return (
            orders.join(rates, how="inner", on=["currency"])
            .assign(euros=(col("amount") * col("rate")).astype(float))
            .drop("amount", "rate")
        )


@source(shop.endpoint("clicks"), disorder="1d", cdc="append")
@dataset
class Clicks:
    """A click of a user."""

    user: str
    page: str
    at: datetime = field(timestamp=True)


@dataset(index=True)
class Activity:
    """How much a user clicks."""

    user: str = field(key=True)
    clicks: int
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Clicks)
    def count(cls, clicks):
        return clicks.groupby("user").aggregate(clicks=Count(window=Continuous("1d")))


@dataset(index=True)
class Spend:
    """The orders of a user in euros."""

    user: str = field(key=True)
    euros: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Priced)
    def total(cls, priced):
        return priced.groupby("user").aggregate(euros=Sum(of="euros", window=Continuous("forever")))


def plans() -> dict[str, DatasetPlan]:
    """Return the plans of all datasets."""
    every = [Orders, Rates, Priced, Clicks, Activity, Spend]
    return {one.name: one for one in compile_blueprint(definitions(every, [])).datasets}

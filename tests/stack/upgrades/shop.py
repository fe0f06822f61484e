# ruff: noqa: ANN001, ANN201, ARG002, N805
"""The project of the stored installation: two sources, an aggregate, and code of an author."""

from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import Count, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import inputs, outputs

__owner__ = "shop@narthex.dev"

webhook = Webhook(name="shop")


@source(webhook.endpoint("orders"), disorder="1d", cdc="append")
@dataset
class Orders:
    """A purchase."""

    user: str
    price: float
    ordered_at: datetime = field(timestamp=True)


@source(webhook.endpoint("users"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Users:
    """A buyer."""

    user: str = field(key=True)
    country: str
    moved_at: datetime = field(timestamp=True)


@dataset(index=True)
class Spend:
    """The purchases of a user."""

    user: str = field(key=True)
    orders: int
    spent: float
    ordered_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def by_user(cls, orders):
        return orders.groupby("user").aggregate(
            orders=Count(window=Continuous("forever")),
            spent=Sum(of="price", window=Continuous("forever")),
        )


@featureset
class Buyer:
    """The features of a buyer."""

    user: str
    country: str = feature(Users.country, default="?")
    orders: int = feature(Spend.orders, default=0)
    spent: float = feature(Spend.spent, default=0.0)
    label: str

    @extractor
    @inputs("user", "country")
    @outputs("label")
    def labelled(cls, ts, user, country):
        return user + " of " + country

# ruff: noqa: ANN001, ANN201, ARG002, N805
"""A shop as its author writes it: orders by webhook, spend per user, features of it."""

from datetime import datetime

import pandas as pd

from narthex._formats.wire import CommitPayload, encode_commit
from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, eval, ref, source  # noqa: A004
from narthex.datasets import Count, Dataset, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import Featureset, extractor, feature, featureset
from narthex.lib import inputs, outputs

__owner__ = "shop@narthex.dev"

webhook = Webhook(name="shop")


@source(
    webhook.endpoint("orders"),
    disorder="1d",
    cdc="append",
    preproc={"at": ref("ordered_at")},
    where=eval(col("test") == False, schema={"test": bool}),  # noqa: E712
)
@dataset
class Orders:
    """A purchase."""

    user: str
    amount: float
    at: datetime = field(timestamp=True)


@source(webhook.endpoint("users"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Users:
    """A buyer."""

    user: str = field(key=True)
    country: str
    since: datetime = field(timestamp=True)


@dataset(index=True)
class Spend:
    """The spending of a user."""

    user: str = field(key=True)
    orders_1h: int
    spent: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def by_user(cls, orders):
        return (
            orders.filter(col("amount") > 0.0)
            .groupby("user")
            .aggregate(
                orders_1h=Count(window=Continuous("1h")),
                spent=Sum(of="amount", window=Continuous("forever")),
            )
        )


@featureset
class Buyer:
    """The features of a buyer."""

    user: str
    orders_1h: int = feature(Spend.orders_1h, default=0)
    spent: float = feature(Spend.spent, default=0.0)
    country: str | None = feature(Users.country)
    is_busy: bool = feature(col("orders_1h") > 2)
    rank: float

    @extractor
    @inputs("spent")
    @outputs("rank")
    def ranked(cls, ts, spent):
        return pd.Series(spent / 100.0, name="rank")


def shop() -> tuple[list[Dataset], list[Featureset]]:
    return [Orders, Users, Spend], [Buyer]


def shop_definitions() -> Definitions:
    return definitions(*shop())


def payload(of: Definitions, *, message: str = "a shop") -> bytes:
    return encode_commit(CommitPayload(message=message, definitions=of))

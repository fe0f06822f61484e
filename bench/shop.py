# ruff: noqa: ANN001, ANN202, N805 - Fennel's way to write a pipeline
"""The definitions that the rollout benchmark commits: orders in, buyer features out, twice."""

from collections.abc import Sequence
from datetime import datetime

import attrs

from narthex.connectors import Webhook, source
from narthex.datasets import Count, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import inputs

__owner__ = "bench@narthex.dev"

WEBHOOK = "rollout"
webhook = Webhook(name=WEBHOOK)


@attrs.frozen(kw_only=True)
class Edition:
    """One state of the definitions.

    Attributes:
        datasets: All of them.
        featuresets: All of them.
    """

    datasets: Sequence[type]
    featuresets: Sequence[type]


def edition(endpoint: str, *, number: int, window: str) -> Edition:
    """Create the definitions; for users without orders the features are the edition's number."""

    @source(webhook.endpoint(endpoint), disorder="14d", cdc="append")
    @dataset
    class Orders:
        user: str
        at: datetime

    @dataset(index=True, version=number)
    class OrderCount:
        user: str = field(key=True)
        orders: int
        again: int
        at: datetime

        @pipeline
        @inputs(Orders)
        def count(cls, orders):
            # Another filter is another pipeline, which reads the orders that there are.
            counted = orders.filter(col("user") != f"nobody-{number}")
            return counted.groupby("user").aggregate(
                orders=Count(window=Continuous(window)), again=Count(window=Continuous(window))
            )

    @featureset
    class Buyer:
        user: str
        orders: int = feature(OrderCount.orders, default=-number, version=number)
        again: int = feature(OrderCount.again, default=-number, version=number)

    return Edition(datasets=(Orders, OrderCount), featuresets=(Buyer,))

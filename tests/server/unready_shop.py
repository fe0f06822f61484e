# ruff: noqa: ANN001, ANN201, N805
"""Correct definitions that no job can carry out yet."""

from datetime import datetime

from narthex.datasets import Count, Quantile, dataset, field, pipeline
from narthex.definitions import definitions
from narthex.dtypes import Continuous, Session
from narthex.entities import Definitions
from narthex.lib import inputs
from tests.server.shop import Orders, Users

__owner__ = "shop@narthex.dev"


@dataset
class Once:
    """Orders without those that were sent twice."""

    user: str
    amount: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def once(cls, orders):
        return orders.select("user", "amount").dedup(window=Session("1m"))


@dataset(index=True)
class Typical:
    """What a user usually spends."""

    user: str = field(key=True)
    median: float | None
    orders: int
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def by_user(cls, orders):
        return orders.groupby("user").aggregate(
            median=Quantile(of="amount", p=0.5, window=Continuous("1d")),
            orders=Count(window=Continuous("1d", max_error="1%")),
        )


def unready_definitions() -> Definitions:
    """Give the shop's rows with what is made of them."""
    return definitions([Orders, Users, Once, Typical], [])

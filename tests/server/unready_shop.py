# ruff: noqa: ANN001, ANN201, N805
"""Correct definitions that no job can carry out yet."""

from datetime import datetime

from narthex.connectors import Kinesis, source
from narthex.datasets import ExpDecaySum, dataset, field, pipeline
from narthex.definitions import definitions
from narthex.dtypes import Tumbling, Window
from narthex.entities import Definitions
from narthex.lib import inputs
from tests.server.shop import Orders, Users

__owner__ = "shop@narthex.dev"


@source(
    Kinesis("k", "arn:aws:iam::1:role/reader").stream("arn:aws:kinesis:::stream/r", "latest"),
    disorder="1h",
    cdc="append",
)
@dataset
class Readings:
    """What a machine that is far away has measured."""

    machine: str
    heat: float
    at: datetime = field(timestamp=True)


@dataset(index=True)
class Heat:
    """How much a user has spent of late, day by day."""

    user: str = field(key=True)
    window: Window = field(key=True)
    heat: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def by_user(cls, orders):
        return orders.groupby("user", window=Tumbling("1d")).aggregate(
            heat=ExpDecaySum(of="amount", half_life="1h"),
        )


def unready_definitions() -> Definitions:
    """Give the shop's rows with what is made of them."""
    return definitions([Orders, Users, Readings, Heat], [])

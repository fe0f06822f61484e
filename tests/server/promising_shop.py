# ruff: noqa: ANN202, N805
"""A shop with expectations: orders have an amount, which is critical, and a known user."""

from datetime import datetime

from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, source
from narthex.datasets import Dataset, dataset, field
from narthex.lib import (
    expect_column_values_to_be_between,
    expect_column_values_to_be_in_set,
    expectations,
)

__owner__ = "shop@narthex.dev"

USERS = ("ann", "bob")


def orders(*, severity: str = "critical", least: float = 0.0) -> Dataset:
    """Declare orders with an expectation of a severity about the least amount."""

    @source(Webhook(name="shop").endpoint("orders"), disorder="1d", cdc="append")
    @dataset
    class Orders:
        """A purchase."""

        user: str
        amount: float
        at: datetime = field(timestamp=True)

        @expectations
        def promises(cls):
            return [
                expect_column_values_to_be_in_set("user", USERS),
                expect_column_values_to_be_between("amount", min_value=least, severity=severity),
            ]

    return Orders


@source(Webhook(name="shop").endpoint("users"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Users:
    """A buyer, about whom nothing is expected."""

    user: str = field(key=True)
    since: datetime = field(timestamp=True)


def promising(**expected: object) -> Definitions:
    return definitions([orders(**expected), Users], [])

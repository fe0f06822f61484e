# ruff: noqa: ANN201, N805
"""The prices of kiosks, none of which should be above 100."""

from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field
from narthex.featuresets import feature, featureset
from narthex.lib import (
    expect_column_values_to_be_between,
    expect_column_values_to_not_be_null,
    expectations,
)

__owner__ = "kiosks@narthex.dev"


@source(Webhook(name="kiosks").endpoint("prices"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Prices:
    """The price at a kiosk, and its colour."""

    kiosk: str = field(key=True)
    price: float
    colour: str
    at: datetime = field(timestamp=True)


@featureset
class Kiosk:
    """The features of a kiosk."""

    kiosk: str
    price: float | None = feature(Prices.price)
    colour: str | None = feature(Prices.colour)

    @expectations
    def answers(cls):
        return [
            expect_column_values_to_be_between("price", max_value=100, severity="critical"),
            expect_column_values_to_not_be_null("colour", mostly=0.5),
        ]


DEFINITIONS = (Prices,), (Kiosk,)

# ruff: noqa: ANN001, ANN202, N805
"""Parcels that were weighed; from them, in a later version, those of which a weight is expected."""

from collections.abc import Sequence
from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field, pipeline
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import expect_column_values_to_be_between, expectations, inputs

__owner__ = "parcels@narthex.dev"

Definitions = tuple[Sequence[type], Sequence[type]]


@source(Webhook(name="parcels").endpoint("weighed"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Parcels:
    """A parcel, about whose weight nothing is expected."""

    parcel: str = field(key=True)
    grams: int
    at: datetime = field(timestamp=True)


@featureset
class Parcel:
    """The features of a parcel."""

    parcel: str
    grams: int = feature(Parcels.grams, default=0)


FIRST: Definitions = (Parcels,), (Parcel,)


def second(severity: str) -> Definitions:
    """Declare the parcels in kilograms as well, of which a positive weight is expected."""

    @dataset(index=True)
    class Kilograms:
        """The weight of a parcel."""

        parcel: str = field(key=True)
        grams: int
        kilograms: float
        at: datetime = field(timestamp=True)

        @pipeline
        @inputs(Parcels)
        def of_parcels(cls, parcels):
            return parcels.assign(kilograms=(col("grams") / 1000.0).astype(float))

        @expectations
        def weights(cls):
            return [
                expect_column_values_to_be_between(
                    column="kilograms", min_value=0, strict_min=True, severity=severity
                )
            ]

    @featureset
    class Parcel:
        """The features of a parcel."""

        parcel: str
        grams: int = feature(Parcels.grams, default=0)
        kilograms: float = feature(Kilograms.kilograms, default=0.0)

    return (Parcels, Kilograms), (Parcel,)

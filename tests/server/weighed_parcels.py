# ruff: noqa: ANN001, ANN202, ARG002, N805
"""Parcels, and their weight in kilograms: how many grams these have is the author's choice."""

from datetime import datetime

from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field, pipeline
from narthex.expr import col
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import inputs, outputs

__owner__ = "parcels@narthex.dev"


@source(Webhook(name="parcels").endpoint("weighed"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Parcels:
    """A parcel."""

    parcel: str = field(key=True)
    grams: int
    at: datetime = field(timestamp=True)


def weighed(grams: float, *, version: int = 1) -> Definitions:
    """Declare kilograms of so many grams."""

    @dataset(index=True, version=version)
    class Kilograms:
        """The weight of a parcel."""

        parcel: str = field(key=True)
        kilograms: float
        at: datetime = field(timestamp=True)

        @pipeline
        @inputs(Parcels)
        def of_parcels(cls, parcels):
            weight = (col("grams") / grams).astype(float)
            return parcels.assign(kilograms=weight).drop("grams")

    @featureset
    class Parcel:
        """The features of a parcel."""

        parcel: str
        kilograms: float = feature(Kilograms.kilograms, default=0.0)
        is_heavy: bool

        @extractor
        @inputs("kilograms")
        @outputs("is_heavy")
        def weigh(cls, ts, kilograms):
            return (kilograms > 1).rename("is_heavy")

    return definitions([Parcels, Kilograms], [Parcel])

# ruff: noqa: ANN001, ANN202, N805
"""Crates of senders, their weight, and the load of each sender; the unit is the author's choice."""

from collections.abc import Sequence
from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import inputs

__owner__ = "loads@narthex.dev"

Definitions = tuple[Sequence[type], Sequence[type]]


@source(Webhook(name="loads").endpoint("crates"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Crates:
    """A crate of a sender."""

    crate: str = field(key=True)
    sender: str
    grams: int
    at: datetime = field(timestamp=True)


def loads(*, grams: float, version: int) -> Definitions:
    """Declare weights in units of so many grams."""

    @dataset(index=True, version=version)
    class Weights:
        """The weight of a crate."""

        crate: str = field(key=True)
        sender: str
        weight: float
        at: datetime = field(timestamp=True)

        @pipeline
        @inputs(Crates)
        def weigh(cls, crates):
            weight = (col("grams") / grams).astype(float)
            return crates.assign(weight=weight).drop("grams")

    @dataset(index=True, version=version)
    class Loads:
        """The weight of all crates of a sender."""

        sender: str = field(key=True)
        weight: float
        at: datetime = field(timestamp=True)

        @pipeline
        @inputs(Weights)
        def add(cls, weights):
            return weights.groupby("sender").aggregate(
                weight=Sum(of="weight", window=Continuous("forever"))
            )

    @featureset
    class Sender:
        """The features of a sender."""

        sender: str
        load: float = feature(Loads.weight, default=0.0)

    return (Crates, Weights, Loads), (Sender,)

# ruff: noqa: ANN001, ANN201, N805
"""Readings of meters, of which impossible ones are kept out."""

from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field, pipeline
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import expect_column_values_to_be_between, expectations, inputs

__owner__ = "meters@narthex.dev"


@source(Webhook(name="meters").endpoint("readings"), disorder="1h", cdc="upsert")
@dataset(index=True)
class Readings:
    """The reading of a meter; a negative one is quarantined."""

    meter: str = field(key=True)
    watts: int
    at: datetime = field(timestamp=True)

    @expectations
    def possible(cls):
        return [expect_column_values_to_be_between("watts", min_value=0, action="quarantine")]


@dataset(index=True)
class Kilowatts:
    """The reading in kilowatts; one of more than ten is dropped."""

    meter: str = field(key=True)
    kilowatts: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Readings)
    def of_readings(cls, readings):
        return readings.assign(kilowatts=(col("watts") / 1000.0).astype(float)).drop("watts")

    @expectations
    def usual(cls):
        return [expect_column_values_to_be_between("kilowatts", max_value=10, action="drop")]


@featureset
class Meter:
    """The features of a meter."""

    meter: str
    watts: int = feature(Readings.watts, default=-1)
    kilowatts: float = feature(Kilowatts.kilowatts, default=-1.0)


DATASETS = (Readings, Kilowatts)
FEATURESETS = (Meter,)

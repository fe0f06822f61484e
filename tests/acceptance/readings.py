# ruff: noqa: ANN001, ANN201, N805
"""Readings of gauges, of which none should be negative, and how many each gauge has."""

from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import Count, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.featuresets import feature, featureset
from narthex.lib import expect_column_values_to_be_between, expectations, inputs

__owner__ = "readings@narthex.dev"


@source(Webhook(name="gauges").endpoint("readings"), disorder="1d", cdc="append")
@dataset
class Readings:
    """A reading of a gauge."""

    gauge: str
    level: float
    at: datetime = field(timestamp=True)

    @expectations
    def levels(cls):
        return [expect_column_values_to_be_between("level", min_value=0)]


@dataset(index=True)
class ReadingCounts:
    """How often a gauge was read in the last day; more than 30 times would be too often."""

    gauge: str = field(key=True)
    readings: int
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Readings)
    def count(cls, readings):
        return readings.groupby("gauge").aggregate(readings=Count(window=Continuous("1d")))

    @expectations
    def counts(cls):
        return [expect_column_values_to_be_between("readings", max_value=30)]


@featureset
class Gauge:
    """The features of a gauge."""

    gauge: str
    readings: int = feature(ReadingCounts.readings, default=0)


DEFINITIONS = (Readings, ReadingCounts), (Gauge,)

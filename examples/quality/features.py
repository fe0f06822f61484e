# ruff: noqa: ANN001, ANN201, ANN202, N805
"""Invented readings of electricity meters."""

from collections.abc import Sequence
from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field, pipeline
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import expect_column_values_to_be_between, expectations, inputs

__owner__ = "meters@example.com"

Definitions = tuple[Sequence[type], Sequence[type]]


@source(Webhook(name="meters").endpoint("readings"), disorder="1h", cdc="upsert")
@dataset(index=True)
class Readings:
    """The newest reading of a meter; a negative one is quarantined."""

    meter: str = field(key=True, erase_key=True)
    watts: float
    at: datetime = field(timestamp=True)

    @expectations
    def possible(cls):
        return [expect_column_values_to_be_between("watts", min_value=0, action="quarantine")]


@featureset
class Meter:
    """The features of a meter."""

    meter: str
    watts: float = feature(Readings.watts, default=-1.0)


FIRST: Definitions = (Readings,), (Meter,)


def second() -> Definitions:
    """Return a next commit, whose new dataset breaks its own expectation on the history."""

    @dataset(index=True)
    class Kilowatts:
        """The reading in kilowatts, of which none is expected above five."""

        meter: str = field(key=True)
        kilowatts: float
        at: datetime = field(timestamp=True)

        @pipeline
        @inputs(Readings)
        def of_readings(cls, readings):
            return readings.assign(kilowatts=(col("watts") / 1000.0).astype(float)).drop("watts")

        @expectations
        def usual(cls):
            return [
                expect_column_values_to_be_between("kilowatts", max_value=5, severity="critical")
            ]

    return (Readings, Kilowatts), (Meter,)

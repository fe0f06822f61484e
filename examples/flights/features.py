"""Flights that are about to depart: a complete file of an author of features.

Real data: all departures from New York City's airports in 2013, with hourly weather and the
planes. January to November come from files, December is replayed live by webhook and by Kafka.
"""

from datetime import datetime

import pandas as pd

from narthex.connectors import CSV, Files, Kafka, Webhook, eval, ref, source
from narthex.datasets import (
    Average,
    Count,
    LastK,
    Max,
    Stddev,
    dataset,
    field,
    pipeline,
)
from narthex.dtypes import Continuous
from narthex.expr import col, when
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import (
    expect_column_values_to_be_between,
    expect_column_values_to_not_be_null,
    expectations,
    inputs,
    meta,
    outputs,
)

__owner__ = "airport@narthex.dev"

LATE_MINUTES = 15.0

archive = Files(name="archive")
webhook = Webhook(name="airport")
broker = Kafka(
    name="airport",
    bootstrap_servers="",
    security_protocol="PLAINTEXT",
    sasl_mechanism="PLAIN",
)

departed = eval(~col("departed_at").isnull(), schema={"departed_at": datetime | None})


@source(
    archive.path("flights/departures.csv", format=CSV(null="NA")),
    disorder="1d",
    cdc="append",
    bounded=True,
    idleness="1h",
    where=departed,
)
@source(webhook.endpoint("departures"), disorder="1d", cdc="append", where=departed)
@source(broker.topic("flights.departures"), disorder="1d", cdc="append", where=departed)
@dataset
class Departures:
    """A flight that left the ground."""

    flight: int
    carrier: str
    origin: str
    dest: str
    tailnum: str | None
    dep_delay: float
    distance: float
    departed_at: datetime = field(timestamp=True)

    @expectations
    def promises(cls):
        return [
            expect_column_values_to_not_be_null(column="carrier"),
            expect_column_values_to_be_between(
                column="dep_delay", min_value=-60, max_value=1500, mostly=0.999
            ),
        ]


@source(
    archive.path("flights/weather.csv", format=CSV(null="NA")),
    disorder="1d",
    cdc="upsert",
    bounded=True,
    idleness="1h",
    preproc={"observed_at": ref("time_hour")},
)
@source(
    webhook.endpoint("weather"),
    disorder="1d",
    cdc="upsert",
    preproc={"observed_at": ref("time_hour")},
)
@source(
    broker.topic("flights.weather"),
    disorder="1d",
    cdc="upsert",
    preproc={"observed_at": ref("time_hour")},
)
@dataset(index=True)
class Weather:
    """The hourly weather at an airport."""

    origin: str = field(key=True)
    temp: float | None
    wind_speed: float | None
    precip: float | None
    visib: float | None
    observed_at: datetime = field(timestamp=True)


@source(
    archive.path("flights/planes.csv", format=CSV(null="NA")),
    disorder="1d",
    cdc="upsert",
    bounded=True,
    idleness="1h",
    preproc={"built": ref("year"), "recorded_at": datetime(2013, 1, 1)},
)
@dataset(index=True)
class Planes:
    """A plane, as registered."""

    tailnum: str = field(key=True)
    built: int | None
    manufacturer: str
    model: str
    seats: int | None
    recorded_at: datetime = field(timestamp=True)


@dataset
class Conditions:
    """A departure with the weather and the plane that it left with."""

    flight: int
    carrier: str
    origin: str
    dest: str
    tailnum: str | None
    dep_delay: float
    distance: float
    temp: float | None
    wind_speed: float | None
    precip: float | None
    visib: float | None
    built: int | None
    seats: int | None
    departed_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Departures, Weather, Planes)
    def with_weather_and_plane(cls, departures, weather, planes):
        return departures.join(weather, how="left", on=["origin"], within=("3h", "0s")).join(
            planes, how="left", on=["tailnum"], fields=["built", "seats"]
        )


@dataset(index=True)
class OriginDelays:
    """The recent delays of an airport."""

    origin: str = field(key=True)
    departures_1h: int
    departures_6h: int
    departures_1d: int
    delay_1h: float
    delay_6h: float
    delay_1d: float
    worst_delay_1d: float
    wind_6h: float
    departed_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Conditions)
    def by_origin(cls, conditions):
        return conditions.groupby("origin").aggregate(
            departures_1h=Count(window=Continuous("1h")),
            departures_6h=Count(window=Continuous("6h")),
            departures_1d=Count(window=Continuous("1d")),
            delay_1h=Average(of="dep_delay", window=Continuous("1h")),
            delay_6h=Average(of="dep_delay", window=Continuous("6h")),
            delay_1d=Average(of="dep_delay", window=Continuous("1d")),
            worst_delay_1d=Max(of="dep_delay", window=Continuous("1d"), default=0.0),
            wind_6h=Average(of="wind_speed", window=Continuous("6h")),
        )


@dataset(index=True)
class CarrierDelays:
    """The recent delays of a carrier."""

    carrier: str = field(key=True)
    departures_1d: int
    delay_1d: float
    delay_7d: float
    delay_spread_1d: float
    delay_spread_7d: float
    departed_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Departures)
    def by_carrier(cls, departures):
        return departures.groupby("carrier").aggregate(
            departures_1d=Count(window=Continuous("1d")),
            delay_1d=Average(of="dep_delay", window=Continuous("1d")),
            delay_7d=Average(of="dep_delay", window=Continuous("7d")),
            delay_spread_1d=Stddev(of="dep_delay", window=Continuous("1d")),
            delay_spread_7d=Stddev(of="dep_delay", window=Continuous("7d")),
        )


@dataset(index=True)
class TailnumHistory:
    """The recent flights of a plane."""

    tailnum: str = field(key=True)
    destinations: list[str]
    departures_1d: int
    departures_ever: int
    departed_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Departures)
    def by_tailnum(cls, departures):
        return (
            departures.dropnull("tailnum")
            .groupby("tailnum")
            .aggregate(
                destinations=LastK(of="dest", limit=5, dedup=False, window=Continuous("forever")),
                departures_1d=Count(window=Continuous("1d")),
                departures_ever=Count(window=Continuous("forever")),
            )
        )


@meta(description="The features of a flight, a minute before it departs.")
@featureset
class AboutToDepart:
    """A flight about to depart."""

    origin: str
    carrier: str
    tailnum: str

    wind_speed: float | None = feature(Weather.wind_speed)
    visibility: float = feature(Weather.visib, default=10.0)
    seats: int | None = feature(Planes.seats)

    origin_departures_1h: int = feature(OriginDelays.departures_1h, default=0)
    origin_delay_1h: float = feature(OriginDelays.delay_1h, default=0.0)
    origin_delay_6h: float = feature(OriginDelays.delay_6h, default=0.0)
    origin_delay_1d: float = feature(OriginDelays.delay_1d, default=0.0)
    origin_wind_6h: float = feature(OriginDelays.wind_6h, default=0.0)

    carrier_delay_1d: float = feature(CarrierDelays.delay_1d, default=0.0)
    carrier_delay_7d: float = feature(CarrierDelays.delay_7d, default=0.0)
    carrier_spread_7d: float = feature(CarrierDelays.delay_spread_7d, default=-1.0)

    destinations: list[str] | None = feature(TailnumHistory.destinations)
    plane_departures_1d: int = feature(TailnumHistory.departures_1d, default=0)
    plane_departures_ever: int = feature(TailnumHistory.departures_ever, default=0)

    getting_worse: bool = feature(col("origin_delay_1h") > col("origin_delay_6h"))
    windy: bool = feature(
        when(col("wind_speed").isnull())
        .then(False)
        .otherwise(col("wind_speed").fillnull(0.0) > 20.0)
    )
    risk: float

    @extractor
    @inputs("origin_delay_1h", "carrier_delay_1d", "plane_departures_1d")
    @outputs("risk")
    def how_risky(cls, ts, origin_delay, carrier_delay, departures):
        pressure = (origin_delay + carrier_delay).clip(lower=0.0) / LATE_MINUTES
        score = pressure / (1.0 + pressure) + 0.05 * departures.astype(float)
        return pd.Series(score.clip(upper=1.0), name="risk")

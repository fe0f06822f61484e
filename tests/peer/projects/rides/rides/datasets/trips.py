from datetime import datetime
from typing import List, Optional

import pandas as pd
from fennel.connectors import eval, source
from fennel.datasets import (
    Average,
    Count,
    Dataset,
    LastK,
    Max,
    Stddev,
    Sum,
    dataset,
    field,
    pipeline,
)
from fennel.dtypes import Continuous, Tumbling, Window, struct
from fennel.expr import col, lit, when
from fennel.lib import includes, inputs

from rides.connectors import app, broker
from rides.datasets.people import City, Driver, Rider

__owner__ = "trips@rides.example"


def fare_per_minute(fare: pd.Series, seconds: pd.Series) -> pd.Series:
    return fare / (seconds / 60).clip(lower=1.0)


@struct
class Stop:
    latitude: float
    longitude: float


@source(app.endpoint("Trip"), disorder="1d", cdc="append", where=eval(col("fare") >= 0.0))
@dataset
class Trip:
    trip_id: int
    rider_id: int
    driver_id: int
    city: str
    fare: float
    seconds: int
    tip: Optional[float]
    stops: List[Stop]
    at: datetime


@source(broker.topic("ride_requests"), disorder="1d", cdc="append", env="prod")
@source(app.endpoint("Request"), disorder="1d", cdc="append", env="test")
@dataset
class Request:
    rider_id: int
    city: str
    accepted: bool
    at: datetime


@dataset
class PricedTrip:
    trip_id: int
    rider_id: int
    driver_id: int
    city: str
    fare: float
    seconds: int
    tip: float
    per_minute: float
    stop_count: int
    country: str
    vehicle: Optional[str]
    at: datetime

    @pipeline
    @inputs(Trip, City, Driver)
    @includes(fare_per_minute)
    def price(cls, trips: Dataset, cities: Dataset, drivers: Dataset):
        priced = (
            trips.assign(
                tip=col("tip").fillnull(0.0).astype(float),
                stop_count=col("stops").list.len().astype(int),
            )
            .assign("per_minute", float, lambda df: fare_per_minute(df["fare"], df["seconds"]))
            .drop("stops")
        )
        known = priced.join(cities, how="inner", on=["city"], fields=["country"])
        return known.join(drivers, how="left", on=["driver_id"], fields=["vehicle"])


@dataset(index=True)
class RiderSpending:
    rider_id: int = field(key=True)
    trips_1d: int
    trips_ever: int
    spent_7d: float
    fare_avg: float
    fare_std: float
    fare_max: float
    last_cities: List[str]
    at: datetime

    @pipeline
    @inputs(PricedTrip)
    def spending(cls, trips: Dataset):
        return trips.groupby("rider_id").aggregate(
            trips_1d=Count(window=Continuous("1d")),
            trips_ever=Count(window=Continuous("forever")),
            spent_7d=Sum(of="fare", window=Continuous("7d")),
            fare_avg=Average(of="fare", window=Continuous("7d"), default=-1.0),
            fare_std=Stddev(of="fare", window=Continuous("forever")),
            fare_max=Max(of="fare", window=Continuous("forever"), default=0.0),
            last_cities=LastK(of="city", limit=3, dedup=True, window=Continuous("forever")),
        )


@dataset(index=True)
class DriverHours:
    driver_id: int = field(key=True)
    window: Window = field(key=True)
    trips: int
    earned: float
    at: datetime

    @pipeline
    @inputs(PricedTrip)
    def hours(cls, trips: Dataset):
        return trips.groupby("driver_id", window=Tumbling("1h")).aggregate(
            trips=Count(), earned=Sum(of="fare")
        )


@dataset(index=True)
class DriverBest:
    driver_id: int = field(key=True)
    best_hour: float
    hours: int
    at: datetime

    @pipeline
    @inputs(DriverHours)
    def best(cls, hours: Dataset):
        return (
            hours.changelog(delete="gone")
            .filter(lambda df: ~df["gone"])
            .groupby("driver_id")
            .aggregate(
                best_hour=Max(of="earned", default=0.0, window=Continuous("forever")),
                hours=Count(window=Continuous("forever")),
            )
        )


@dataset(index=True)
class CityDemand:
    city: str = field(key=True)
    requests: int
    accepted: int
    at: datetime

    @pipeline
    @inputs(Request)
    def demand(cls, requests: Dataset):
        flagged = requests.assign(
            taken=when(col("accepted")).then(lit(1)).otherwise(lit(0)).astype(int)
        )
        return flagged.groupby("city").aggregate(
            requests=Count(window=Continuous("forever")),
            accepted=Sum(of="taken", window=Continuous("forever")),
        )


@dataset(index=True)
class FirstTrip:
    rider_id: int = field(key=True)
    trip_id: int
    city: str
    fare: float
    at: datetime

    @pipeline
    @inputs(Trip)
    def first(cls, trips: Dataset):
        return trips.select("rider_id", "trip_id", "city", "fare").groupby("rider_id").first()


@dataset(index=True)
class CityRiders:
    city: str = field(key=True)
    riders: int
    created_at: datetime

    @pipeline
    @inputs(Rider)
    def count(cls, riders: Dataset):
        return riders.groupby("city").aggregate(riders=Count(window=Continuous("forever")))

from datetime import date
from typing import List, Optional

import pandas as pd
from fennel.expr import col, lit, when
from fennel.featuresets import extractor, feature as F, featureset
from fennel.lib import inputs, outputs

from rides.datasets.people import Rider
from rides.datasets.trips import CityDemand, CityRiders, FirstTrip, RiderSpending

__owner__ = "features@rides.example"


@featureset
class Asked:
    rider_id: int
    driver_id: int


@featureset
class RiderProfile:
    rider_id: int = F(Asked.rider_id)
    city: str = F(Rider.city, default="unknown")
    birthday: Optional[date] = F(Rider.birthday)
    referrer: Optional[int] = F(Rider.referrer)
    is_referred: bool = F(~col("referrer").isnull())
    shouted: str = F(col("city").str.upper())


@featureset
class RiderActivity:
    rider_id: int = F(Asked.rider_id)
    trips_1d: int = F(RiderSpending.trips_1d, default=0)
    trips_ever: int = F(RiderSpending.trips_ever, default=0)
    spent_7d: float = F(RiderSpending.spent_7d, default=0.0)
    fare_avg: float = F(RiderSpending.fare_avg, default=-1.0)
    fare_std: float = F(RiderSpending.fare_std, default=-1.0)
    last_cities: List[str] = F(RiderSpending.last_cities, default=[])
    level: str = F(
        when(col("trips_ever") > 2)
        .then(lit("often"))
        .when(col("trips_ever") > 0)
        .then(lit("some"))
        .otherwise(lit("new"))
    )


@featureset
class RiderBeginning:
    rider_id: int = F(Asked.rider_id)
    first_fare: float = F(FirstTrip.fare, default=0.0)
    first_city: str = F(FirstTrip.city, default="none")


@featureset
class CityFeatures:
    city: str = F(RiderProfile.city)
    requests: int = F(CityDemand.requests, default=0)
    accepted: int = F(CityDemand.accepted, default=0)
    riders: int = F(CityRiders.riders, default=0)
    acceptance: float

    @extractor(version=1)
    @inputs("requests", "accepted")
    @outputs("acceptance")
    def rate(cls, ts: pd.Series, requests: pd.Series, accepted: pd.Series):
        return (accepted / requests.clip(lower=1)).astype(float).rename("acceptance")


@featureset
class Spread:
    spread: float
    home: bool

    @extractor(deps=[RiderSpending])
    @inputs(Asked.rider_id)
    @outputs("spread")
    def of(cls, ts: pd.Series, rider: pd.Series):
        df, found = RiderSpending.lookup(ts, rider_id=rider, fields=["fare_max", "fare_avg"])
        spread = df["fare_max"].fillna(0.0) - df["fare_avg"].fillna(0.0)
        return pd.Series(spread.astype(float).tolist(), name="spread")

    @extractor
    @inputs(RiderProfile.city, RiderBeginning.first_city)
    @outputs("home")
    def at_home(cls, ts: pd.Series, city: pd.Series, first: pd.Series):
        return pd.Series([a == b for a, b in zip(city, first)], name="home")

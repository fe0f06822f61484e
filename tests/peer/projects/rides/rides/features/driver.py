import pandas as pd
from fennel.featuresets import extractor, feature as F, featureset
from fennel.lib import inputs, outputs

from rides.datasets.people import Driver
from rides.datasets.trips import DriverBest
from rides.features.rider import Asked, RiderActivity

__owner__ = "features@rides.example"


@featureset
class DriverFeatures:
    driver_id: int = F(Asked.driver_id)
    vehicle: str = F(Driver.vehicle, default="car")
    city: str = F(Driver.city, default="unknown")
    best_hour: float = F(DriverBest.best_hour, default=0.0)
    hours: int = F(DriverBest.hours, default=0)


@featureset
class Match:
    score: float

    @extractor
    @inputs(RiderActivity.trips_ever, DriverFeatures.best_hour)
    @outputs("score")
    def of(cls, ts: pd.Series, trips: pd.Series, best: pd.Series):
        return pd.Series((trips * 10 + best).astype(float).tolist(), name="score")

from datetime import date, datetime, timedelta, timezone

import pandas as pd
import pytest
from fennel.testing import mock

from rides.datasets.people import City, Driver, Rider
from rides.datasets.trips import (
    CityDemand,
    CityRiders,
    DriverBest,
    DriverHours,
    FirstTrip,
    PricedTrip,
    Request,
    RiderSpending,
    Stop,
    Trip,
)
from rides.features.driver import DriverFeatures, Match
from rides.features.rider import (
    Asked,
    CityFeatures,
    RiderActivity,
    RiderBeginning,
    RiderProfile,
    Spread,
)

DATASETS = [
    Rider,
    Driver,
    City,
    Trip,
    Request,
    PricedTrip,
    RiderSpending,
    DriverHours,
    DriverBest,
    CityDemand,
    FirstTrip,
    CityRiders,
]
FEATURESETS = [
    Asked,
    RiderProfile,
    RiderActivity,
    RiderBeginning,
    CityFeatures,
    Spread,
    DriverFeatures,
    Match,
]
OUTPUTS = [one for one in FEATURESETS if one is not Asked]

NOW = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)


def ago(hours):
    return NOW - timedelta(hours=hours)


ROWS = {
    "Rider": pd.DataFrame(
        {
            "rider_id": [1, 2, 1],
            "city": ["Oslo", "Rome", "Rome"],
            "birthday": [date(1990, 1, 1), date(1985, 5, 5), date(1990, 1, 1)],
            "vehicle_types": [["car"], [], ["car", "bike"]],
            "referrer": [None, 1, None],
            "created_at": [ago(200), ago(200), ago(100)],
        }
    ),
    "Driver": pd.DataFrame(
        {
            "driver_id": [7, 8],
            "city": ["Oslo", "Rome"],
            "stars": [4.5, 3.0],
            "vehicle": ["car", "bike"],
            "created_at": [ago(200), ago(200)],
        }
    ),
    "City": pd.DataFrame(
        {
            "city": ["Oslo", "Rome"],
            "country": ["NO", "IT"],
            "surge_cap": [1.5, 2.0],
            "at": [ago(300), ago(300)],
        }
    ),
    "Trip": pd.DataFrame(
        {
            "trip_id": [1, 2, 3, 4, 5],
            "rider_id": [1, 1, 2, 1, 2],
            "driver_id": [7, 7, 8, 9, 8],
            "city": ["Oslo", "Oslo", "Rome", "Rome", "Nowhere"],
            "fare": [10.0, 20.0, 5.0, 30.0, 99.0],
            "seconds": [600, 1200, 30, 900, 100],
            "tip": [1.0, None, None, 2.5, None],
            "stops": [
                [Stop(latitude=1.0, longitude=2.0)],
                [],
                [],
                [Stop(latitude=0.5, longitude=0.5)] * 2,
                [],
            ],
            "at": [ago(90), ago(89.5), ago(60), ago(5), ago(4)],
        }
    ),
    "Request": pd.DataFrame(
        {
            "rider_id": [1, 1, 2],
            "city": ["Rome", "Rome", "Rome"],
            "accepted": [True, False, True],
            "at": [ago(90), ago(80), ago(60)],
        }
    ),
}

ASKED = pd.DataFrame({"Asked.rider_id": [1, 2, 3], "Asked.driver_id": [7, 8, 9]})
SPINE = pd.DataFrame(
    {
        "Asked.rider_id": [1, 1, 2, 3],
        "Asked.driver_id": [7, 7, 8, 7],
        "at": [ago(89.9), ago(50), ago(3), ago(1)],
    }
)


def fill(client):
    client.commit(message="rides", datasets=DATASETS, featuresets=FEATURESETS, env="test")
    for endpoint, rows in ROWS.items():
        client.log("rides_app", endpoint, rows)


@mock
def test_online(client):
    fill(client)
    df = client.query(
        inputs=[Asked.rider_id, Asked.driver_id], outputs=OUTPUTS, input_dataframe=ASKED
    )
    assert df["RiderProfile.city"].tolist() == ["Rome", "Rome", "unknown"]
    assert df["RiderProfile.is_referred"].tolist() == [False, True, False]
    assert df["RiderActivity.trips_1d"].tolist() == [1, 0, 0]
    assert df["RiderActivity.trips_ever"].tolist() == [3, 1, 0]
    assert df["RiderActivity.spent_7d"].tolist() == [60.0, 5.0, 0.0]
    assert df["RiderActivity.level"].tolist() == ["often", "some", "new"]
    assert df["RiderActivity.last_cities"].tolist() == [["Rome", "Oslo"], ["Rome"], []]
    assert df["RiderBeginning.first_city"].tolist() == ["Oslo", "Rome", "none"]
    assert df["CityFeatures.acceptance"].tolist() == pytest.approx([2 / 3, 2 / 3, 0.0])
    assert df["CityFeatures.riders"].tolist() == [2, 2, 0]
    assert df["Spread.spread"].tolist() == [10.0, 0.0, 1.0]
    assert df["Spread.home"].tolist() == [False, True, False]
    assert df["DriverFeatures.vehicle"].tolist() == ["car", "bike", "car"]
    assert df["DriverFeatures.best_hour"].tolist()[:2] == [30.0, 5.0]
    assert df["Match.score"].tolist()[:2] == [60.0, 15.0]


@mock
def test_offline(client):
    fill(client)
    df = client.query_offline(
        inputs=[Asked.rider_id, Asked.driver_id],
        outputs=[RiderActivity.trips_ever, RiderProfile.city, RiderBeginning.first_fare],
        timestamp_column="at",
        input_dataframe=SPINE,
    )
    assert df["RiderActivity.trips_ever"].tolist() == [1, 2, 1, 0]
    assert df["RiderProfile.city"].tolist() == ["Rome", "Rome", "Rome", "unknown"]
    assert df["RiderBeginning.first_fare"].tolist() == [10.0, 10.0, 5.0, 0.0]


@mock
def test_rows(client):
    fill(client)
    df = client.get_dataset_df("PricedTrip")
    assert sorted(df["trip_id"].tolist()) == [1, 2, 3, 4]
    assert df.sort_values("trip_id")["per_minute"].tolist() == [1.0, 1.0, 5.0, 2.0]
    assert df.sort_values("trip_id")["vehicle"].tolist()[:3] == ["car", "car", "bike"]


@mock
def test_a_bad_row_is_refused(client):
    fill(client)
    with pytest.raises(Exception) as e:
        client.log("rides_app", "Driver", ROWS["Driver"].assign(stars=9.0))
    assert "Schema validation failed during data insertion to `Driver`" in str(e.value)


def test_an_extractor_alone():
    found = CityFeatures.rate(CityFeatures, pd.Series([NOW]), pd.Series([4]), pd.Series([1]))
    assert found.tolist() == [0.25]

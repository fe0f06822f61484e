from datetime import date, datetime
from typing import List, Optional

from fennel.connectors import ref, source
from fennel.datasets import dataset, field
from fennel.dtypes import between
from fennel.lib import meta
from fennel.lib.expectations import expect_column_values_to_be_between, expectations

from rides.connectors import app, database

__owner__ = "people@rides.example"


@source(
    database.table("riders", cursor="updated_at"),
    disorder="14d",
    cdc="upsert",
    every="1h",
    env="prod",
)
@source(app.endpoint("Rider"), disorder="14d", cdc="upsert", env="test")
@dataset(index=True)
class Rider:
    rider_id: int = field(key=True)
    city: str
    birthday: date
    vehicle_types: List[str]
    referrer: Optional[int]
    created_at: datetime


@source(app.endpoint("Driver"), disorder="14d", cdc="upsert", preproc={"rating": ref("stars")})
@dataset(index=True, version=2)
class Driver:
    driver_id: int = field(key=True).meta(description="The id of a driver")
    city: str
    rating: between(float, 0.0, 5.0)
    vehicle: str
    created_at: datetime = field(timestamp=True)

    @expectations
    def checks(cls):
        return [
            expect_column_values_to_be_between(
                column="rating", min_value=0, max_value=5, mostly=0.95
            )
        ]


@meta(tags=["reference"])
@source(app.endpoint("City"), disorder="14d", cdc="upsert")
@dataset(index=True)
class City:
    city: str = field(key=True)
    country: str
    surge_cap: float
    at: datetime

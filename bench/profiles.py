"""Users whose profiles change over time: keyed datasets, their histories, and questions about them.

A hundredth of the states are absences. The spine has each instant as text, as a client sends it,
and as microseconds.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from bench.tallies import SPAN_US, START_US
from narthex._base import render_instant
from narthex._compiler.blueprint import compile_blueprint
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.assets import DatasetPlan, HistorySpec
from narthex._ir.entities import (
    Cdc,
    Dataset,
    Definitions,
    Feature,
    Featureset,
    Index,
    LookupExtractor,
    Source,
    WebhookEndpoint,
)
from narthex._ir.facts import position
from narthex._ir.schema import Column, Field, Metadata, Role, Schema
from narthex._ir.types import Datetime, Float, Int, Optional, Str
from narthex_spark_apps.offline.offline_request import OfflineDataset, OfflineQuery
from narthex_stores import HistoryAdapter, HistoryTable, fact_schema

KEY = Column("user", Str())
VALUES = {"country": Str(), "balance": Int(), "score": Float()}
ABSENCES = 0.01
APPENDS = 20
"""How many files a history has before it is compacted."""

_OWNED = Metadata(owner="bench@example.org")


def definitions(datasets: int) -> Definitions:
    """Return the datasets, and a featureset that looks up the three columns of each."""
    numbers = range(datasets)
    return Definitions(
        datasets=tuple(map(_dataset, numbers)),
        featuresets=(
            Featureset(
                name="Profile",
                features=(
                    Feature(name="user", type=KEY.type),
                    *(
                        Feature(name=f"{name}_{number}", type=Optional(of))
                        for number in numbers
                        for name, of in VALUES.items()
                    ),
                ),
                extractors=tuple(
                    LookupExtractor(
                        feature=f"{name}_{number}", dataset=_dataset_name(number), column=name
                    )
                    for number in numbers
                    for name in VALUES
                ),
                metadata=_OWNED,
            ),
        ),
    )


def _dataset(number: int) -> Dataset:
    schema = Schema(
        (
            Field(name="user", type=KEY.type, role=Role.KEY),
            *(Field(name=name, type=of) for name, of in VALUES.items()),
            Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
        )
    )
    connector = WebhookEndpoint(webhook="w", endpoint=f"profiles_{number}")
    return Dataset(
        name=_dataset_name(number),
        version=1,
        schema=schema,
        sources=(Source(connector=connector, disorder_us=0, cdc=Cdc.UPSERT),),
        index=Index(online=True, offline=True),
        metadata=_OWNED,
    )


def _dataset_name(number: int) -> str:
    return f"Profiles{number}"


def _log_name(number: int) -> str:
    return f"nx_profiles_{number}"


def drawn(rows: int, users: int, seed: int) -> pl.DataFrame:
    """Draw users with instants, each pair once, in order of time."""
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "user": pl.Series(rng.integers(0, users, rows)).cast(pl.String),
            "at": START_US + np.sort(rng.integers(0, SPAN_US, rows)),
        }
    )
    return frame.unique(["user", "at"], maintain_order=True)


def states(rows: int, users: int, number: int) -> pl.DataFrame:
    """Draw the states of a dataset, in the order of its log."""
    frame = drawn(rows, users, seed=100 + number)
    rng = np.random.default_rng(200 + number)
    countries = pl.Series(["NO", "SE", "FI", "DK"]).gather(rng.integers(0, 4, frame.height))
    drawn_values = frame.with_columns(
        alive=pl.Series(rng.random(frame.height) >= ABSENCES),
        country=countries,
        balance=pl.Series(rng.integers(0, 10_000, frame.height)),
        score=pl.Series(rng.random(frame.height)),
    )
    return drawn_values.with_columns(
        pl.when("alive").then(pl.col(name)).alias(name) for name in VALUES
    )


def questions(count: int, users: int) -> pl.DataFrame:
    """Draw the questions; a tenth of the users are unknown."""
    return drawn(count, users * 10 // 9, seed=9).sample(fraction=1.0, shuffle=True, seed=9)


def expected(frame: pl.DataFrame, number: int, asked: pl.DataFrame) -> list[pl.Series]:
    """Return the answers of a dataset: the newest state of each user, by binary search."""
    known, wanted = _places_in_time(frame), _places_in_time(asked)
    order = np.argsort(known)
    last = np.searchsorted(known[order], wanted, side="right") - 1
    rows = frame[order[np.maximum(last, 0)]]
    is_known = pl.Series(last >= 0) & (rows["user"] == asked["user"])
    return [
        pl.select(pl.when(is_known).then(rows[name])).to_series().alias(f"Profile.{name}_{number}")
        for name in VALUES
    ]


def _places_in_time(rows: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return one number for each row, ordered by user and then by instant."""
    return (rows["user"].cast(pl.Int64) * SPAN_US + rows["at"] - START_US).to_numpy()


def write_history(directory: Path, number: int, frame: pl.DataFrame) -> list[str]:
    """Write the history of a dataset, compacted; return its files.

    The rows are also one file without the columns of a log, for Feast.
    """
    plan = plans(number + 1)[number]
    spec = HistorySpec(log=plan.log)
    adapter = HistoryAdapter(history_dir=str(directory))
    adapter.create(_log_name(number), spec, asset_id=1, timeout_s=20.0)
    table = HistoryTable(directory / _log_name(number), spec)
    size = -(-frame.height // APPENDS)
    for start in range(0, frame.height, size):
        part = _facts(plan, frame.slice(start, size), start)
        table.append_table(part, next_offsets={0: start + part.num_rows})
    table.compact()
    named = {name: f"{name}_{number}" for name in VALUES}
    instants = pl.from_epoch("at", "us").dt.replace_time_zone("UTC")
    rows = frame.select("user", instants, *VALUES).rename(named)
    rows.write_parquet(directory / f"rows_{number}.parquet")
    return table.files()


def write_spine(directory: Path, asked: pl.DataFrame) -> None:
    """Write the questions."""
    spine = asked.with_columns(
        pl.Series("as_of", [render_instant(at) for at in asked["at"]]), row=pl.int_range(pl.len())
    )
    pq.write_table(spine.rename({"user": "Profile.user"}).to_arrow(), directory / "spine.parquet")


def _facts(plan: DatasetPlan, frame: pl.DataFrame, first: int) -> pa.Table:
    keys = {user: key_bytes((KEY,), (user,)) for user in frame["user"].unique()}
    source = f"webhook:w/{plan.name}"
    places = range(first, first + frame.height)
    placed = frame.select(
        partition=pl.lit(0, pl.Int32),
        offset=pl.Series(places, dtype=pl.Int64),
        row_id=pl.Series(
            [keyed_row_id(keys[user], at) for user, at in frame.select("user", "at").iter_rows()]
        ),
        version=pl.Series([position(source, 0, place) for place in places]),
        event_time="at",
        alive="alive",
        k_user="user",
        **{f"v_{name}": pl.col(name) for name in VALUES},
    )
    return placed.to_arrow().cast(fact_schema(plan.log))


def plans(datasets: int) -> Sequence[DatasetPlan]:
    """Return the plans of the datasets."""
    return compile_blueprint(definitions(datasets)).datasets


def query(directory: Path, datasets: int, output: str) -> OfflineQuery:
    """Return the query of the questions."""
    return OfflineQuery(
        definitions=definitions(datasets),
        inputs=("Profile.user",),
        outputs=("Profile",),
        timestamp_column="as_of",
        offsets_column=None,
        spine=directory / "spine.parquet",
        output=directory / f"{output}.parquet",
        datasets={
            plan.name: OfflineDataset(
                plan=plan,
                history=str(directory / _log_name(number)),
                log=f"profiles_{number}",
            )
            for number, plan in enumerate(plans(datasets))
        },
    )

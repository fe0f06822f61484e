"""Users whose profiles change over time: a keyed dataset, its history, and questions about it.

A hundredth of the states are absences. The spine has each instant as text, as a client sends it,
and as microseconds.
"""

import bisect
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from bench.tallies import SPAN_US, START_US
from narthex._base import render_instant
from narthex._compiler.blueprint import compile_blueprint
from narthex._formats.avro.codec import key_bytes, keyed_row_id
from narthex._ir.assets import HistorySpec, LogSpec
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

DATASET = "Profiles"
LOG = "nx_profiles"
KEY = Column("user", Str())
VALUES = {"country": Str(), "balance": Int(), "score": Float()}
ABSENCES = 0.01
APPENDS = 20
"""How many files the history has before it is compacted."""


def definitions() -> Definitions:
    """Return the dataset, and a featureset that looks up its three columns."""
    schema = Schema(
        (
            Field(name="user", type=KEY.type, role=Role.KEY),
            *(Field(name=name, type=of) for name, of in VALUES.items()),
            Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
        )
    )
    connector = WebhookEndpoint(webhook="w", endpoint="profiles")
    owned = Metadata(owner="bench@example.org")
    dataset = Dataset(
        name=DATASET,
        version=1,
        schema=schema,
        sources=(Source(connector=connector, disorder_us=0, cdc=Cdc.UPSERT),),
        index=Index(online=True, offline=True),
        metadata=owned,
    )
    features = Featureset(
        name="Profile",
        features=(
            Feature(name="user", type=KEY.type),
            *(Feature(name=name, type=Optional(of)) for name, of in VALUES.items()),
        ),
        extractors=tuple(
            LookupExtractor(feature=name, dataset=DATASET, column=name) for name in VALUES
        ),
        metadata=owned,
    )
    return Definitions(datasets=(dataset,), featuresets=(features,))


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


def states(rows: int, users: int) -> pl.DataFrame:
    """Draw the states of the dataset, in the order of its log."""
    frame = drawn(rows, users, seed=7)
    rng = np.random.default_rng(8)
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


def expected(frame: pl.DataFrame, asked: pl.DataFrame) -> list[tuple[object, ...]]:
    """Return the newest state of each user at each instant, one question at a time."""
    instants: dict[str, list[int]] = {}
    rows: dict[str, list[tuple[object, ...]]] = {}
    for user, at, *values in frame.select("user", "at", *VALUES).iter_rows():
        instants.setdefault(user, []).append(at)
        rows.setdefault(user, []).append(tuple(values))
    nothing = (None,) * len(VALUES)
    found: list[tuple[object, ...]] = []
    for user, at in asked.select("user", "at").iter_rows():
        place = bisect.bisect_right(instants.get(user, []), at)
        found.append((user, *(rows[user][place - 1] if place else nothing)))
    return found


def write(directory: Path, frame: pl.DataFrame, asked: pl.DataFrame) -> None:
    """Write the history, compacted, and the spine; `files.json` lists the files of the history."""
    spec = HistorySpec(log=_log())
    HistoryAdapter(history_dir=str(directory)).create(LOG, spec, asset_id=1, timeout_s=20.0)
    table = HistoryTable(directory / LOG, spec)
    facts = _facts(frame)
    size = -(-facts.num_rows // APPENDS)
    for start in range(0, facts.num_rows, size):
        part = facts.slice(start, size)
        table.append_table(part, next_offsets={0: start + part.num_rows})
    table.compact()
    (directory / "files.json").write_text(json.dumps(table.files()))
    spine = asked.with_columns(
        pl.Series("as_of", [render_instant(at) for at in asked["at"]]), row=pl.int_range(pl.len())
    )
    pq.write_table(spine.rename({"user": "Profile.user"}).to_arrow(), directory / "spine.parquet")


def _facts(frame: pl.DataFrame) -> pa.Table:
    keys = {user: key_bytes((KEY,), (user,)) for user in frame["user"].unique()}
    source = "webhook:w/profiles"
    placed = frame.with_row_index("offset").select(
        partition=pl.lit(0, pl.Int32),
        offset=pl.col("offset").cast(pl.Int64),
        row_id=pl.Series(
            [keyed_row_id(keys[user], at) for user, at in frame.select("user", "at").iter_rows()]
        ),
        version=pl.Series([position(source, 0, place) for place in range(frame.height)]),
        event_time="at",
        alive="alive",
        k_user="user",
        **{f"v_{name}": pl.col(name) for name in VALUES},
    )
    return placed.to_arrow().cast(fact_schema(_log()))


def _log() -> LogSpec:
    (plan,) = compile_blueprint(definitions()).datasets
    return plan.log


def query(directory: Path) -> OfflineQuery:
    """Return the query of the questions."""
    (plan,) = compile_blueprint(definitions()).datasets
    return OfflineQuery(
        definitions=definitions(),
        inputs=("Profile.user",),
        outputs=("Profile",),
        timestamp_column="as_of",
        offsets_column=None,
        spine=directory / "spine.parquet",
        output=directory / "narthex.parquet",
        datasets={DATASET: OfflineDataset(plan=plan, history=str(directory / LOG), log="profiles")},
    )


def answers(path: Path) -> Sequence[tuple[object, ...]]:
    """Return the answers that a contender wrote, in its order."""
    return list(pl.read_parquet(path).iter_rows())

"""Feast's historical features from its DuckDB store, in the order of the questions.

It runs in an environment of its own, see `bench.peers`.

python -m bench.contenders.feast_asof DIRECTORY DATASETS QUESTIONS
"""

import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, ValueType
from feast.types import Float64, Int64, String

from bench.contenders.stopwatch import Stopwatch

VALUES = {"country": String, "balance": Int64, "score": Float64}


def store_of(directory: Path, datasets: int) -> FeatureStore:
    """Return a repository with a view of each dataset."""
    place = Path(tempfile.mkdtemp(dir=directory))
    (place / "feature_store.yaml").write_text(
        "project: bench\n"
        f"registry: {place / 'registry.db'}\n"
        "provider: local\n"
        "entity_key_serialization_version: 3\n"
        "offline_store:\n  type: duckdb\n"
        f"online_store:\n  type: sqlite\n  path: {place / 'online.db'}\n"
    )
    user = Entity(name="user", join_keys=["user"], value_type=ValueType.STRING)
    views = [
        FeatureView(
            name=f"profile_{number}",
            entities=[user],
            ttl=timedelta(days=36_500),
            schema=[Field(name=f"{name}_{number}", dtype=of) for name, of in VALUES.items()],
            source=FileSource(path=str(directory / f"rows_{number}.parquet"), timestamp_field="at"),
        )
        for number in range(datasets)
    ]
    store = FeatureStore(repo_path=str(place))
    store.apply([user, *views])
    return store


def answer(store: FeatureStore, directory: Path, datasets: int) -> None:
    """Answer the questions."""
    spine = pd.read_parquet(directory / "spine.parquet", columns=["Profile.user", "at", "row"])
    spine = spine.rename(columns={"Profile.user": "user"})
    spine["event_timestamp"] = pd.to_datetime(spine.pop("at"), unit="us", utc=True)
    names = [(number, name) for number in range(datasets) for name in VALUES]
    found = store.get_historical_features(
        entity_df=spine,
        features=[f"profile_{number}:{name}_{number}" for number, name in names],
    ).to_arrow()
    ordered = found.sort_by("row").select(["user", *(f"{name}_{n}" for n, name in names)])
    columns = ["Profile.user", *(f"Profile.{name}_{number}" for number, name in names)]
    pq.write_table(ordered.rename_columns(columns), directory / "feast.parquet")


def main() -> None:
    """Answer twice, and measure the second time."""
    directory, datasets, questions = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    store = store_of(directory, datasets)
    answer(store, directory, datasets)
    watch = Stopwatch()
    answer(store, directory, datasets)
    watch.print_figures(questions)


if __name__ == "__main__":
    main()

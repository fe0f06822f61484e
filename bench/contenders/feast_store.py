"""Feast's feature server over the data of the serving bench; runs in an environment of its own.

    python feast_store.py DIRECTORY STORE

STORE is `sqlite`, or the address of a Redis server. It writes the repository and the online store,
and replaces itself by the feature server with one worker, whose port is the file `port`.
"""

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, ValueType
from feast.types import Int64

DATASETS, COLUMNS, KEYS, PRIME = 25, 10, 10_000, 1_000_003
AT = datetime(2026, 1, 1, tzinfo=UTC)


def value_of(key: int, number: int, column: int) -> int:
    """Return the value of a cell, as `bench.entity_features` does."""
    return (key * DATASETS * COLUMNS + number * COLUMNS + column) * PRIME % 1_000_000


def write(directory: Path, store: str) -> None:
    """Write the repository, and all rows to the online store."""
    online = (
        {"type": "sqlite", "path": str(directory / "online.db")}
        if store == "sqlite"
        else {"type": "redis", "connection_string": store}
    )
    lines = [
        "project: bench",
        f"registry: {directory / 'registry.db'}",
        "provider: local",
        "entity_key_serialization_version: 3",
        "online_store:",
        *(f"  {name}: {value!r}" for name, value in online.items()),
    ]
    (directory / "feature_store.yaml").write_text("\n".join(lines))
    entity = Entity(name="entity", join_keys=["entity_id"], value_type=ValueType.INT64)
    frame = pd.DataFrame({"entity_id": range(KEYS), "at": [AT] * KEYS})
    views = []
    for number in range(DATASETS):
        path = directory / f"group{number}.parquet"
        names = [f"g{number}_c{column}" for column in range(COLUMNS)]
        for column, name in enumerate(names):
            frame[name] = [value_of(key, number, column) for key in range(KEYS)]
        frame[["entity_id", "at", *names]].to_parquet(path)
        views.append(
            FeatureView(
                name=f"Group{number}",
                entities=[entity],
                ttl=timedelta(days=36_500),
                schema=[Field(name=name, dtype=Int64) for name in names],
                source=FileSource(path=str(path), timestamp_field="at"),
            )
        )
    found = FeatureStore(repo_path=str(directory))
    found.apply([entity, *views])
    for number, view in enumerate(views):
        names = [f"g{number}_c{column}" for column in range(COLUMNS)]
        found.write_to_online_store(view.name, frame[["entity_id", "at", *names]])


def main() -> None:
    """Write the store, then become the server."""
    directory, store = Path(sys.argv[1]), sys.argv[2]
    port = (directory / "port").read_text()
    write(directory, store)
    feast = str(Path(sys.executable).with_name("feast"))
    address = ["--host", "127.0.0.1", "--port", port]
    # By default a worker ends after 1,000 requests, and its connections with it.
    limits = ["--workers", "1", "--max-requests", "1000000000"]
    command = [feast, "-c", str(directory), "serve", *address, *limits, "--no-access-log"]
    os.execv(feast, command)  # noqa: S606 (becoming the server is the point)


if __name__ == "__main__":
    main()

"""The data of the serving bench: 25 keyed datasets of 10 integers each, and a feature per column.

Each dataset has one row for each of 10,000 keys, which are the same in all.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from narthex.connectors import Webhook, source
from narthex.datasets import Dataset, dataset, field, pipeline
from narthex.expr import col
from narthex.featuresets import Featureset, feature, featureset
from narthex.lib import inputs

__owner__ = "bench@narthex.dev"

DATASETS: Final = 25
COLUMNS: Final = 10
KEYS: Final = 10_000
WEBHOOK: Final = "bench_serving"
KEY: Final = "Entity.entity_id"
AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
_PRIME: Final = 1_000_003

webhook = Webhook(name=WEBHOOK)


@attrs.frozen(kw_only=True)
class EntityFeatures:
    """The definitions that the bench commits."""

    datasets: tuple[Dataset, ...]
    featureset: Featureset


def value_of(key: int, number: int, column: int) -> int:
    """Return the value of a cell, which depends on all three."""
    return (key * DATASETS * COLUMNS + number * COLUMNS + column) * _PRIME % 1_000_000


def column_name(number: int, column: int) -> str:
    """Return the name of a column, which no other dataset has."""
    return f"g{number}_c{column}"


def columns(count: int) -> list[tuple[int, int]]:
    """Return so many (dataset, column), spread evenly over the datasets."""
    every = [(number, column) for column in range(COLUMNS) for number in range(DATASETS)]
    return every[:count]


def rows(number: int, *, at: datetime = AT) -> Iterator[dict[str, object]]:
    """Yield the rows of a dataset, all at one event time."""
    for key in range(KEYS):
        cells = {column_name(number, c): value_of(key, number, c) for c in range(COLUMNS)}
        yield {"entity_id": key, **cells, "at": at.isoformat()}


def entity_features() -> EntityFeatures:
    """Create the definitions."""
    datasets = tuple(map(_dataset, range(DATASETS)))
    features = {
        column_name(number, column): feature(
            getattr(datasets[number], column_name(number, column)), default=0
        )
        for number, column in columns(DATASETS * COLUMNS)
    }
    body = {
        "__doc__": "The features of an entity.",
        "__annotations__": {"entity_id": int} | dict.fromkeys(features, int),
        **features,
    }
    return EntityFeatures(datasets=datasets, featureset=featureset(type("Entity", (), body)))


def endpoint(number: int) -> str:
    """Return the endpoint of the webhook that a dataset's rows come through."""
    return f"group_{number}"


def passing_rows(group: Dataset) -> Dataset:
    """Create a dataset of the rows of the first group, all of which pass a filter."""
    names = [column_name(0, column) for column in range(COLUMNS)]

    @pipeline
    @inputs(group)
    def passing(cls: object, given: Any) -> Any:  # noqa: ARG001 - Fennel's way
        return given.filter(col(names[0]) >= 0)

    body = {
        "__doc__": "The rows of a group that pass a filter.",
        "__annotations__": {"entity_id": int, **dict.fromkeys(names, int), "at": datetime},
        "entity_id": field(key=True),
        "at": field(timestamp=True),
        "passing": passing,
    }
    return dataset(index=True)(type("Passing", (), body))


def _dataset(number: int) -> Dataset:
    names = [column_name(number, column) for column in range(COLUMNS)]
    body = {
        "__doc__": "A group of columns of an entity.",
        "__annotations__": {"entity_id": int, **dict.fromkeys(names, int), "at": datetime},
        "entity_id": field(key=True),
        "at": field(timestamp=True),
    }
    made = dataset(index=True)(type(f"Group{number}", (), body))
    return source(webhook.endpoint(endpoint(number)), disorder="1h", cdc="upsert")(made)

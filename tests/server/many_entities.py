"""A project with any number of datasets and featuresets, in the shape of real ones.

Teams have streams, several steps of aggregation and joins, and features of the results; a few
datasets are shared by all teams. The same numbers always make the same project.
"""

import random
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, source
from narthex.datasets import Count, Dataset, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.featuresets import Featureset, feature, featureset
from narthex.lib import inputs

OF_A_TEAM: Final = 12
"""How many datasets a team has: a third of them streams."""

STREAMS: Final = 4
STEPS: Final = 3
"""How many aggregations are computed from each other at most."""

webhook = Webhook(name="events")


def project(datasets: int, featuresets: int) -> Definitions:
    """Return the definitions of a project; without datasets, it has no featuresets either."""
    seeded = random.Random(datasets)
    made: list[Dataset] = []
    derived: list[Dataset] = []
    for number in range(datasets):
        place = number % OF_A_TEAM
        if place < STREAMS:
            made.append(_stream(number))
        else:
            team = made[number - place :]
            made.append(_totals(number, seeded.choice(team[-STEPS * STREAMS :])))
            derived.append(made[-1])
    looked_up = derived or made
    features = [
        _features(number, looked_up[number % len(looked_up)], seeded.choice(looked_up))
        for number in range(featuresets if looked_up else 0)
    ]
    return definitions(made, features)


def _stream(number: int) -> Dataset:
    made = type(
        f"Events{number:03}",
        (),
        {
            "__doc__": f"Events of kind {number}, as they arrive.",
            "__annotations__": {"user": str, "amount": float, "at": datetime},
            "__module__": __name__,
            "user": field(key=True),
            "at": field(timestamp=True),
        },
    )
    decorate = source(webhook.endpoint(f"events_{number:03}"), disorder="1d", cdc="upsert")
    return decorate(dataset(index=True)(made))


def _totals(number: int, read: Any) -> Dataset:
    made = type(
        f"Totals{number:03}",
        (),
        {
            "__doc__": f"Totals of {read.__name__} by user.",
            "__annotations__": {"user": str, "amount": float, "count": int, "at": datetime},
            "__module__": __name__,
            "user": field(key=True),
            "at": field(timestamp=True),
            "by_user": _by_user(read),
        },
    )
    return dataset(index=True)(made)


def _by_user(read: Any) -> Callable[..., object]:
    @pipeline
    @inputs(read)
    def by_user(cls: Any, rows: Any) -> Any:
        return rows.groupby("user").aggregate(
            amount=Sum(of="amount", window=Continuous("1d")),
            count=Count(window=Continuous("1d")),
        )

    return by_user


def _features(number: int, first: Any, second: Any) -> Featureset:
    made: dict[str, object] = {
        "__doc__": f"Features of users, number {number}.",
        "__annotations__": {"user": str, "amount": float, "count": int, "other": float},
        "__module__": __name__,
        "amount": feature(first.amount, default=0.0),
        "count": feature(first.count, default=0),
        "other": feature(second.amount, default=0.0),
    }
    return featureset(type(f"Buyer{number:03}", (), made))

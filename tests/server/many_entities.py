"""A project with any number of datasets and featuresets, in the shape of real ones.

Teams have streams, several steps of aggregation and joins, and features of the results; a few
datasets are shared by all teams. The same numbers always make the same project.
"""

from datetime import datetime
from random import Random  # noqa: TID251 - seeded below
from typing import Any, Final

from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, source
from narthex.datasets import Count, Dataset, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import Featureset, feature, featureset
from narthex.lib import inputs

OF_A_TEAM: Final = 12
"""How many datasets a team has."""

STREAMS: Final = 4
FILTERED: Final = 3
"""How many datasets of a team are streams, and how many are filtered from two others."""

__owner__ = "teams@narthex.dev"

webhook = Webhook(name="events")


def project(datasets: int, featuresets: int) -> Definitions:
    """Return the definitions of a project; without datasets, it has no featuresets either."""
    seeded = Random(datasets)  # noqa: S311 - the shape is no secret
    made: list[Dataset] = []
    totals: list[Dataset] = []
    for number in range(datasets):
        place = number % OF_A_TEAM
        rows = made[number - place : number - place + STREAMS + FILTERED]
        if place < STREAMS:
            made.append(_stream(number))
        elif place < STREAMS + FILTERED:
            shared = made[:1] if number > place else []
            made.append(_filtered(number, *seeded.sample([*rows, *shared], 2)))
        else:
            made.append(_totals(number, seeded.choice(rows)))
            totals.append(made[-1])
    features = [
        _features(number, totals[number % len(totals)], seeded.choice(totals))
        for number in range(featuresets if totals else 0)
    ]
    return definitions(made, features)


def _class_of(name: str, doc: str, columns: dict[str, type], **fields: object) -> Any:
    return type(
        name, (), {"__doc__": doc, "__annotations__": columns, "__module__": __name__, **fields}
    )


def _stream(number: int) -> Dataset:
    made = _class_of(
        f"Events{number:03}",
        f"Events of kind {number}, as they arrive.",
        {"user": str, "amount": float, "at": datetime},
        at=field(timestamp=True),
    )
    of = source(webhook.endpoint(f"events_{number:03}"), disorder="1d", cdc="append")
    return of(dataset(made))


def _filtered(number: int, one: Any, other: Any) -> Dataset:
    @pipeline
    @inputs(one, other)
    def both(cls: Any, rows: Any, others: Any) -> Any:  # noqa: ARG001 - an author's function
        return rows.filter(col("amount") > 0.0) + others.filter(col("amount") > 10.0)

    return dataset(
        _class_of(
            f"Valid{number:03}",
            f"Events that count, number {number}.",
            {"user": str, "amount": float, "at": datetime},
            at=field(timestamp=True),
            both=both,
        )
    )


def _totals(number: int, read: Any) -> Dataset:
    @pipeline
    @inputs(read)
    def by_user(cls: Any, rows: Any) -> Any:  # noqa: ARG001 - an author's function
        return rows.groupby("user").aggregate(
            amount=Sum(of="amount", window=Continuous("1d")),
            count=Count(window=Continuous("1d")),
        )

    return dataset(index=True)(
        _class_of(
            f"Totals{number:03}",
            f"Totals by user, number {number}.",
            {"user": str, "amount": float, "count": int, "at": datetime},
            user=field(key=True),
            at=field(timestamp=True),
            by_user=by_user,
        )
    )


def _features(number: int, first: Any, second: Any) -> Featureset:
    return featureset(
        _class_of(
            f"Buyer{number:03}",
            f"Features of users, number {number}.",
            {"user": str, "amount": float, "spent": float, "other": float},
            amount=feature(first.amount, default=0.0),
            spent=feature(first.amount, default=0.0),
            other=feature(second.amount, default=0.0),
        )
    )

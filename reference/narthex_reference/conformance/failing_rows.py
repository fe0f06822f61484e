# mypy: disable-error-code="call-overload, assignment"
"""Cases of steps that fail on some rows: those rows do not pass, the others do."""

from datetime import datetime
from typing import Optional

import pandas as pd

from narthex._sdk.datasets import Rows
from narthex.datasets import Count, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.lib import inputs
from narthex_reference.conformance.case import (
    SECOND,
    ConformanceCase,
    case,
    delete,
    found,
    holds,
    missing,
    row,
)
from narthex_reference.conformance.shop import Baskets, Orders, Users

S = SECOND


@dataset
class Shared:
    """Orders with a share, which user 0 cannot have."""

    uid: int
    share: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def shared(cls, orders: Rows) -> Rows:
        return orders.assign(
            "share", int, lambda df: df["uid"].map(lambda uid: 100 // uid).astype("Int64")
        ).drop("sku", "amount")


@dataset
class Amounts:
    """Orders whose amount is a number: a function returns null for the others."""

    uid: int
    paid: float
    at: datetime

    @pipeline
    @inputs(Orders)
    def amounts(cls, orders: Rows) -> Rows:
        return orders.assign("paid", float, lambda df: df["amount"]).drop("sku", "amount")


@dataset
class Chosen:
    """Orders of a known article."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def chosen(cls, orders: Rows) -> Rows:
        return orders.filter(lambda df: df["sku"].map(lambda sku: {"a": True, "b": False}[sku]))


@dataset(index=True)
class Ranks:
    """Users of a known country, with its rank."""

    uid: int = field(key=True)
    rank: int
    at: datetime

    @pipeline
    @inputs(Users)
    def ranks(cls, users: Rows) -> Rows:
        return users.assign(
            "rank", int, lambda df: df["country"].map(lambda country: {"de": 1}[country])
        ).drop("country", "score")


@dataset(index=True)
class Ranked:
    """The number of users of each rank."""

    rank: int = field(key=True)
    users: int
    at: datetime

    @pipeline
    @inputs(Ranks)
    def ranked(cls, ranks: Rows) -> Rows:
        return ranks.groupby("rank").aggregate(
            users=Count(window=Continuous("forever")),
        )


def _rooted(df: pd.DataFrame) -> pd.DataFrame:
    if (df["score"] < 0).any():
        message = "a negative score has no root"
        raise ValueError(message)
    return df[["uid", "at"]].assign(root=df["score"].astype("Float64") ** 0.5)


@dataset(index=True)
class Roots:
    """Users with the root of their score."""

    uid: int = field(key=True)
    root: Optional[float]
    at: datetime

    @pipeline
    @inputs(Users)
    def roots(cls, users: Rows) -> Rows:
        return users.transform(
            _rooted, schema={"uid": int, "at": datetime, "root": Optional[float]}
        )


@dataset
class Lines:
    """The articles of baskets with their counts."""

    uid: int
    skus: Optional[str]
    counts: Optional[int]
    at: datetime

    @pipeline
    @inputs(Baskets)
    def lines(cls, baskets: Rows) -> Rows:
        return baskets.explode("skus", "counts")


_USERS = (
    row(Users, 1, "de", 4, 10 * S),
    row(Users, 1, "fr", -1, 20 * S),
    row(Users, 1, "de", 9, 30 * S),
    delete(Users, 1, 40 * S),
)

CASES: tuple[ConformanceCase, ...] = (
    case(
        "a row on which the function of an assign raises does not pass, and others do",
        [Orders, Shared],
        [
            row(Orders, 1, "a", 3.0, 10 * S),
            row(Orders, 0, "b", 2.0, 11 * S),
            row(Orders, 4, "c", None, 12 * S),
        ],
        holds(Shared, (1, 100, 10 * S), (4, 25, 12 * S)),
    ),
    case(
        "a row for which a function returns a value that its type refuses does not pass",
        [Orders, Amounts],
        [row(Orders, 1, "a", 3.0, 10 * S), row(Orders, 2, "b", None, 11 * S)],
        holds(Amounts, (1, 3.0, 10 * S)),
    ),
    case(
        "a row on which the function of a filter raises does not pass",
        [Orders, Chosen],
        [
            row(Orders, 1, "a", 3.0, 10 * S),
            row(Orders, 2, "b", 2.0, 11 * S),
            row(Orders, 3, "c", 1.0, 12 * S),
            row(Orders, 4, "a", None, 13 * S),
        ],
        holds(Chosen, (1, "a", 3.0, 10 * S), (4, "a", None, 13 * S)),
    ),
    case(
        "a key is absent while a function raises on its row",
        [Users, Ranks],
        _USERS,
        found(Ranks, 1, at=10 * S, gives=[1]),
        missing(Ranks, 1, at=20 * S),
        holds(Ranks, (1, 1, 10 * S), (1, 20 * S), (1, 1, 30 * S), (1, 40 * S)),
    ),
    case(
        "a key is absent while a transform raises on its row",
        [Users, Roots],
        _USERS,
        holds(Roots, (1, 2.0, 10 * S), (1, 20 * S), (1, 3.0, 30 * S), (1, 40 * S)),
    ),
    case(
        "a correction on which a function raises retracts the row, and another restores it",
        [Users, Ranks, Ranked],
        [
            row(Users, 1, "de", 1, 10 * S),
            row(Users, 2, "de", 1, 10 * S),
            row(Users, 2, "fr", 1, 10 * S),
            row(Users, 3, "fr", 1, 10 * S),
            row(Users, 3, "de", 1, 10 * S),
        ],
        missing(Ranks, 2, at=10 * S),
        found(Ranks, 3, at=10 * S, gives=[1]),
        found(Ranked, 1, at=10 * S, gives=[2]),
    ),
    case(
        "a row whose lists differ in length does not explode, and others do",
        [Baskets, Lines],
        [
            row(Baskets, 1, ("a", "b"), (1, 2), 10 * S),
            row(Baskets, 2, ("c",), (3, 4), 11 * S),
            row(Baskets, 3, None, (), 12 * S),
        ],
        holds(Lines, (1, "a", 1, 10 * S), (1, "b", 2, 10 * S), (3, None, None, 12 * S)),
    ),
)

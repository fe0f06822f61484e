# mypy: disable-error-code="call-overload, assignment"
"""Cases of the steps that process each row alone: filter, assign, transform, select and more."""

from datetime import datetime
from typing import Optional

import pandas as pd

from narthex._sdk.datasets import Rows
from narthex.datasets import dataset, field, pipeline
from narthex.expr import col, now
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
from narthex_reference.conformance.shop import Orders, Users

S = SECOND
LEAST = 2


@dataset
class Dear:
    """Orders above two."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def dear(cls, orders: Rows) -> Rows:
        return orders.filter((col("amount") > float(LEAST)).fillnull(False))


@dataset
class DearByCode:
    """Orders above two, by a function."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def dear(cls, orders: Rows) -> Rows:
        return orders.filter(lambda df: df["amount"] > LEAST)


@dataset(index=True)
class Germans:
    """Users while they live in Germany."""

    uid: int = field(key=True)
    country: str
    score: Optional[int]
    at: datetime

    @pipeline
    @inputs(Users)
    def germans(cls, users: Rows) -> Rows:
        return users.filter(col("country") == "de")


@dataset
class Doubled:
    """Orders with columns computed."""

    uid: int
    sku: str
    amount: Optional[float]
    twice: Optional[float]
    code: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def doubled(cls, orders: Rows) -> Rows:
        return orders.assign(
            twice=(col("amount") * 2.0).astype(Optional[float]),
            sku=col("sku").str.upper().astype(str),
        ).assign("code", int, lambda df: (df["uid"] * 10).astype("Int64"))


@dataset
class Raised:
    """Orders above two, each with its user's id raised by functions that overwrite their column."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def raised(cls, orders: Rows) -> Rows:
        dear = orders.filter(lambda df: df["amount"] > LEAST)
        return dear.assign("uid", int, lambda df: df["uid"] + 1).assign(
            "uid", int, lambda df: df["uid"] * 10
        )


@dataset
class Shares:
    """Orders that have a share, which must be a number."""

    uid: int
    share: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def shares(cls, orders: Rows) -> Rows:
        return orders.assign(share=(col("uid") // (col("uid") - 1)).astype(int)).drop(
            "sku", "amount"
        )


@dataset(index=True)
class Scores:
    """Users with a doubled score, under other names."""

    user: int = field(key=True)
    points: Optional[int]
    seen_at: datetime

    @pipeline
    @inputs(Users)
    def scores(cls, users: Rows) -> Rows:
        return (
            users.assign(score=(col("score") * 2).astype(Optional[int]))
            .drop("country")
            .rename({"uid": "user", "score": "points", "at": "seen_at"})
        )


@dataset(index=True)
class Scored:
    """Users while they have a score."""

    uid: int = field(key=True)
    score: int
    at: datetime

    @pipeline
    @inputs(Users)
    def scored(cls, users: Rows) -> Rows:
        return users.select("uid", "score").dropnull("score")


@dataset
class Priced:
    """Orders that have an amount."""

    uid: int
    sku: str
    amount: float
    at: datetime

    @pipeline
    @inputs(Orders)
    def priced(cls, orders: Rows) -> Rows:
        return orders.dropnull()


@dataset
class Placed:
    """Orders with an amount, and their user's country at the time."""

    uid: int
    sku: str
    amount: float
    country: str
    at: datetime

    @pipeline
    @inputs(Orders, Users)
    def placed(cls, orders: Rows, users: Rows) -> Rows:
        joined = orders.join(users, how="left", on=["uid"])
        return joined.drop("score").dropnull("amount", "country")


@dataset
class CertainlyDear:
    """Orders above two, by a function that does not handle orders without an amount."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def dear(cls, orders: Rows) -> Rows:
        return orders.filter(lambda df: df["amount"].astype("Float64") > LEAST)


@dataset
class Today:
    """Orders from the first half of a minute, with `now()` as of when they were made."""

    uid: int
    asked: datetime
    age: int
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def today(cls, orders: Rows) -> Rows:
        return (
            orders.filter(now().dt.second < 30)  # noqa: PLR2004
            .assign(
                asked=now().astype(datetime),
                age=now().dt.since(col("at"), unit="second").astype(int),
            )
            .select("uid", "asked", "age")
        )


def _squared(df: pd.DataFrame) -> pd.DataFrame:
    df["square"] = df["amount"] * df["amount"]
    return df[["uid", "at", "square"]]


@dataset
class Squares:
    """Orders' amounts squared, by a function of a frame."""

    square: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def squares(cls, orders: Rows) -> Rows:
        return orders.transform(_squared, schema={"square": Optional[float], "at": datetime})


def _graded(df: pd.DataFrame) -> pd.DataFrame:
    df["grade"] = df["country"] + "!"
    return df[["uid", "at", "grade"]]


@dataset(index=True)
class Grades:
    """Users' grades, by a function of a frame."""

    uid: int = field(key=True)
    grade: str
    at: datetime

    @pipeline
    @inputs(Users)
    def grades(cls, users: Rows) -> Rows:
        return users.transform(_graded, schema={"uid": int, "grade": str, "at": datetime})


_ORDERS = (
    row(Orders, 1, "a", 3.0, 10 * S),
    row(Orders, 2, "b", 2.0, 11 * S),
    row(Orders, 3, "c", None, 12 * S),
    row(Orders, 4, "d", 2.5, 9 * S),
)
_KEPT = ((4, "d", 2.5, 9 * S), (1, "a", 3.0, 10 * S))
_USERS = (
    row(Users, 1, "de", 3, 10 * S),
    row(Users, 1, "fr", None, 20 * S),
    row(Users, 1, "de", 5, 30 * S),
    delete(Users, 1, 40 * S),
)

CASES: tuple[ConformanceCase, ...] = (
    case(
        "a filter keeps the rows for which it is true; null is not",
        [Orders, Dear],
        _ORDERS,
        holds(Dear, *_KEPT),
    ),
    case(
        "a filter by a function keeps the rows for which it is true; null is not",
        [Orders, DearByCode],
        _ORDERS,
        holds(DearByCode, *_KEPT),
    ),
    case(
        "a filter by a function does not keep the rows for which it gives null",
        [Orders, CertainlyDear],
        _ORDERS,
        holds(CertainlyDear, *_KEPT),
    ),
    case("a filter of no rows returns no rows", [Orders, Dear], [], holds(Dear)),
    case(
        "a keyed row that stops passing a filter becomes absent",
        [Users, Germans],
        _USERS,
        found(Germans, 1, at=10 * S, gives=["de", 3]),
        missing(Germans, 1, at=20 * S),
        found(Germans, 1, at=30 * S, gives=["de", 5]),
        missing(Germans, 1, at=40 * S),
        holds(Germans, (1, "de", 3, 10 * S), (1, 20 * S), (1, "de", 5, 30 * S), (1, 40 * S)),
    ),
    case(
        "a key that never passed a filter is never found",
        [Users, Germans],
        [row(Users, 1, "fr", 3, 10 * S), delete(Users, 1, 20 * S)],
        holds(Germans),
        missing(Germans, 1, at=30 * S),
    ),
    case(
        "assign adds and replaces columns, by expressions of the row as it was and by functions",
        [Orders, Doubled],
        [row(Orders, 1, "a", 3.0, 10 * S), row(Orders, 2, "b", None, 11 * S)],
        holds(Doubled, (1, "A", 3.0, 6.0, 10, 10 * S), (2, "B", None, None, 20, 11 * S)),
    ),
    case(
        "assign by a function may overwrite the column that the function reads",
        [Orders, Raised],
        _ORDERS,
        holds(Raised, (50, "d", 2.5, 9 * S), (20, "a", 3.0, 10 * S)),
    ),
    case(
        "a row with an undefined expression in a required column is dropped",
        [Orders, Shares],
        [row(Orders, 1, "a", 3.0, 10 * S), row(Orders, 3, "b", None, 11 * S)],
        holds(Shares, (3, 1, 11 * S)),
    ),
    case(
        "assign, drop and rename of a keyed dataset change every row of a key, and keep its delete",
        [Users, Scores],
        _USERS,
        found(Scores, 1, at=10 * S, gives=[6]),
        found(Scores, 1, at=20 * S, gives=[None]),
        missing(Scores, 1, at=40 * S),
        holds(Scores, (1, 6, 10 * S), (1, None, 20 * S), (1, 10, 30 * S), (1, 40 * S)),
    ),
    case(
        "dropnull drops rows with a null",
        [Orders, Priced],
        _ORDERS,
        holds(Priced, (4, "d", 2.5, 9 * S), (1, "a", 3.0, 10 * S), (2, "b", 2.0, 11 * S)),
    ),
    case(
        "dropnull of several columns drops rows with a null in any",
        [Orders, Users, Placed],
        [
            row(Users, 1, "fr", 1, 1 * S),
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 1, "b", None, 11 * S),
            row(Orders, 2, "c", 2.0, 12 * S),
        ],
        holds(Placed, (1, "a", 1.0, "fr", 10 * S)),
    ),
    case(
        "dropnull of a keyed dataset makes a key absent while it has a null",
        [Users, Scored],
        _USERS,
        holds(Scored, (1, 3, 10 * S), (1, 20 * S), (1, 5, 30 * S), (1, 40 * S)),
    ),
    case(
        "now is the event time of the row, whenever it is worked on",
        [Orders, Today],
        [row(Orders, 1, "a", 3.0, 10 * S), row(Orders, 2, "b", None, 31 * S)],
        holds(Today, (1, 10 * S, 0, 10 * S)),
    ),
    case(
        "transform gives each row other values",
        [Orders, Squares],
        [row(Orders, 1, "a", 3.0, 10 * S), row(Orders, 2, "b", None, 11 * S)],
        holds(Squares, (9.0, 10 * S), (None, 11 * S)),
    ),
    case(
        "transform of a keyed dataset changes each row of a key, and keeps its delete",
        [Users, Grades],
        _USERS,
        found(Grades, 1, at=25 * S, gives=["fr!"]),
        missing(Grades, 1, at=40 * S),
        holds(
            Grades,
            (1, "de!", 10 * S),
            (1, "fr!", 20 * S),
            (1, "de!", 30 * S),
            (1, 40 * S),
        ),
    ),
)

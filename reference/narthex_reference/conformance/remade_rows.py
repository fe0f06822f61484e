# mypy: disable-error-code="call-overload, assignment"
"""Cases of the steps that create other rows: explode, union, dedup, changelog, first, latest."""

from datetime import datetime
from typing import Optional

from narthex._sdk.datasets import Rows
from narthex.datasets import dataset, field, pipeline
from narthex.dtypes import Session, Tumbling
from narthex.expr import col
from narthex.lib import inputs
from narthex_reference.conformance import corrected_shop as corrected
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
from narthex_reference.conformance.shop import Baskets, Orders, Returns, Users

S = SECOND


@dataset
class Items:
    """A row for each item in a basket."""

    uid: int
    skus: Optional[str]
    counts: list[int]
    at: datetime

    @pipeline
    @inputs(Baskets)
    def items(cls, baskets: Rows) -> Rows:
        return baskets.explode("skus")


@dataset
class CountedItems:
    """A row for each item in a basket, with its count."""

    uid: int
    skus: Optional[str]
    counts: Optional[int]
    at: datetime

    @pipeline
    @inputs(Baskets)
    def items(cls, baskets: Rows) -> Rows:
        return baskets.explode("skus", "counts")


@dataset
class Moves:
    """Orders and returns."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders, Returns)
    def moves(cls, orders: Rows, returns: Rows) -> Rows:
        return orders + returns.assign(amount=(-col("amount")).astype(Optional[float]))


@dataset
class Twice:
    """Orders, each twice."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def twice(cls, orders: Rows) -> Rows:
        return orders + orders


@dataset
class Once:
    """Orders, at most one per user, item and instant."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def once(cls, orders: Rows) -> Rows:
        return orders.dedup("uid", "sku")


@dataset
class SoldOnce:
    """Orders with an amount, at most one per user, item and amount, in cents."""

    buyer: int
    cents: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def sold(cls, orders: Rows) -> Rows:
        sold = orders.dedup("uid", "sku", "amount").dropnull("amount")
        cents = sold.assign("cents", int, lambda df: (df["amount"] * 100).astype("Int64"))
        return cents.rename({"uid": "buyer"}).select("buyer", "cents")


@dataset
class OnceEvery:
    """The last order of a user in each ten seconds."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def once(cls, orders: Rows) -> Rows:
        return orders.dedup(by=["uid"], window=Tumbling("10s"))


@dataset
class OnceInARow:
    """The last order of a user in each session."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def once(cls, orders: Rows) -> Rows:
        return orders.dedup(by=["uid"], window=Session("5s"))


@dataset
class Deletions:
    """The changelog of users, with a column that marks deletions."""

    uid: int
    country: str
    score: Optional[int]
    gone: bool
    at: datetime

    @pipeline
    @inputs(Users)
    def changes(cls, users: Rows) -> Rows:
        return users.changelog(delete="gone")


@dataset
class Insertions:
    """The changelog of users, with a column that marks insertions."""

    uid: int
    country: str
    score: Optional[int]
    came: bool
    at: datetime

    @pipeline
    @inputs(Users)
    def changes(cls, users: Rows) -> Rows:
        return users.changelog(insert="came")


@dataset(index=True)
class FirstOrder:
    """The first order of each user."""

    uid: int = field(key=True)
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def first(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").first()


@dataset(index=True)
class LatestOrder:
    """The newest order of each user."""

    uid: int = field(key=True)
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def latest(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").latest()


@dataset(index=True)
class LatestSale:
    """The newest order of each user, unless it has no amount."""

    uid: int = field(key=True)
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def latest(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").latest().filter(lambda df: df["amount"].notna())


CASES: tuple[ConformanceCase, ...] = (
    case(
        "explode gives a row for each element, and one with null for an empty list or none",
        [Baskets, Items],
        [
            row(Baskets, 1, ("a", "b"), (), 10 * S),
            row(Baskets, 2, (), (1,), 11 * S),
            row(Baskets, 3, None, (2,), 12 * S),
        ],
        holds(
            Items,
            (1, "a", (), 10 * S),
            (1, "b", (), 10 * S),
            (2, None, (1,), 11 * S),
            (3, None, (2,), 12 * S),
        ),
    ),
    case(
        "lists explode in lockstep",
        [Baskets, CountedItems],
        [
            row(Baskets, 1, ("a", "b"), (1, 2), 10 * S),
            row(Baskets, 2, (), (), 11 * S),
            row(Baskets, 3, None, (), 12 * S),
        ],
        holds(
            CountedItems,
            (1, "a", 1, 10 * S),
            (1, "b", 2, 10 * S),
            (2, None, None, 11 * S),
            (3, None, None, 12 * S),
        ),
    ),
    case(
        "of a list that became shorter the elements that are left out are gone",
        [corrected.Carts, corrected.Baskets, Items],
        [
            row(corrected.Carts, 1, ("a", "b", "c"), (), 10 * S),
            row(corrected.Carts, 2, ("d",), (), 10 * S),
            row(corrected.Carts, 1, ("x",), (), 10 * S),
            delete(corrected.Carts, 2, 10 * S),
        ],
        holds(Items, (1, "x", (), 10 * S)),
    ),
    case(
        "a union has the rows of both; equal rows stay two",
        [Orders, Returns, Moves, Twice],
        [
            row(Orders, 1, "a", 2.0, 10 * S),
            row(Orders, 1, "a", 2.0, 10 * S),
            row(Returns, 1, "a", 3.0, 9 * S),
        ],
        holds(
            Moves,
            (1, "a", -3.0, 9 * S),
            (1, "a", 2.0, 10 * S),
            (1, "a", 2.0, 10 * S),
        ),
        holds(Twice, *([(1, "a", 2.0, 10 * S)] * 4)),
    ),
    case(
        "a union with nothing is the other side",
        [Orders, Returns, Moves],
        [row(Returns, 1, "a", 3.0, 9 * S)],
        holds(Moves, (1, "a", -3.0, 9 * S)),
    ),
    case(
        "of rows that are the same at an instant dedup keeps the last in the source",
        [Orders, Once],
        [
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 1, "a", 2.0, 10 * S),
            row(Orders, 1, "a", 3.0, 11 * S),
            row(Orders, 1, "b", None, 10 * S),
        ],
        holds(
            Once,
            (1, "a", 2.0, 10 * S),
            (1, "b", None, 10 * S),
            (1, "a", 3.0, 11 * S),
        ),
    ),
    case(
        "of rows that are the same in a tumbling window dedup keeps the newest",
        [Orders, OnceEvery],
        [
            row(Orders, 1, "a", 1.0, 19 * S),
            row(Orders, 1, "b", 2.0, 10 * S),
            row(Orders, 1, "c", 3.0, 20 * S),
            row(Orders, 2, "d", 4.0, 12 * S),
            row(Orders, 1, "e", 5.0, -1 * S),
        ],
        holds(
            OnceEvery,
            (1, "e", 5.0, -1 * S),
            (2, "d", 4.0, 12 * S),
            (1, "a", 1.0, 19 * S),
            (1, "c", 3.0, 20 * S),
        ),
    ),
    case(
        "of rows in one session dedup keeps the newest; the gap is inclusive",
        [Orders, OnceInARow],
        [
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 1, "b", 2.0, 15 * S),
            row(Orders, 1, "c", 3.0, 20 * S + 1),
        ],
        holds(OnceInARow, (1, "b", 2.0, 15 * S), (1, "c", 3.0, 20 * S + 1)),
    ),
    case(
        "a row that arrives late between two sessions makes them one",
        [Orders, OnceInARow],
        [
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 1, "c", 3.0, 19 * S),
            row(Orders, 1, "b", 2.0, 14 * S),
        ],
        holds(OnceInARow, (1, "c", 3.0, 19 * S)),
    ),
    case(
        "a changelog has a row for each insert and each delete; an update is a delete first",
        [Users, Deletions, Insertions],
        [
            row(Users, 1, "fr", 1, 10 * S),
            row(Users, 1, "de", None, 20 * S),
            delete(Users, 1, 30 * S),
            delete(Users, 1, 40 * S),
        ],
        holds(
            Deletions,
            (1, "fr", 1, False, 10 * S),
            (1, "fr", 1, True, 20 * S),
            (1, "de", None, False, 20 * S),
            (1, "de", None, True, 30 * S),
        ),
        holds(
            Insertions,
            (1, "fr", 1, True, 10 * S),
            (1, "fr", 1, False, 20 * S),
            (1, "de", None, True, 20 * S),
            (1, "de", None, False, 30 * S),
        ),
    ),
    case(
        "first keeps the whole oldest row; of several at one instant the first in the source",
        [Orders, FirstOrder],
        [
            row(Orders, 1, "late", 9.0, 20 * S),
            row(Orders, 1, "a", None, 10 * S),
            row(Orders, 1, "b", 2.0, 10 * S),
            row(Orders, 2, "c", 3.0, 15 * S),
        ],
        missing(FirstOrder, 1, at=10 * S - 1),
        found(FirstOrder, 1, at=10 * S, gives=["a", None]),
        found(FirstOrder, 1, at=99 * S, gives=["a", None]),
        holds(FirstOrder, (1, "a", None, 10 * S), (2, "c", 3.0, 15 * S)),
    ),
    case(
        "a correction of the first row makes another one the first",
        [corrected.Receipts, corrected.Orders, FirstOrder],
        [
            row(corrected.Receipts, 1, 1, "a", 1.0, 10 * S),
            row(corrected.Receipts, 2, 1, "b", 2.0, 20 * S),
            delete(corrected.Receipts, 1, 10 * S),
            row(corrected.Receipts, 1, 1, "a", 1.0, 30 * S),
            row(corrected.Receipts, 3, 2, "c", 1.0, 10 * S),
            delete(corrected.Receipts, 3, 10 * S),
        ],
        holds(FirstOrder, (1, "b", 2.0, 20 * S)),
        missing(FirstOrder, 2, at=99 * S),
    ),
    case(
        "latest keeps the whole newest row as of each instant; of several the last in the source",
        [Orders, LatestOrder],
        [
            row(Orders, 1, "c", 3.0, 20 * S),
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 1, "b", None, 10 * S),
        ],
        missing(LatestOrder, 1, at=10 * S - 1),
        found(LatestOrder, 1, at=10 * S, gives=["b", None]),
        found(LatestOrder, 1, at=20 * S, gives=["c", 3.0]),
        holds(LatestOrder, (1, "b", None, 10 * S), (1, "c", 3.0, 20 * S)),
    ),
    case(
        "a correction that moves the latest row to another group leaves the old group as it was",
        [corrected.Receipts, corrected.Orders, LatestOrder],
        [
            row(corrected.Receipts, 1, 1, "a", 1.0, 10 * S),
            row(corrected.Receipts, 2, 1, "b", 2.0, 20 * S),
            row(corrected.Receipts, 2, 2, "b", 2.0, 20 * S),
        ],
        found(LatestOrder, 1, at=99 * S, gives=["a", 1.0]),
        found(LatestOrder, 2, at=99 * S, gives=["b", 2.0]),
    ),
    case(
        "steps on single rows follow a step that needs state",
        [Orders, SoldOnce],
        [
            row(Orders, 1, "a", 1.5, 10 * S),
            row(Orders, 1, "a", 1.5, 10 * S),
            row(Orders, 1, "b", None, 10 * S),
            row(Orders, 2, "a", 0.25, 20 * S),
        ],
        holds(SoldOnce, (1, 150, 10 * S), (2, 25, 20 * S)),
    ),
    case(
        "code that leaves the latest row out leaves none",
        [Orders, LatestSale],
        [
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 1, "b", None, 20 * S),
            row(Orders, 1, "c", 3.0, 30 * S),
        ],
        found(LatestSale, 1, at=20 * S - 1, gives=["a", 1.0]),
        missing(LatestSale, 1, at=20 * S),
        found(LatestSale, 1, at=30 * S, gives=["c", 3.0]),
    ),
)

# mypy: disable-error-code="call-overload, assignment"
"""Cases of enforced expectations: rows that break them are not in the dataset."""

from datetime import datetime
from typing import Optional

from narthex._sdk.datasets import Rows
from narthex.datasets import Count, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.lib import (
    expect_column_pair_values_A_to_be_greater_than_B,
    expect_column_value_lengths_to_equal,
    expect_column_values_to_be_between,
    expect_column_values_to_be_in_set,
    expect_column_values_to_match_regex,
    expect_column_values_to_not_be_null,
    expectations,
    inputs,
)
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
class PaidOrders:
    """Orders with an amount of at least one, or an unknown one."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def paid(cls, orders: Rows) -> Rows:
        return orders.filter(col("uid") > 0)

    @expectations
    def quality(cls) -> list[object]:
        return [
            expect_column_values_to_be_between("amount", min_value=1, action="quarantine"),
            expect_column_values_to_match_regex("sku", "^[a-z]+$", action="drop"),
        ]


@dataset(index=True)
class Paid:
    """The sum of the paid orders of a user."""

    uid: int = field(key=True)
    total: float
    orders: int
    at: datetime

    @pipeline
    @inputs(PaidOrders)
    def summed(cls, orders: Rows) -> Rows:
        return (
            orders.dropnull("amount")
            .groupby("uid")
            .aggregate(
                total=Sum(of="amount", window=Continuous("forever")),
                orders=Count(window=Continuous("forever")),
            )
        )


@dataset(index=True)
class KnownUsers:
    """Users of a known country with a score."""

    uid: int = field(key=True)
    country: str
    score: Optional[int]
    at: datetime

    @pipeline
    @inputs(Users)
    def known(cls, users: Rows) -> Rows:
        return users

    @expectations
    def quality(cls) -> list[object]:
        return [
            expect_column_values_to_not_be_null("score", action="quarantine"),
            expect_column_values_to_be_in_set("country", ["de", "fr"], action="quarantine"),
        ]


@dataset(index=True)
class KnownCountries:
    """The number of known users of each country."""

    country: str = field(key=True)
    users: int
    at: datetime

    @pipeline
    @inputs(KnownUsers)
    def counted(cls, users: Rows) -> Rows:
        return users.groupby("country").aggregate(users=Count(window=Continuous("forever")))


@dataset(index=True)
class LastOrders:
    """The last order of a user, if its article has one letter."""

    uid: int = field(key=True)
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def last(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").latest()

    @expectations
    def quality(cls) -> list[object]:
        return [expect_column_value_lengths_to_equal("sku", 1, action="drop")]


@dataset
class ManyOf:
    """The articles of baskets of which there are more than the user's number."""

    uid: int
    skus: Optional[str]
    counts: Optional[int]
    at: datetime

    @pipeline
    @inputs(Baskets)
    def many(cls, baskets: Rows) -> Rows:
        return baskets.explode("skus", "counts")

    @expectations
    def quality(cls) -> list[object]:
        return [
            expect_column_pair_values_A_to_be_greater_than_B(
                "counts", "uid", ignore_row_if="either_value_is_missing", action="drop"
            )
        ]


@dataset
class OrdersOfKnown:
    """Orders with the score of their user, which must be positive."""

    uid: int
    sku: str
    amount: Optional[float]
    score: Optional[int]
    at: datetime

    @pipeline
    @inputs(Orders, Users)
    def scored(cls, orders: Rows, users: Rows) -> Rows:
        return orders.join(users, how="left", on=["uid"], fields=["score"])

    @expectations
    def quality(cls) -> list[object]:
        return [expect_column_values_to_be_between("score", min_value=1, action="quarantine")]


CASES: tuple[ConformanceCase, ...] = (
    case(
        "a row that breaks an enforced expectation is not in the dataset, nor behind it",
        [Orders, PaidOrders, Paid],
        [
            row(Orders, 1, "a", 3.0, 10 * S),
            row(Orders, 1, "b", 0.5, 11 * S),
            row(Orders, 1, "B", 4.0, 12 * S),
            row(Orders, 1, "c", None, 13 * S),
            row(Orders, 2, "D", -1.0, 14 * S),
        ],
        holds(PaidOrders, (1, "a", 3.0, 10 * S), (1, "c", None, 13 * S)),
        found(Paid, 1, at=14 * S, gives=[3.0, 1]),
        missing(Paid, 2, at=14 * S),
    ),
    case(
        "a keyed row that breaks an enforced expectation leaves the former row in place",
        [Users, KnownUsers],
        [
            row(Users, 1, "de", 1, 10 * S),
            row(Users, 1, "xx", 2, 20 * S),
            row(Users, 1, "de", None, 30 * S),
            row(Users, 1, "fr", 4, 40 * S),
            delete(Users, 1, 50 * S),
            row(Users, 2, "xx", 1, 10 * S),
            delete(Users, 2, 20 * S),
        ],
        found(KnownUsers, 1, at=30 * S, gives=["de", 1]),
        found(KnownUsers, 1, at=40 * S, gives=["fr", 4]),
        missing(KnownUsers, 1, at=50 * S),
        missing(KnownUsers, 2, at=10 * S),
        holds(KnownUsers, (1, "de", 1, 10 * S), (1, "fr", 4, 40 * S), (1, 50 * S)),
    ),
    case(
        "a correction that breaks an enforced expectation removes the row, and another restores it",
        [Users, KnownUsers, KnownCountries],
        [
            row(Users, 1, "fr", 1, 5 * S),
            row(Users, 1, "de", 1, 10 * S),
            row(Users, 1, "xx", 1, 10 * S),
            row(Users, 2, "xx", 1, 10 * S),
            row(Users, 2, "de", 1, 10 * S),
        ],
        found(KnownUsers, 1, at=10 * S, gives=["fr", 1]),
        found(KnownUsers, 2, at=10 * S, gives=["de", 1]),
        found(KnownCountries, "fr", at=10 * S, gives=[1]),
        found(KnownCountries, "de", at=10 * S, gives=[1]),
    ),
    case(
        "the latest row of a group that breaks an enforced expectation leaves the one before",
        [Orders, LastOrders],
        [
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 1, "bb", 2.0, 20 * S),
            row(Orders, 1, "c", 3.0, 30 * S),
            row(Orders, 1, "dd", 4.0, 30 * S),
        ],
        found(LastOrders, 1, at=30 * S, gives=["a", 1.0]),
        holds(LastOrders, (1, "a", 1.0, 10 * S)),
    ),
    case(
        "rows that a step makes of one row are judged one by one",
        [Baskets, ManyOf],
        [
            row(Baskets, 2, ("a", "b", "c"), (3, 1, 4), 10 * S),
            row(Baskets, 5, (), (), 11 * S),
        ],
        holds(ManyOf, (2, "a", 3, 10 * S), (2, "c", 4, 10 * S), (5, None, None, 11 * S)),
    ),
    case(
        "a joined row is judged with what the join found, late or not",
        [Orders, Users, OrdersOfKnown],
        [
            row(Users, 1, "de", 5, 10 * S),
            row(Users, 2, "de", 0, 10 * S),
            row(Orders, 1, "a", 1.0, 20 * S),
            row(Orders, 2, "b", 1.0, 20 * S),
            row(Orders, 3, "c", 1.0, 20 * S),
            row(Users, 1, "de", -5, 15 * S),
            row(Users, 2, "de", 7, 15 * S),
        ],
        holds(OrdersOfKnown, (2, "b", 1.0, 7, 20 * S), (3, "c", 1.0, None, 20 * S)),
    ),
)

# mypy: disable-error-code="call-overload, assignment"
"""Cases of steps after steps: a step's retractions are propagated by the next step."""

from datetime import datetime
from typing import Optional

from narthex._sdk.datasets import Rows
from narthex.datasets import (
    Count,
    ExpDecaySum,
    Max,
    Sum,
    dataset,
    field,
    pipeline,
)
from narthex.dtypes import Continuous, Hopping, Tumbling
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
from narthex_reference.conformance.joined_rows import Rated
from narthex_reference.conformance.remade_rows import (
    Deletions,
    FirstOrder,
    Items,
    LatestOrder,
    Once,
)
from narthex_reference.conformance.shop import Countries, Orders, Users
from narthex_reference.conformance.single_rows import Germans

S = SECOND
FOREVER = Continuous("forever")


@dataset(index=True)
class GermanScores:
    """The scores of users who live in Germany."""

    country: str = field(key=True)
    users: int
    best: Optional[int]
    at: datetime

    @pipeline
    @inputs(Germans)
    def scores(cls, germans: Rows) -> Rows:
        return germans.groupby("country").aggregate(
            users=Count(window=FOREVER), best=Max(of="score", window=FOREVER)
        )


@dataset(index=True)
class RateOfUsers:
    """How many users each rate has."""

    country: str = field(key=True)
    users: int
    rate: float
    at: datetime

    @pipeline
    @inputs(Rated)
    def rates(cls, rated: Rows) -> Rows:
        return rated.groupby("country").aggregate(
            users=Count(window=FOREVER), rate=Sum(of="rate", window=FOREVER)
        )


@dataset(index=True)
class ItemCounts:
    """How many baskets have each item."""

    sku: str = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Items)
    def counts(cls, items: Rows) -> Rows:
        return (
            items.drop("counts")
            .dropnull("skus")
            .rename({"skus": "sku"})
            .groupby("sku")
            .aggregate(n=Count(window=FOREVER))
        )


@dataset(index=True)
class OnceSpent:
    """The sum spent, with each order counted once."""

    uid: int = field(key=True)
    spent: float
    n: int
    at: datetime

    @pipeline
    @inputs(Once)
    def once_spent(cls, once: Rows) -> Rows:
        return once.groupby("uid").aggregate(
            spent=Sum(of="amount", window=FOREVER), n=Count(window=FOREVER)
        )


@dataset(index=True)
class Departures:
    """How many users have left each country, or changed there."""

    country: str = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Deletions)
    def departures(cls, changes: Rows) -> Rows:
        return changes.filter(col("gone")).groupby("country").aggregate(n=Count(window=FOREVER))


@dataset(index=True)
class LatestBySku:
    """For each item, how many users bought it last."""

    sku: str = field(key=True)
    users: int
    at: datetime

    @pipeline
    @inputs(LatestOrder)
    def by_sku(cls, latest: Rows) -> Rows:
        return latest.groupby("sku").aggregate(users=Count(window=FOREVER))


@dataset(index=True)
class FirstBySku:
    """For each item, how many users bought it first."""

    sku: str = field(key=True)
    users: int
    at: datetime

    @pipeline
    @inputs(FirstOrder)
    def by_sku(cls, first: Rows) -> Rows:
        return first.groupby("sku").aggregate(users=Count(window=FOREVER))


@dataset(index=True)
class Busy:
    """How many orders there were until the last whole ten seconds."""

    uid: int = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def busy(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(n=Count(window=Hopping("forever", "10s")))


@dataset(index=True)
class Busyness:
    """How many users have how many orders."""

    n: int = field(key=True)
    users: int
    at: datetime

    @pipeline
    @inputs(Busy)
    def busyness(cls, busy: Rows) -> Rows:
        return busy.groupby("n").aggregate(users=Count(window=FOREVER))


@dataset(index=True)
class FinalSpans:
    """The final sum spent in each ten seconds."""

    uid: int = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def spans(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(n=Count(window=Tumbling("10s")), emit="final")


@dataset(index=True)
class DecayingThen:
    """Decayed sums as of five seconds ago."""

    uid: int = field(key=True)
    heat: float
    at: datetime

    @pipeline
    @inputs(Orders)
    def heat_of(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(
            heat=ExpDecaySum(
                of="amount", half_life="10s", window=Hopping("forever", "10s", lookback="5s")
            )
        )


@dataset
class WithUserOfScore:
    """Users' changes with the user whose number is their score."""

    uid: int
    score: Optional[int]
    of: Optional[str]
    at: datetime

    @pipeline
    @inputs(Deletions, Users)
    def with_user(cls, changes: Rows, users: Rows) -> Rows:
        return (
            changes.filter(~col("gone"))
            .select("uid", "score")
            .join(users, how="left", left_on=["score"], right_on=["uid"], fields=["country"])
            .rename({"country": "of"})
        )


@dataset(index=True)
class LongAndShort:
    """Windows of different lengths."""

    uid: int = field(key=True)
    ten: int
    minute: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def long_and_short(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(
            ten=Count(window=Tumbling("10s")), minute=Count(window=Tumbling("60s"))
        )


@dataset(index=True)
class Lively:
    """Users with more than one order in ten seconds, from and until when."""

    uid: int = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def lively(cls, orders: Rows) -> Rows:
        counted = orders.groupby("uid").aggregate(n=Count(window=Continuous("10s")), emit="final")
        return counted.filter(col("n") > 1)


@dataset
class Shared:
    """Orders whose number has a share; of user one there is none."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def shared(cls, orders: Rows) -> Rows:
        return orders.filter(col("uid") // (col("uid") - 1) > 0)


CASES: tuple[ConformanceCase, ...] = (
    case(
        "a group is seen when the first of its windows has known a row of it",
        [Orders, LongAndShort],
        [row(Orders, 1, "a", 1.0, 3 * S)],
        missing(LongAndShort, 1, at=10 * S - 1),
        found(LongAndShort, 1, at=10 * S, gives=[1, 0]),
        found(LongAndShort, 1, at=60 * S, gives=[0, 1]),
        found(LongAndShort, 1, at=120 * S, gives=[0, 0]),
    ),
    case(
        "a sliding window that feeds a step changes when a row comes and just after it is too old",
        [Orders, Lively],
        [row(Orders, 1, "a", 1.0, 10 * S), row(Orders, 1, "b", 1.0, 15 * S)],
        missing(Lively, 1, at=15 * S - 1),
        found(Lively, 1, at=15 * S, gives=[2]),
        found(Lively, 1, at=20 * S, gives=[2]),
        missing(Lively, 1, at=20 * S + 1),
        holds(Lively, (1, 2, 15 * S), (1, 20 * S + 1)),
    ),
    case(
        "a predicate that has no value on a row is not true of it",
        [Orders, Shared],
        [row(Orders, 1, "a", 1.0, 10 * S), row(Orders, 2, "b", 1.0, 11 * S)],
        holds(Shared, (2, "b", 1.0, 11 * S)),
    ),
    case(
        "a keyed row that stops passing a filter leaves the groups below it",
        [Users, Germans, GermanScores],
        [
            row(Users, 1, "de", 9, 10 * S),
            row(Users, 2, "de", 5, 11 * S),
            row(Users, 1, "fr", 9, 20 * S),
            row(Users, 1, "de", 7, 30 * S),
            delete(Users, 2, 40 * S),
        ],
        found(GermanScores, "de", at=11 * S, gives=[2, 9]),
        found(GermanScores, "de", at=20 * S, gives=[1, 5]),
        found(GermanScores, "de", at=30 * S, gives=[2, 7]),
        found(GermanScores, "de", at=40 * S, gives=[1, 7]),
        missing(GermanScores, "fr", at=99 * S),
    ),
    case(
        "a change on the right side of a keyed join changes the groups below it",
        [Users, Countries, Rated, RateOfUsers],
        [
            row(Users, 1, "fr", 1, 10 * S),
            row(Users, 2, "fr", 1, 10 * S),
            row(Countries, "fr", 0.5, 15 * S),
            row(Users, 2, "de", 1, 20 * S),
            row(Countries, "fr", 0.75, 30 * S),
            delete(Countries, "fr", 40 * S),
        ],
        found(RateOfUsers, "fr", at=10 * S, gives=[2, 0.0]),
        found(RateOfUsers, "fr", at=15 * S, gives=[2, 1.0]),
        found(RateOfUsers, "fr", at=20 * S, gives=[1, 0.5]),
        found(RateOfUsers, "de", at=20 * S, gives=[1, 0.0]),
        found(RateOfUsers, "fr", at=30 * S, gives=[1, 0.75]),
        found(RateOfUsers, "fr", at=40 * S, gives=[1, 0.0]),
    ),
    case(
        "a list that became shorter takes its elements out of the groups below",
        [corrected.Carts, corrected.Baskets, Items, ItemCounts],
        [
            row(corrected.Carts, 1, ("a", "b"), (), 10 * S),
            row(corrected.Carts, 2, ("a",), (), 11 * S),
            row(corrected.Carts, 1, ("a",), (), 10 * S),
        ],
        found(ItemCounts, "a", at=99 * S, gives=[2]),
        missing(ItemCounts, "b", at=99 * S),
    ),
    case(
        "a duplicate that comes later replaces what was counted",
        [Orders, Once, OnceSpent],
        [
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 1, "a", 5.0, 10 * S),
            row(Orders, 1, "b", 7.0, 10 * S),
            row(Orders, 1, "a", 5.0, 20 * S),
        ],
        found(OnceSpent, 1, at=10 * S, gives=[12.0, 2]),
        found(OnceSpent, 1, at=20 * S, gives=[17.0, 3]),
    ),
    case(
        "a changelog that is aggregated counts what went, at the instant at which it went",
        [Users, Deletions, Departures],
        [
            row(Users, 1, "fr", 1, 10 * S),
            row(Users, 1, "de", 1, 20 * S),
            row(Users, 2, "fr", 1, 12 * S),
            delete(Users, 2, 15 * S),
        ],
        missing(Departures, "fr", at=15 * S - 1),
        found(Departures, "fr", at=15 * S, gives=[1]),
        found(Departures, "fr", at=20 * S, gives=[2]),
        missing(Departures, "de", at=99 * S),
    ),
    case(
        "a row that is the newest no more leaves the groups below",
        [Orders, LatestOrder, LatestBySku],
        [
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 2, "a", 1.0, 11 * S),
            row(Orders, 1, "b", 1.0, 20 * S),
        ],
        found(LatestBySku, "a", at=11 * S, gives=[2]),
        found(LatestBySku, "a", at=20 * S, gives=[1]),
        found(LatestBySku, "b", at=20 * S, gives=[1]),
    ),
    case(
        "a first row that arrives late takes the place of the one that was counted",
        [Orders, FirstOrder, FirstBySku],
        [
            row(Orders, 1, "b", 1.0, 20 * S),
            row(Orders, 1, "a", 1.0, 10 * S),
        ],
        found(FirstBySku, "a", at=10 * S, gives=[1]),
        missing(FirstBySku, "b", at=99 * S),
    ),
    case(
        "a windowed value that changes leaves the group of its old value",
        [Orders, Busy, Busyness],
        [
            row(Orders, 1, "a", 1.0, 3 * S),
            row(Orders, 2, "a", 1.0, 4 * S),
            row(Orders, 1, "b", 1.0, 13 * S),
        ],
        missing(Busyness, 1, at=10 * S - 1),
        found(Busyness, 1, at=10 * S, gives=[2]),
        missing(Busyness, 2, at=20 * S - 1),
        found(Busyness, 1, at=20 * S, gives=[1]),
        found(Busyness, 2, at=20 * S, gives=[1]),
    ),
    case(
        "windows that end show the same, final or not",
        [Orders, FinalSpans],
        [row(Orders, 1, "a", 1.0, 3 * S), row(Orders, 1, "b", 1.0, 4 * S)],
        missing(FinalSpans, 1, at=10 * S - 1),
        found(FinalSpans, 1, at=10 * S, gives=[2]),
        found(FinalSpans, 1, at=20 * S, gives=[0]),
    ),
    case(
        "with a lookback a sum has decayed to the instant that is looked back to",
        [Orders, DecayingThen],
        [row(Orders, 1, "a", 8.0, 5 * S)],
        missing(DecayingThen, 1, at=15 * S - 1),
        found(DecayingThen, 1, at=15 * S, gives=[8.0 * 2.0**-0.5]),
        found(DecayingThen, 1, at=20 * S, gives=[4.0]),
    ),
    case(
        "a null matches nothing, and its row stays in a left join",
        [Users, Deletions, WithUserOfScore],
        [
            row(Users, 1, "fr", 2, 10 * S),
            row(Users, 2, "de", None, 5 * S),
        ],
        holds(
            WithUserOfScore,
            (2, None, None, 5 * S),
            (1, 2, "de", 10 * S),
        ),
    ),
    case(
        "of many rows at one instant all count, in the order of their places",
        [Orders, LatestOrder, FirstOrder, OnceSpent, Once],
        [row(Orders, 1, f"s{at}", float(at), 10 * S) for at in range(9)],
        found(LatestOrder, 1, at=10 * S, gives=["s8", 8.0]),
        found(FirstOrder, 1, at=10 * S, gives=["s0", 0.0]),
        found(OnceSpent, 1, at=10 * S, gives=[36.0, 9]),
    ),
    case(
        "a retracted row is nowhere below",
        [
            corrected.Receipts,
            corrected.Orders,
            Once,
            OnceSpent,
            LatestOrder,
            LatestBySku,
            Busy,
        ],
        [
            row(corrected.Receipts, 1, 1, "a", 1.0, 3 * S),
            delete(corrected.Receipts, 1, 3 * S),
            row(corrected.Receipts, 2, 2, "a", 2.0, 3 * S),
        ],
        holds(Once, (2, "a", 2.0, 3 * S)),
        missing(OnceSpent, 1, at=99 * S),
        missing(LatestOrder, 1, at=99 * S),
        found(LatestBySku, "a", at=99 * S, gives=[1]),
        missing(Busy, 1, at=99 * S),
        found(Busy, 2, at=99 * S, gives=[1]),
    ),
)

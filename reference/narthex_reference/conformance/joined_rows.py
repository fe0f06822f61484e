# mypy: disable-error-code="call-overload, assignment"
"""Cases of joins: rows as of their instant, keys interval by interval."""

from datetime import datetime
from typing import Optional

from narthex._sdk.datasets import Rows
from narthex.datasets import Sum, dataset, field, pipeline
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
from narthex_reference.conformance.shop import Countries, Orders, Users

S = SECOND


@dataset
class Enriched:
    """Orders with their user's country at the time, if known."""

    uid: int
    sku: str
    country: Optional[str]
    score: Optional[int]
    at: datetime

    @pipeline
    @inputs(Orders, Users)
    def enriched(cls, orders: Rows, users: Rows) -> Rows:
        return orders.drop("amount").join(users, how="left", on=["uid"])


@dataset
class Known:
    """Orders of users that were known at the time."""

    uid: int
    sku: str
    country: str
    at: datetime

    @pipeline
    @inputs(Orders, Users)
    def known(cls, orders: Rows, users: Rows) -> Rows:
        return orders.drop("amount").join(users, how="inner", on=["uid"], fields=["country"])


@dataset
class Fresh:
    """Orders of users with a row shortly before."""

    uid: int
    sku: str
    country: str
    at: datetime

    @pipeline
    @inputs(Orders, Users)
    def fresh(cls, orders: Rows, users: Rows) -> Rows:
        return orders.drop("amount").join(
            users, how="inner", on=["uid"], within=("5s", "0s"), fields=["country"]
        )


@dataset
class Around:
    """Orders with their user's row shortly before or after, and its instant."""

    uid: int
    sku: str
    country: Optional[str]
    heard_at: Optional[datetime]
    at: datetime

    @pipeline
    @inputs(Orders, Users)
    def around(cls, orders: Rows, users: Rows) -> Rows:
        renamed = orders.drop("amount").rename({"at": "ordered_at"})
        joined = renamed.join(
            users, how="left", on=["uid"], within=("2s", "3s"), fields=["country", "at"]
        )
        return joined.rename({"at": "heard_at"}).rename({"ordered_at": "at"})


@dataset(index=True)
class Rated:
    """Users with the rate of the country that they live in."""

    uid: int = field(key=True)
    country: str
    rate: Optional[float]
    at: datetime

    @pipeline
    @inputs(Users, Countries)
    def rated(cls, users: Rows, countries: Rows) -> Rows:
        return users.drop("score").join(countries, how="left", on=["country"])


@dataset(index=True)
class Living:
    """Users whose country has a rate."""

    uid: int = field(key=True)
    rate: float
    at: datetime

    @pipeline
    @inputs(Users, Countries)
    def living(cls, users: Rows, countries: Rows) -> Rows:
        joined = users.drop("score").join(countries, how="inner", on=["country"])
        return joined.drop("country")


@dataset(index=True)
class FreshlyRated:
    """Users with the rate of their country, unless it was old when their row came."""

    uid: int = field(key=True)
    country: str
    rate: Optional[float]
    at: datetime

    @pipeline
    @inputs(Users, Countries)
    def freshly_rated(cls, users: Rows, countries: Rows) -> Rows:
        return users.drop("score").join(countries, how="left", on=["country"], within=("5s", "0s"))


@dataset(index=True)
class RatedAround:
    """Users whose country has a rate from shortly before or after their row, or from later."""

    uid: int = field(key=True)
    rate: float
    at: datetime

    @pipeline
    @inputs(Users, Countries)
    def rated_around(cls, users: Rows, countries: Rows) -> Rows:
        joined = users.drop("score").join(
            countries, how="inner", on=["country"], within=("2s", "3s")
        )
        return joined.drop("country")


@dataset(index=True)
class SpentWhere:
    """The sum spent in each country."""

    country: str = field(key=True)
    spent: float
    at: datetime

    @pipeline
    @inputs(Orders, Users)
    def spent_where(cls, orders: Rows, users: Rows) -> Rows:
        return (
            orders.dropnull("amount")
            .join(users, how="inner", on=["uid"], fields=["country"])
            .groupby("country")
            .aggregate(spent=Sum(of="amount", window=Continuous("forever")))
        )


_USER = (
    row(Users, 1, "fr", 1, 10 * S),
    row(Users, 1, "de", 2, 20 * S),
    delete(Users, 1, 30 * S),
)

CASES: tuple[ConformanceCase, ...] = (
    case(
        "a left join gives each row the right row as of its instant, and null where there is none",
        [Orders, Users, Enriched],
        [
            *_USER,
            row(Orders, 1, "before", 1.0, 10 * S - 1),
            row(Orders, 1, "at once", 1.0, 10 * S),
            row(Orders, 1, "between", 1.0, 20 * S - 1),
            row(Orders, 1, "after", 1.0, 20 * S),
            row(Orders, 2, "other", 1.0, 25 * S),
        ],
        holds(
            Enriched,
            (1, "before", None, None, 10 * S - 1),
            (1, "at once", "fr", 1, 10 * S),
            (1, "between", "fr", 1, 20 * S - 1),
            (1, "after", "de", 2, 20 * S),
            (2, "other", None, None, 25 * S),
        ),
    ),
    case(
        "a deleted right row does not join",
        [Orders, Users, Enriched, Known],
        [
            *_USER,
            row(Orders, 1, "a", 1.0, 30 * S - 1),
            row(Orders, 1, "b", 1.0, 30 * S),
        ],
        holds(Enriched, (1, "a", "de", 2, 30 * S - 1), (1, "b", None, None, 30 * S)),
        holds(Known, (1, "a", "de", 30 * S - 1)),
    ),
    case(
        "an inner join drops rows without a match",
        [Orders, Users, Known],
        [*_USER, row(Orders, 1, "a", 1.0, 9 * S), row(Orders, 1, "b", 1.0, 10 * S)],
        holds(Known, (1, "b", "fr", 10 * S)),
    ),
    case(
        "a join with nothing on the right gives nulls, or nothing",
        [Orders, Users, Enriched, Known],
        [row(Orders, 1, "a", 1.0, 10 * S)],
        holds(Enriched, (1, "a", None, None, 10 * S)),
        holds(Known),
    ),
    case(
        "within a bound the newest right row counts, and it must not be older; ends inclusive",
        [Orders, Users, Fresh],
        [
            row(Users, 1, "fr", 1, 10 * S),
            row(Orders, 1, "near", 1.0, 15 * S),
            row(Orders, 1, "far", 1.0, 15 * S + 1),
        ],
        holds(Fresh, (1, "near", "fr", 15 * S)),
    ),
    case(
        "within a bound a delete hides the older row that would have matched",
        [Orders, Users, Fresh],
        [
            row(Users, 1, "fr", 1, 10 * S),
            delete(Users, 1, 12 * S),
            row(Orders, 1, "a", 1.0, 11 * S),
            row(Orders, 1, "b", 1.0, 13 * S),
        ],
        holds(Fresh, (1, "a", "fr", 11 * S)),
    ),
    case(
        "within a high bound right rows from after the row count; it keeps its own instant",
        [Orders, Users, Around],
        [
            row(Users, 1, "fr", 1, 10 * S),
            row(Users, 1, "de", 1, 16 * S),
            row(Orders, 1, "low end", 1.0, 12 * S),
            row(Orders, 1, "too late", 1.0, 12 * S + 1),
            row(Orders, 1, "high end", 1.0, 13 * S),
            row(Orders, 1, "inside", 1.0, 14 * S),
            row(Orders, 1, "ahead", 1.0, 7 * S),
            row(Orders, 1, "too early", 1.0, 7 * S - 1),
        ],
        holds(
            Around,
            (1, "too early", None, None, 7 * S - 1),
            (1, "ahead", "fr", 10 * S, 7 * S),
            (1, "low end", "fr", 10 * S, 12 * S),
            (1, "too late", None, None, 12 * S + 1),
            (1, "high end", "de", 16 * S, 13 * S),
            (1, "inside", "de", 16 * S, 14 * S),
        ),
    ),
    case(
        "a right row that arrives late changes the joined rows that come after it",
        [Orders, Users, Enriched],
        [
            row(Orders, 1, "a", 1.0, 15 * S),
            row(Users, 1, "fr", 1, 10 * S),
            row(Users, 1, "es", 9, 12 * S),
        ],
        holds(Enriched, (1, "a", "es", 9, 15 * S)),
    ),
    case(
        "a late right row moves what was summed to another group, and its first group never was",
        [Orders, Users, SpentWhere],
        [
            row(Users, 1, "fr", 1, 10 * S),
            row(Orders, 1, "a", 5.0, 15 * S),
            row(Orders, 2, "b", 7.0, 16 * S),
            row(Users, 2, "fr", 1, 10 * S),
            row(Users, 1, "es", 9, 12 * S),
        ],
        found(SpentWhere, "es", at=20 * S, gives=[5.0]),
        found(SpentWhere, "fr", at=20 * S, gives=[7.0]),
        missing(SpentWhere, "fr", at=15 * S),
        missing(SpentWhere, "de", at=20 * S),
    ),
    case(
        "a late delete of a right row takes what was summed out of the group that it named",
        [Orders, Users, SpentWhere],
        [
            row(Users, 1, "fr", 1, 10 * S),
            row(Orders, 1, "a", 5.0, 15 * S),
            row(Orders, 2, "b", 7.0, 16 * S),
            row(Users, 2, "fr", 1, 10 * S),
            delete(Users, 1, 12 * S),
        ],
        found(SpentWhere, "fr", at=20 * S, gives=[7.0]),
        missing(SpentWhere, "fr", at=15 * S),
    ),
    case(
        "two keyed datasets are joined interval by interval",
        [Users, Countries, Rated, Living],
        [
            row(Users, 1, "fr", 1, 10 * S),
            row(Users, 1, "de", 1, 30 * S),
            delete(Users, 1, 50 * S),
            row(Countries, "fr", 0.5, 20 * S),
            row(Countries, "de", 0.25, 5 * S),
            row(Countries, "fr", 0.75, 35 * S),
            delete(Countries, "de", 40 * S),
        ],
        holds(
            Rated,
            (1, "fr", None, 10 * S),
            (1, "fr", 0.5, 20 * S),
            (1, "de", 0.25, 30 * S),
            (1, "de", None, 40 * S),
            (1, 50 * S),
        ),
        holds(
            Living,
            (1, 0.5, 20 * S),
            (1, 0.25, 30 * S),
            (1, 40 * S),
        ),
        missing(Living, 1, at=20 * S - 1),
        found(Living, 1, at=30 * S - 1, gives=[0.5]),
        missing(Living, 1, at=45 * S),
        found(Rated, 1, at=45 * S, gives=["de", None]),
        missing(Rated, 1, at=50 * S),
    ),
    case(
        "a keyed row within a bound is joined with a right row that is not older; ends inclusive",
        [Users, Countries, FreshlyRated],
        [
            row(Countries, "fr", 0.5, 10 * S),
            row(Users, 1, "fr", 1, 15 * S),
            row(Users, 2, "fr", 1, 15 * S + 1),
            row(Countries, "fr", 0.75, 40 * S),
            row(Users, 2, "fr", 2, 42 * S),
            row(Users, 2, "fr", 3, 50 * S),
        ],
        holds(
            FreshlyRated,
            (1, "fr", 0.5, 15 * S),
            (2, "fr", None, 15 * S + 1),
            (1, "fr", 0.75, 40 * S),
            (2, "fr", 0.75, 40 * S),
            (2, "fr", 0.75, 42 * S),
            (2, "fr", None, 50 * S),
        ),
        found(FreshlyRated, 1, at=1000 * S, gives=["fr", 0.75]),
    ),
    case(
        "a keyed row within a bound is joined with a late right row that is not older",
        [Users, Countries, FreshlyRated],
        [
            row(Countries, "fr", 0.5, 5 * S),
            row(Users, 1, "fr", 1, 15 * S),
            row(Countries, "fr", 0.75, 12 * S),
            delete(Countries, "fr", 14 * S),
            row(Users, 2, "fr", 1, 13 * S),
        ],
        holds(
            FreshlyRated, (2, "fr", 0.75, 13 * S), (2, "fr", None, 14 * S), (1, "fr", None, 15 * S)
        ),
    ),
    case(
        "a keyed row within a high bound is joined with right rows from after it, and with later",
        [Users, Countries, RatedAround],
        [
            row(Users, 1, "fr", 1, 10 * S),
            row(Countries, "fr", 0.5, 12 * S),
            row(Countries, "fr", 0.75, 13 * S),
            row(Countries, "fr", 1.0, 14 * S),
            row(Users, 1, "de", 1, 20 * S),
            row(Countries, "de", 0.25, 17 * S),
            row(Countries, "de", 0.5, 30 * S),
            delete(Users, 1, 40 * S),
        ],
        holds(
            RatedAround,
            (1, 0.75, 10 * S),
            (1, 1.0, 14 * S),
            (1, 20 * S),
            (1, 0.5, 30 * S),
            (1, 40 * S),
        ),
    ),
    case(
        "of changes on both sides at one instant of a keyed join both hold from then on",
        [Users, Countries, Rated],
        [
            row(Users, 1, "fr", 1, 10 * S),
            row(Countries, "fr", 0.5, 10 * S),
            row(Users, 1, "de", 1, 20 * S),
            row(Countries, "de", 0.25, 20 * S),
            delete(Countries, "fr", 20 * S),
        ],
        holds(Rated, (1, "fr", 0.5, 10 * S), (1, "de", 0.25, 20 * S)),
    ),
    case(
        "a delete of a right row that never was makes no version of a keyed join",
        [Users, Countries, Rated],
        [
            row(Users, 1, "fr", 1, 10 * S),
            delete(Countries, "fr", 20 * S),
            delete(Countries, "fr", 25 * S),
            row(Countries, "fr", 0.5, 30 * S),
            delete(Countries, "fr", 40 * S),
            delete(Countries, "fr", 45 * S),
        ],
        holds(
            Rated,
            (1, "fr", None, 10 * S),
            (1, "fr", 0.5, 30 * S),
            (1, "fr", None, 40 * S),
        ),
    ),
)

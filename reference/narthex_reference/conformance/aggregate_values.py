# mypy: disable-error-code="call-overload, assignment"
"""Cases of every aggregate: nulls, ties, defaults, groups that empty and groups never seen."""

from datetime import datetime
from typing import Optional

from narthex._sdk.datasets import Rows
from narthex.datasets import (
    Average,
    Count,
    Distinct,
    ExpDecaySum,
    FirstK,
    LastK,
    Max,
    Min,
    Quantile,
    Stddev,
    Sum,
    dataset,
    field,
    pipeline,
)
from narthex.dtypes import Continuous
from narthex.lib import inputs
from narthex_reference.conformance import corrected_shop as corrected
from narthex_reference.conformance.case import (
    SECOND,
    ConformanceCase,
    case,
    delete,
    found,
    missing,
    row,
)
from narthex_reference.conformance.shop import Orders, Users

S = SECOND
FOREVER = Continuous("forever")
TEN = Continuous("10s")


@dataset(index=True)
class Numbers:
    """The aggregates of numbers."""

    uid: int = field(key=True)
    total: float
    mean: float
    mean_or_null: Optional[float]
    least: float
    greatest: Optional[float]
    spread: float
    median: float
    greatest_but: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders)
    def numbers(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(
            total=Sum(of="amount", window=TEN),
            mean=Average(of="amount", window=TEN, default=-7.0),
            mean_or_null=Average(of="amount", window=TEN, default=None),
            least=Min(of="amount", window=TEN, default=99.0),
            greatest=Max(of="amount", window=TEN),
            spread=Stddev(of="amount", window=TEN),
            median=Quantile(of="amount", p=0.5, window=TEN, default=-3.0, approx=True),
            greatest_but=Quantile(of="amount", p=1.0, window=TEN, approx=True),
        )


@dataset(index=True)
class Lists:
    """The aggregates that count or list values."""

    uid: int = field(key=True)
    rows: int
    present: int
    kinds: int
    last: list[Optional[float]]
    last_kinds: list[str]
    first: list[str]
    first_kinds: list[str]
    first_present: list[float]
    all_kinds: list[str]
    at: datetime

    @pipeline
    @inputs(Orders)
    def lists(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(
            rows=Count(window=TEN),
            present=Count(of="amount", dropnull=True, window=TEN),
            kinds=Count(of="sku", unique=True, approx=True, window=TEN),
            last=LastK(of="amount", limit=2, dedup=False, window=TEN),
            last_kinds=LastK(of="sku", limit=2, dedup=True, window=TEN),
            first=FirstK(of="sku", limit=3, dedup=False, dropnull=False, window=TEN),
            first_kinds=FirstK(of="sku", limit=3, dedup=True, dropnull=False, window=TEN),
            first_present=FirstK(of="amount", limit=2, dedup=False, dropnull=True, window=TEN),
            all_kinds=Distinct(of="sku", unordered=True, window=TEN),
        )


@dataset(index=True)
class Decaying:
    """The decayed sums of each user."""

    uid: int = field(key=True)
    heat: float
    at: datetime

    @pipeline
    @inputs(Orders)
    def heat_of(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(
            heat=ExpDecaySum(of="amount", half_life="10s", window=FOREVER)
        )


@dataset(index=True)
class Population:
    """The number of users in each country, and aggregates of their scores."""

    country: str = field(key=True)
    users: int
    score: int
    best: Optional[int]
    worst: int
    newest: list[Optional[int]]
    oldest: list[int]
    scores: list[int]
    at: datetime

    @pipeline
    @inputs(Users)
    def population(cls, users: Rows) -> Rows:
        return users.groupby("country").aggregate(
            users=Count(window=FOREVER),
            score=Sum(of="score", window=FOREVER),
            best=Max(of="score", window=FOREVER),
            worst=Min(of="score", window=FOREVER, default=-1),
            newest=LastK(of="score", limit=2, dedup=False, window=FOREVER),
            oldest=FirstK(of="score", limit=1, dedup=False, dropnull=True, window=FOREVER),
            scores=Distinct(of="score", unordered=True, dropnull=True, window=FOREVER),
        )


@dataset(index=True)
class RecentPopulation:
    """The number of users of each country with a row in the last ten seconds."""

    country: str = field(key=True)
    users: int
    at: datetime

    @pipeline
    @inputs(Users)
    def population(cls, users: Rows) -> Rows:
        return users.groupby("country").aggregate(users=Count(window=TEN))


_EMPTY_NUMBERS = (0.0, -7.0, None, 99.0, None, -1.0, -3.0, None)
_EMPTY_LISTS = (0, 0, 0, (), (), (), (), (), ())
_EMPTY_POPULATION = (0, 0, None, -1, (), (), ())

CASES: tuple[ConformanceCase, ...] = (
    case(
        "numbers skip nulls; zero is a value",
        [Orders, Numbers],
        [
            row(Orders, 1, "a", 4.0, 10 * S),
            row(Orders, 1, "b", None, 11 * S),
            row(Orders, 1, "c", 0.0, 12 * S),
            row(Orders, 1, "d", 2.0, 13 * S),
        ],
        found(
            Numbers,
            1,
            at=13 * S,
            gives=[6.0, 2.0, 2.0, 0.0, 4.0, 1.6329931618554521, 2.0, 4.0],
        ),
        found(Numbers, 1, at=10 * S, gives=[4.0, 4.0, 4.0, 4.0, 4.0, 0.0, 4.0, 4.0]),
    ),
    case(
        "numbers over nulls only are those of nothing: zero or the default",
        [Orders, Numbers],
        [row(Orders, 1, "a", None, 10 * S)],
        found(Numbers, 1, at=10 * S, gives=_EMPTY_NUMBERS),
    ),
    case(
        "a window that has emptied is found, with its empty value; a key never seen is not",
        [Orders, Numbers, Lists],
        [row(Orders, 1, "a", 4.0, 10 * S)],
        found(Numbers, 1, at=20 * S, gives=[4.0, 4.0, 4.0, 4.0, 4.0, 0.0, 4.0, 4.0]),
        found(Numbers, 1, at=20 * S + 1, gives=_EMPTY_NUMBERS),
        found(Lists, 1, at=20 * S + 1, gives=_EMPTY_LISTS),
        missing(Numbers, 1, at=10 * S - 1),
        missing(Numbers, 2, at=10 * S),
        missing(Lists, 2, at=10 * S),
    ),
    case(
        "lists are by event time, and at one instant by place in the source; nulls are kept",
        [Orders, Lists],
        [
            row(Orders, 1, "b", None, 11 * S),
            row(Orders, 1, "a", 1.0, 11 * S),
            row(Orders, 1, "b", 2.0, 10 * S),
            row(Orders, 1, "c", 3.0, 12 * S),
            row(Orders, 1, "b", 4.0, 11 * S),
        ],
        found(
            Lists,
            1,
            at=12 * S,
            gives=[
                5,
                4,
                3,
                (3.0, 4.0),
                ("c", "b"),
                ("b", "b", "a"),
                ("b", "a", "c"),
                (2.0, 1.0),
                ("b", "a", "c"),
            ],
        ),
        found(
            Lists,
            1,
            at=11 * S,
            gives=[
                4,
                3,
                2,
                (4.0, 1.0),
                ("b", "a"),
                ("b", "b", "a"),
                ("b", "a"),
                (2.0, 1.0),
                ("b", "a"),
            ],
        ),
    ),
    case(
        "a sum decays by the microsecond, to the instant of the question",
        [Orders, Decaying],
        [
            row(Orders, 1, "a", 8.0, 10 * S),
            row(Orders, 1, "b", None, 12 * S),
            row(Orders, 1, "c", 2.0, 20 * S),
        ],
        found(Decaying, 1, at=10 * S, gives=[8.0]),
        found(Decaying, 1, at=15 * S, gives=[8.0 * 2.0**-0.5]),
        found(Decaying, 1, at=20 * S, gives=[6.0]),
        found(Decaying, 1, at=30 * S, gives=[3.0]),
        missing(Decaying, 1, at=10 * S - 1),
    ),
    case(
        "an update of a keyed row takes its old values back",
        [Users, Population],
        [
            row(Users, 1, "fr", 5, 10 * S),
            row(Users, 2, "fr", 3, 11 * S),
            row(Users, 1, "fr", 4, 20 * S),
            row(Users, 2, "fr", None, 30 * S),
        ],
        found(Population, "fr", at=11 * S, gives=[2, 8, 5, 3, (3, 5), (5,), (5, 3)]),
        found(Population, "fr", at=20 * S, gives=[2, 7, 4, 3, (4, 3), (3,), (3, 4)]),
        found(Population, "fr", at=30 * S, gives=[2, 4, 4, 4, (None, 4), (4,), (4,)]),
        found(Population, "fr", at=20 * S - 1, gives=[2, 8, 5, 3, (3, 5), (5,), (5, 3)]),
    ),
    case(
        "a keyed row whose group key changed leaves its old group, which is found empty then",
        [Users, Population],
        [row(Users, 1, "fr", 5, 10 * S), row(Users, 1, "de", 5, 20 * S)],
        found(Population, "fr", at=20 * S - 1, gives=[1, 5, 5, 5, (5,), (5,), (5,)]),
        found(Population, "fr", at=20 * S, gives=_EMPTY_POPULATION),
        found(Population, "de", at=20 * S, gives=[1, 5, 5, 5, (5,), (5,), (5,)]),
        missing(Population, "de", at=20 * S - 1),
        missing(Population, "es", at=20 * S),
    ),
    case(
        "a deleted keyed row leaves its group from its instant on, and may come back",
        [Users, Population],
        [
            row(Users, 1, "fr", 0, 10 * S),
            delete(Users, 1, 20 * S),
            row(Users, 1, "fr", 0, 30 * S),
        ],
        found(Population, "fr", at=10 * S, gives=[1, 0, 0, 0, (0,), (0,), (0,)]),
        found(Population, "fr", at=20 * S, gives=_EMPTY_POPULATION),
        found(Population, "fr", at=30 * S, gives=[1, 0, 0, 0, (0,), (0,), (0,)]),
    ),
    case(
        "a group that existed only through a row replaced at its own instant never existed",
        [Users, Population],
        [row(Users, 1, "fr", 5, 10 * S), row(Users, 1, "de", 5, 10 * S)],
        missing(Population, "fr", at=99 * S),
        found(Population, "de", at=99 * S, gives=[1, 5, 5, 5, (5,), (5,), (5,)]),
    ),
    case(
        "a row replaced at its own instant never counted",
        [Users, Population],
        [
            row(Users, 1, "fr", 5, 10 * S),
            row(Users, 2, "fr", 7, 9 * S),
            row(Users, 1, "fr", 1, 10 * S),
        ],
        found(Population, "fr", at=10 * S, gives=[2, 8, 7, 1, (1, 7), (7,), (7, 1)]),
    ),
    case(
        "a finite window over keyed rows counts those that are current and recent",
        [Users, RecentPopulation],
        [
            row(Users, 1, "fr", 5, 10 * S),
            row(Users, 2, "fr", 5, 12 * S),
            row(Users, 1, "de", 5, 15 * S),
        ],
        found(RecentPopulation, "fr", at=14 * S, gives=[2]),
        found(RecentPopulation, "fr", at=15 * S, gives=[1]),
        found(RecentPopulation, "fr", at=22 * S, gives=[1]),
        found(RecentPopulation, "fr", at=22 * S + 1, gives=[0]),
        found(RecentPopulation, "de", at=25 * S, gives=[1]),
        found(RecentPopulation, "de", at=25 * S + 1, gives=[0]),
    ),
    case(
        "a correction of a row that is the least, the greatest, the first and the last is made",
        [corrected.Receipts, corrected.Orders, Numbers, Lists],
        [
            row(corrected.Receipts, 1, 1, "a", 9.0, 10 * S),
            row(corrected.Receipts, 2, 1, "b", 5.0, 11 * S),
            row(corrected.Receipts, 3, 1, "c", 1.0, 12 * S),
            row(corrected.Receipts, 1, 1, "y", 6.0, 10 * S),
            row(corrected.Receipts, 3, 1, "z", 6.0, 12 * S),
        ],
        found(
            Numbers,
            1,
            at=12 * S,
            gives=[
                17.0,
                17.0 / 3,
                17.0 / 3,
                5.0,
                6.0,
                0.4714045207910317,
                6.0,
                6.0,
            ],
        ),
        found(
            Lists,
            1,
            at=12 * S,
            gives=[
                3,
                3,
                3,
                (6.0, 5.0),
                ("z", "b"),
                ("y", "b", "z"),
                ("y", "b", "z"),
                (6.0, 5.0),
                ("y", "b", "z"),
            ],
        ),
    ),
)

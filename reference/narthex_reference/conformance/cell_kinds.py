# mypy: disable-error-code="call-overload, assignment, valid-type, type-arg"
"""Cases of kinds of cells: spans as keys, keys of several columns, decimals, days, instants."""

from datetime import date, datetime
from typing import Optional

from narthex._sdk.datasets import Rows
from narthex.connectors import source
from narthex.datasets import (
    Average,
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
from narthex.dtypes import Continuous, Decimal, Window
from narthex.lib import inputs
from narthex_reference.conformance.case import (
    SECOND,
    ConformanceCase,
    case,
    found,
    holds,
    missing,
    row,
)
from narthex_reference.conformance.shop import Orders, webhook
from narthex_reference.conformance.windowed_groups import FinalTens

S = SECOND
FOREVER = Continuous("forever")


@source(webhook.endpoint("visits"), disorder="1d", cdc="append")
@dataset
class Visits:
    """A row in a case is (uid, window, at)."""

    uid: int
    window: Window
    at: datetime


@dataset
class BusyVisits:
    """Visits with the number of orders in their span."""

    uid: int
    window: Window
    n: Optional[int]
    at: datetime

    @pipeline
    @inputs(Visits, FinalTens)
    def busy(cls, visits: Rows, tens: Rows) -> Rows:
        return visits.join(tens, how="left", on=["uid", "window"])


@source(webhook.endpoint("prices"), disorder="1d", cdc="append")
@dataset
class Prices:
    """A row in a case is (sku, sold, price, day, seen, at)."""

    sku: str
    sold: bool
    price: Optional[Decimal[2]]
    day: date
    seen: datetime
    at: datetime = field(timestamp=True)


@dataset(index=True)
class PriceFacts:
    """Aggregates of prices, by item and whether it was sold."""

    sku: str = field(key=True)
    sold: bool = field(key=True)
    total: Decimal[2]
    mean: float
    spread: float
    middle: Optional[float]
    least: Decimal[2]
    first_day: Optional[date]
    last_seen: Optional[datetime]
    days: list[date]
    at: datetime

    @pipeline
    @inputs(Prices)
    def facts(cls, prices: Rows) -> Rows:
        return prices.groupby("sku", "sold").aggregate(
            total=Sum(of="price", window=FOREVER),
            mean=Average(of="price", window=FOREVER),
            spread=Stddev(of="price", window=FOREVER),
            middle=Quantile(of="price", p=0.5, window=FOREVER, approx=True),
            least=Min(of="price", window=FOREVER, default=3),
            first_day=Min(of="day", window=FOREVER),
            last_seen=Max(of="seen", window=FOREVER),
            days=LastK(of="day", limit=9, dedup=False, window=FOREVER),
        )


@dataset(index=True)
class SoldPrices:
    """The newest price of each item; its keys have another order than the grouping."""

    sold: bool = field(key=True)
    sku: str = field(key=True)
    day: date
    at: datetime

    @pipeline
    @inputs(Prices)
    def latest(cls, prices: Rows) -> Rows:
        return prices.drop("price", "seen").groupby("sku", "sold").latest()


CASES: tuple[ConformanceCase, ...] = (
    case(
        "the key of a dataset is its fields, in its own order",
        [Prices, SoldPrices],
        [row(Prices, "a", True, None, 3, 7 * S, 10 * S)],
        holds(SoldPrices, (True, "a", 3, 10 * S)),
        found(SoldPrices, True, "a", at=10 * S, gives=[3]),
    ),
    case(
        "a span is a key that can be joined on",
        [Orders, FinalTens, Visits, BusyVisits],
        [
            row(Orders, 1, "a", 1.0, 3 * S),
            row(Orders, 1, "b", 1.0, 4 * S),
            row(Visits, 1, {"begin": 0, "end": 10 * S}, 10 * S - 1),
            row(Visits, 1, {"begin": 0, "end": 10 * S}, 10 * S),
            row(Visits, 1, {"begin": 10 * S, "end": 20 * S}, 20 * S),
        ],
        holds(
            BusyVisits,
            (1, {"begin": 0, "end": 10 * S}, None, 10 * S - 1),
            (1, {"begin": 0, "end": 10 * S}, 2, 10 * S),
            (1, {"begin": 10 * S, "end": 20 * S}, None, 20 * S),
        ),
    ),
    case(
        "decimals, days and instants aggregate as what they are; a group may have two columns",
        [Prices, PriceFacts],
        [
            row(Prices, "a", True, 150, 3, 7 * S, 10 * S),
            row(Prices, "a", True, 250, 2, 6 * S, 11 * S),
            row(Prices, "a", True, None, 4, 5 * S, 12 * S),
            row(Prices, "a", False, None, 9, 8 * S, 12 * S),
        ],
        found(
            PriceFacts,
            "a",
            True,
            at=12 * S,
            gives=[400, 2.0, 0.5, 2.5, 150, 2, 7 * S, (4, 2, 3)],
        ),
        found(PriceFacts, "a", False, at=12 * S, gives=[0, 0.0, -1.0, None, 300, 9, 8 * S, (9,)]),
        missing(PriceFacts, "b", True, at=12 * S),
    ),
)

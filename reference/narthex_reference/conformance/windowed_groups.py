# mypy: disable-error-code="call-overload, assignment"
"""Cases of groups with a window: each span of a group is a separate group."""

from datetime import datetime

from narthex._ir import Cell
from narthex._sdk.datasets import Rows
from narthex.datasets import Count, ExpDecaySum, LastK, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous, Hopping, Session, Tumbling, Window
from narthex.lib import inputs
from narthex_reference.conformance import corrected_shop as corrected
from narthex_reference.conformance.case import (
    SECOND,
    ConformanceCase,
    case,
    found,
    holds,
    missing,
    row,
)
from narthex_reference.conformance.shop import Orders

S = SECOND


@dataset(index=True)
class Tens:
    """Orders in each ten seconds."""

    uid: int = field(key=True)
    window: Window = field(key=True)
    n: int
    spent: float
    at: datetime

    @pipeline
    @inputs(Orders)
    def tens(cls, orders: Rows) -> Rows:
        return orders.groupby("uid", window=Tumbling("10s")).aggregate(
            n=Count(), spent=Sum(of="amount"), emit="eager"
        )


@dataset(index=True)
class FinalTens:
    """Orders in each ten seconds, emitted when the span is over."""

    uid: int = field(key=True)
    window: Window = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def tens(cls, orders: Rows) -> Rows:
        return orders.groupby("uid", window=Tumbling("10s")).aggregate(n=Count())


@dataset(index=True)
class Hops:
    """Orders in each twenty seconds that begin every ten."""

    uid: int = field(key=True)
    window: Window = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def hops(cls, orders: Rows) -> Rows:
        return orders.groupby("uid", window=Hopping("20s", "10s")).aggregate(
            n=Count(), emit="eager"
        )


@dataset(index=True)
class Sessions:
    """Runs of orders."""

    uid: int = field(key=True)
    window: Window = field(key=True)
    n: int
    skus: list[str]
    at: datetime

    @pipeline
    @inputs(Orders)
    def sessions(cls, orders: Rows) -> Rows:
        return orders.groupby("uid", window=Session("5s")).aggregate(
            n=Count(), skus=LastK(of="sku", limit=2, dedup=False)
        )


@dataset(index=True)
class FinalSessions:
    """Runs of orders, emitted when they are over."""

    uid: int = field(key=True)
    window: Window = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def sessions(cls, orders: Rows) -> Rows:
        return orders.groupby("uid", window=Session("5s")).aggregate(n=Count(), emit="final")


@dataset(index=True)
class BareTens:
    """The tens of seconds in which there were orders."""

    uid: int = field(key=True)
    window: Window = field(key=True)
    at: datetime

    @pipeline
    @inputs(Orders)
    def tens(cls, orders: Rows) -> Rows:
        return orders.groupby("uid", window=Tumbling("10s", lookback="3s")).aggregate(emit="eager")


@dataset(index=True)
class FinalTensLater:
    """Orders in each ten seconds, emitted three seconds after the span is over."""

    uid: int = field(key=True)
    window: Window = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def tens(cls, orders: Rows) -> Rows:
        return orders.groupby("uid", window=Tumbling("10s", lookback="3s")).aggregate(
            n=Count(), emit="final"
        )


@dataset(index=True)
class DecayingTens:
    """The decayed sum of each ten seconds, as of three seconds ago."""

    uid: int = field(key=True)
    window: Window = field(key=True)
    heat: float
    at: datetime

    @pipeline
    @inputs(Orders)
    def tens(cls, orders: Rows) -> Rows:
        return orders.groupby("uid", window=Tumbling("10s", lookback="3s")).aggregate(
            heat=ExpDecaySum(of="amount", half_life="5s")
        )


@dataset(index=True)
class HowManySessions:
    """How many runs of orders there are, and how many orders in them."""

    uid: int = field(key=True)
    sessions: int
    orders: int
    at: datetime

    @pipeline
    @inputs(Sessions)
    def how_many(cls, sessions: Rows) -> Rows:
        return sessions.groupby("uid").aggregate(
            sessions=Count(window=Continuous("forever")),
            orders=Sum(of="n", window=Continuous("forever")),
        )


def _span(begin: int, end: int) -> Cell:
    return {"begin": begin, "end": end}


CASES: tuple[ConformanceCase, ...] = (
    case(
        "each span is a group of its own, which each row changes at once",
        [Orders, Tens],
        [
            row(Orders, 1, "a", 1.0, 3 * S),
            row(Orders, 1, "b", 2.0, 10 * S - 1),
            row(Orders, 1, "c", 4.0, 10 * S),
            row(Orders, 2, "d", None, 3 * S),
        ],
        missing(Tens, 1, _span(0, 10 * S), at=3 * S - 1),
        found(Tens, 1, _span(0, 10 * S), at=3 * S, gives=[1, 1.0]),
        found(Tens, 1, _span(0, 10 * S), at=10 * S - 1, gives=[2, 3.0]),
        found(Tens, 1, _span(0, 10 * S), at=900 * S, gives=[2, 3.0]),
        missing(Tens, 1, _span(10 * S, 20 * S), at=10 * S - 1),
        found(Tens, 1, _span(10 * S, 20 * S), at=10 * S, gives=[1, 4.0]),
        found(Tens, 2, _span(0, 10 * S), at=900 * S, gives=[1, 0.0]),
        missing(Tens, 2, _span(10 * S, 20 * S), at=900 * S),
        missing(Tens, 1, _span(0, 20 * S), at=900 * S),
    ),
    case(
        "with final values a span shows when it has ended, with its end as its instant",
        [Orders, FinalTens],
        [
            row(Orders, 1, "a", 1.0, 3 * S),
            row(Orders, 1, "b", 2.0, 9 * S),
            row(Orders, 1, "c", 4.0, 10 * S),
        ],
        missing(FinalTens, 1, _span(0, 10 * S), at=10 * S - 1),
        found(FinalTens, 1, _span(0, 10 * S), at=10 * S, gives=[2]),
        missing(FinalTens, 1, _span(10 * S, 20 * S), at=20 * S - 1),
        holds(
            FinalTens,
            (1, _span(0, 10 * S), 2, 10 * S),
            (1, _span(10 * S, 20 * S), 1, 20 * S),
        ),
    ),
    case(
        "a late row changes a span that had ended, final or not",
        [Orders, Tens, FinalTens],
        [
            row(Orders, 1, "a", 1.0, 3 * S),
            row(Orders, 1, "z", 1.0, 900 * S),
            row(Orders, 1, "late", 2.0, 5 * S),
        ],
        found(Tens, 1, _span(0, 10 * S), at=10 * S, gives=[2, 3.0]),
        found(FinalTens, 1, _span(0, 10 * S), at=10 * S, gives=[2]),
    ),
    case(
        "a row lies in every hopping span that it falls into",
        [Orders, Hops],
        [row(Orders, 1, "a", 1.0, 13 * S), row(Orders, 1, "b", 1.0, 20 * S)],
        holds(
            Hops,
            (1, _span(0, 20 * S), 1, 13 * S),
            (1, _span(10 * S, 30 * S), 1, 13 * S),
            (1, _span(10 * S, 30 * S), 2, 20 * S),
            (1, _span(20 * S, 40 * S), 1, 20 * S),
        ),
    ),
    case(
        "rows no more than the gap apart are a session, which ends just after its last row",
        [Orders, Sessions],
        [
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 1, "b", 1.0, 15 * S),
            row(Orders, 1, "c", 1.0, 20 * S + 1),
        ],
        found(Sessions, 1, _span(10 * S, 15 * S + 1), at=900 * S, gives=[2, ("b", "a")]),
        found(Sessions, 1, _span(20 * S + 1, 20 * S + 2), at=900 * S, gives=[1, ("c",)]),
        missing(Sessions, 1, _span(10 * S, 10 * S + 1), at=900 * S),
    ),
    case(
        "a longer session replaces the shorter one, which becomes absent",
        [Orders, Sessions],
        [
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 1, "b", 1.0, 12 * S),
        ],
        found(Sessions, 1, _span(10 * S, 10 * S + 1), at=10 * S, gives=[1, ("a",)]),
        found(Sessions, 1, _span(10 * S, 10 * S + 1), at=12 * S - 1, gives=[1, ("a",)]),
        missing(Sessions, 1, _span(10 * S, 10 * S + 1), at=12 * S),
        found(Sessions, 1, _span(10 * S, 12 * S + 1), at=12 * S, gives=[2, ("b", "a")]),
        holds(
            Sessions,
            (1, _span(10 * S, 10 * S + 1), 1, ("a",), 10 * S),
            (1, _span(10 * S, 10 * S + 1), 12 * S),
            (1, _span(10 * S, 12 * S + 1), 2, ("b", "a"), 12 * S),
        ),
    ),
    case(
        "a late row between two sessions makes them one, from the instant of the later",
        [Orders, Sessions],
        [
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 1, "c", 1.0, 20 * S),
            row(Orders, 1, "b", 1.0, 15 * S),
        ],
        found(Sessions, 1, _span(10 * S, 15 * S + 1), at=15 * S, gives=[2, ("b", "a")]),
        found(Sessions, 1, _span(10 * S, 20 * S + 1), at=20 * S, gives=[3, ("c", "b")]),
        missing(Sessions, 1, _span(20 * S, 20 * S + 1), at=20 * S),
    ),
    case(
        "a correction that takes a session's middle away makes it two",
        [corrected.Receipts, corrected.Orders, Sessions],
        [
            row(corrected.Receipts, 1, 1, "a", 1.0, 10 * S),
            row(corrected.Receipts, 2, 1, "b", 1.0, 15 * S),
            row(corrected.Receipts, 3, 1, "c", 1.0, 20 * S),
            row(corrected.Receipts, 2, 2, "b", 1.0, 15 * S),
        ],
        missing(Sessions, 1, _span(10 * S, 20 * S + 1), at=900 * S),
        found(Sessions, 1, _span(10 * S, 10 * S + 1), at=900 * S, gives=[1, ("a",)]),
        found(Sessions, 1, _span(20 * S, 20 * S + 1), at=900 * S, gives=[1, ("c",)]),
        found(Sessions, 2, _span(15 * S, 15 * S + 1), at=900 * S, gives=[1, ("b",)]),
    ),
    case(
        "with final values a session shows when no row can join it any more",
        [Orders, FinalSessions],
        [
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 1, "b", 1.0, 12 * S),
        ],
        missing(FinalSessions, 1, _span(10 * S, 10 * S + 1), at=15 * S),
        missing(FinalSessions, 1, _span(10 * S, 12 * S + 1), at=17 * S),
        found(FinalSessions, 1, _span(10 * S, 12 * S + 1), at=17 * S + 1, gives=[2]),
        holds(FinalSessions, (1, _span(10 * S, 12 * S + 1), 2, 17 * S + 1)),
    ),
    case(
        "spans without aggregates are emitted like others, a lookback later",
        [Orders, BareTens],
        [row(Orders, 1, "a", 1.0, 4 * S), row(Orders, 1, "b", 1.0, 12 * S)],
        missing(BareTens, 1, _span(0, 10 * S), at=7 * S - 1),
        found(BareTens, 1, _span(0, 10 * S), at=7 * S, gives=[]),
        missing(BareTens, 1, _span(10 * S, 20 * S), at=15 * S - 1),
        found(BareTens, 1, _span(10 * S, 20 * S), at=15 * S, gives=[]),
    ),
    case(
        "with a lookback a final span shows that much after its end",
        [Orders, FinalTensLater],
        [row(Orders, 1, "a", 8.0, 5 * S)],
        missing(FinalTensLater, 1, _span(0, 10 * S), at=13 * S - 1),
        found(FinalTensLater, 1, _span(0, 10 * S), at=13 * S, gives=[1]),
        holds(FinalTensLater, (1, _span(0, 10 * S), 1, 13 * S)),
    ),
    case(
        "with a lookback a span has decayed to the instant that is looked back to",
        [Orders, DecayingTens],
        [row(Orders, 1, "a", 8.0, 5 * S)],
        missing(DecayingTens, 1, _span(0, 10 * S), at=8 * S - 1),
        found(DecayingTens, 1, _span(0, 10 * S), at=8 * S, gives=[8.0]),
        found(DecayingTens, 1, _span(0, 10 * S), at=13 * S, gives=[4.0]),
        found(DecayingTens, 1, _span(0, 10 * S), at=18 * S, gives=[2.0]),
    ),
    case(
        "sessions that feed an aggregate count in their state at each instant",
        [Orders, Sessions, HowManySessions],
        [
            row(Orders, 1, "a", 1.0, 10 * S),
            row(Orders, 1, "b", 1.0, 12 * S),
            row(Orders, 1, "c", 1.0, 30 * S),
        ],
        found(HowManySessions, 1, at=10 * S, gives=[1, 1]),
        found(HowManySessions, 1, at=12 * S, gives=[1, 2]),
        found(HowManySessions, 1, at=30 * S, gives=[2, 3]),
    ),
    case("groups of nothing are none", [Orders, Tens, Sessions], [], holds(Tens), holds(Sessions)),
)

# mypy: disable-error-code="call-overload, assignment"
"""Cases of datasets with a history: what lookups see, and that pipelines read all rows."""

from datetime import datetime
from typing import Optional

from narthex._sdk.datasets import Rows
from narthex.connectors import Webhook, source
from narthex.datasets import Count, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous, Tumbling, Window
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
webhook = Webhook(name="shop")


@source(webhook.endpoint("visits"), disorder="1d", cdc="upsert")
@dataset(index=True, history="10s")
class Visits:
    """Buyers' last pages, for ten seconds; a row in a case is (uid, page, at)."""

    uid: int = field(key=True)
    page: str
    at: datetime


@dataset(index=True, history="10s")
class Recent:
    """Purchases of ten seconds, and of five of them."""

    uid: int = field(key=True)
    n: int
    five: float
    at: datetime

    @pipeline
    @inputs(Orders)
    def recent(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(
            n=Count(window=Continuous("forever")),
            five=Sum(of="amount", window=Continuous("5s")),
        )


@dataset(index=True, history="10s")
class Newcomers:
    """The number of users of a country whose rows are not older than ten seconds."""

    country: str = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Users)
    def newcomers(cls, users: Rows) -> Rows:
        return users.groupby("country").aggregate(n=Count(window=Continuous("forever")))


@dataset(index=True, history="5s")
class Spans:
    """The number of purchases in each ten seconds, while its last purchase is recent."""

    uid: int = field(key=True)
    window: Window = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def spans(cls, orders: Rows) -> Rows:
        return orders.groupby("uid", window=Tumbling("10s")).aggregate(n=Count())


@dataset
class Seen:
    """Purchases with the last page before them."""

    uid: int
    page: Optional[str]
    at: datetime

    @pipeline
    @inputs(Orders, Visits)
    def seen(cls, orders: Rows, visits: Rows) -> Rows:
        return orders.select("uid").join(visits, how="left", on=["uid"])


CASES: tuple[ConformanceCase, ...] = (
    case(
        "a lookup finds no row that is older than the history, and all rows remain",
        [Visits],
        [
            row(Visits, 1, "home", 10 * S),
            row(Visits, 1, "cart", 100 * S),
        ],
        found(Visits, 1, at=10 * S, gives=["home"]),
        found(Visits, 1, at=20 * S, gives=["home"]),
        missing(Visits, 1, at=20 * S + 1),
        found(Visits, 1, at=110 * S, gives=["cart"]),
        missing(Visits, 1, at=110 * S + 1),
        holds(Visits, (1, "home", 10 * S), (1, "cart", 100 * S)),
    ),
    case(
        "a delete within the history hides the rows before it",
        [Visits],
        [row(Visits, 1, "home", 10 * S), delete(Visits, 1, 12 * S)],
        found(Visits, 1, at=12 * S - 1, gives=["home"]),
        missing(Visits, 1, at=12 * S),
    ),
    case(
        "an aggregate counts no row that is older than the history",
        [Orders, Recent],
        [
            row(Orders, 1, "a", 1.0, 0),
            row(Orders, 1, "b", 2.0, 8 * S),
            row(Orders, 1, "c", 4.0, 10 * S),
        ],
        found(Recent, 1, at=10 * S, gives=[3, 6.0]),
        found(Recent, 1, at=10 * S + 1, gives=[2, 6.0]),
        found(Recent, 1, at=18 * S + 1, gives=[1, 0.0]),
    ),
    case(
        "a group whose rows are all older than the history is not found",
        [Orders, Recent],
        [row(Orders, 1, "a", 1.0, 0)],
        found(Recent, 1, at=10 * S, gives=[1, 0.0]),
        missing(Recent, 1, at=10 * S + 1),
    ),
    case(
        "a keyed row counts while it is current and not older than the history",
        [Users, Newcomers],
        [
            row(Users, 1, "de", None, 0),
            row(Users, 2, "de", None, 5 * S),
            row(Users, 2, "fr", None, 12 * S),
        ],
        found(Newcomers, "de", at=10 * S, gives=[2]),
        found(Newcomers, "de", at=10 * S + 1, gives=[1]),
        found(Newcomers, "de", at=12 * S, gives=[0]),
        found(Newcomers, "de", at=15 * S, gives=[0]),
        missing(Newcomers, "de", at=15 * S + 1),
    ),
    case(
        "a span of a group is as old as its last change",
        [Orders, Spans],
        [row(Orders, 1, "a", 1.0, 2 * S), row(Orders, 1, "b", 2.0, 6 * S)],
        found(Spans, 1, {"begin": 0, "end": 10 * S}, at=6 * S, gives=[2]),
        found(Spans, 1, {"begin": 0, "end": 10 * S}, at=11 * S, gives=[2]),
        missing(Spans, 1, {"begin": 0, "end": 10 * S}, at=11 * S + 1),
    ),
    case(
        "a join finds rows that are older than the history of their dataset",
        [Orders, Visits, Seen],
        [row(Visits, 1, "home", 0), row(Orders, 1, "a", 1.0, 100 * S)],
        holds(Seen, (1, "home", 100 * S)),
    ),
)

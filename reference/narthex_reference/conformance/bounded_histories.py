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
from narthex_reference.conformance.shop import Orders

S = SECOND
webhook = Webhook(name="shop")


@source(webhook.endpoint("visits"), disorder="5s", cdc="upsert")
@dataset(index=True, history="10s")
class Visits:
    """Buyers' last pages, for ten seconds; a row in a case is (uid, page, at)."""

    uid: int = field(key=True)
    page: str
    at: datetime


@source(webhook.endpoint("payments"), disorder="2s", cdc="append")
@dataset
class Payments:
    """Payments; a row in a case is (uid, amount, at)."""

    uid: int
    amount: float
    at: datetime


@source(webhook.endpoint("members"), disorder="0s", cdc="upsert")
@dataset(index=True)
class Members:
    """Members with their country; a row in a case is (uid, country, at)."""

    uid: int = field(key=True)
    country: str
    at: datetime


@dataset(index=True, history="10s")
class Recent:
    """Payments of ten seconds, and of five of them."""

    uid: int = field(key=True)
    n: int
    five: float
    at: datetime

    @pipeline
    @inputs(Payments)
    def recent(cls, payments: Rows) -> Rows:
        return payments.groupby("uid").aggregate(
            n=Count(window=Continuous("forever")),
            five=Sum(of="amount", window=Continuous("5s")),
        )


@dataset(index=True, history="10s")
class Newcomers:
    """The number of members of a country whose rows are not older than ten seconds."""

    country: str = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Members)
    def newcomers(cls, members: Rows) -> Rows:
        return members.groupby("country").aggregate(n=Count(window=Continuous("forever")))


@dataset(index=True, history="5s")
class Spans:
    """The number of payments in each ten seconds, while its last payment is recent."""

    uid: int = field(key=True)
    window: Window = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Payments)
    def spans(cls, payments: Rows) -> Rows:
        return payments.groupby("uid", window=Tumbling("10s")).aggregate(n=Count(), emit="eager")


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


LONG_AFTER = 1_000_000 * S

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
        found(Visits, 1, at=100 * S, gives=["cart"]),
        holds(Visits, (1, "home", 10 * S), (1, "cart", 100 * S)),
    ),
    case(
        "a history ends at the watermark, so that old rows are found long after",
        [Visits],
        [
            row(Visits, 1, "home", 85 * S - 1),
            row(Visits, 2, "home", 85 * S),
            row(Visits, 3, "cart", 100 * S),
        ],
        found(Visits, 1, at=95 * S - 1, gives=["home"]),
        missing(Visits, 1, at=95 * S),
        missing(Visits, 1, at=LONG_AFTER),
        found(Visits, 2, at=95 * S, gives=["home"]),
        found(Visits, 2, at=LONG_AFTER, gives=["home"]),
        found(Visits, 3, at=LONG_AFTER, gives=["cart"]),
    ),
    case(
        "a row of the future does not hide rows that are not older than the history",
        [Visits],
        [row(Visits, 1, "home", 10 * S), row(Visits, 2, "cart", LONG_AFTER)],
        found(Visits, 1, at=20 * S, gives=["home"]),
        missing(Visits, 1, at=20 * S + 1),
    ),
    case(
        "a delete within the history hides the rows before it",
        [Visits],
        [row(Visits, 1, "home", 10 * S), delete(Visits, 1, 12 * S)],
        found(Visits, 1, at=12 * S - 1, gives=["home"]),
        missing(Visits, 1, at=12 * S),
    ),
    case(
        "a delete does not move the watermark, because it is not a row",
        [Visits],
        [
            row(Visits, 1, "home", 10 * S),
            row(Visits, 2, "home", 20 * S),
            delete(Visits, 1, 100 * S),
            row(Visits, 3, "home", 200 * S),
            delete(Visits, 3, 200 * S),
        ],
        found(Visits, 2, at=LONG_AFTER, gives=["home"]),
    ),
    case(
        "an aggregate counts no row that is older than the history",
        [Payments, Recent],
        [
            row(Payments, 1, 1.0, 0),
            row(Payments, 1, 2.0, 8 * S),
            row(Payments, 1, 4.0, 10 * S),
            row(Payments, 2, 1.0, 40 * S),
        ],
        found(Recent, 1, at=10 * S, gives=[3, 6.0]),
        found(Recent, 1, at=10 * S + 1, gives=[2, 6.0]),
        found(Recent, 1, at=18 * S + 1, gives=[1, 0.0]),
    ),
    case(
        "an aggregate counts the rows of the history before the watermark long after",
        [Payments, Recent],
        [
            row(Payments, 1, 1.0, 0),
            row(Payments, 1, 2.0, 8 * S),
            row(Payments, 1, 4.0, 20 * S),
        ],
        found(Recent, 1, at=18 * S, gives=[1, 0.0]),
        found(Recent, 1, at=LONG_AFTER, gives=[2, 0.0]),
    ),
    case(
        "a group whose rows are all older than the history is not found",
        [Payments, Recent],
        [row(Payments, 1, 1.0, 0), row(Payments, 2, 1.0, 13 * S)],
        found(Recent, 1, at=10 * S, gives=[1, 0.0]),
        missing(Recent, 1, at=10 * S + 1),
        missing(Recent, 1, at=LONG_AFTER),
    ),
    case(
        "a keyed row counts while it is current and not older than the history",
        [Members, Newcomers],
        [
            row(Members, 1, "de", 0),
            row(Members, 2, "de", 5 * S),
            row(Members, 2, "fr", 12 * S),
            row(Members, 3, "it", 100 * S),
        ],
        found(Newcomers, "de", at=10 * S, gives=[2]),
        found(Newcomers, "de", at=10 * S + 1, gives=[1]),
        found(Newcomers, "de", at=12 * S, gives=[0]),
        found(Newcomers, "de", at=15 * S, gives=[0]),
        missing(Newcomers, "de", at=15 * S + 1),
        found(Newcomers, "it", at=LONG_AFTER, gives=[1]),
    ),
    case(
        "a span of a group is as old as its last change",
        [Payments, Spans],
        [
            row(Payments, 1, 1.0, 2 * S),
            row(Payments, 1, 2.0, 6 * S),
            row(Payments, 2, 1.0, 40 * S),
        ],
        found(Spans, 1, {"begin": 0, "end": 10 * S}, at=6 * S, gives=[2]),
        found(Spans, 1, {"begin": 0, "end": 10 * S}, at=11 * S, gives=[2]),
        missing(Spans, 1, {"begin": 0, "end": 10 * S}, at=11 * S + 1),
        found(Spans, 2, {"begin": 40 * S, "end": 50 * S}, at=LONG_AFTER, gives=[1]),
    ),
    case(
        "a join finds rows that are older than the history of their dataset",
        [Orders, Visits, Seen],
        [row(Visits, 1, "home", 0), row(Orders, 1, "a", 1.0, 100 * S)],
        holds(Seen, (1, "home", 100 * S)),
    ),
)

# mypy: disable-error-code="call-overload, assignment"
"""Cases of windows of aggregates: which rows count for a lookup, to the microsecond."""

from datetime import datetime
from typing import Optional

from narthex._sdk.datasets import Rows
from narthex.connectors import source
from narthex.datasets import Count, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous, Hopping, Tumbling
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
from narthex_reference.conformance.shop import Orders, Users, webhook

S = SECOND


@dataset(index=True)
class Sliding:
    """Windows that slide with the instant of the lookup."""

    uid: int = field(key=True)
    ten: int
    ever: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def sliding(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(
            ten=Count(window=Continuous("10s")), ever=Count(window=Continuous("forever"))
        )


@dataset(index=True)
class Hourly:
    """The newest whole ten seconds, as of now and as of a while ago."""

    uid: int = field(key=True)
    ten: int
    twenty: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def hourly(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(
            ten=Count(window=Tumbling("10s")),
            twenty=Count(window=Hopping("20s", "10s")),
        )


@dataset(index=True)
class Odd:
    """A window whose length is not a multiple of its stride."""

    uid: int = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def odd(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(n=Count(window=Hopping("15s", "10s")))


@dataset(index=True)
class Earlier:
    """Aggregates as of five seconds ago."""

    uid: int = field(key=True)
    ten: int
    ever: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def earlier(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(
            ten=Count(window=Tumbling("10s", lookback="5s")),
            ever=Count(window=Hopping("forever", "10s", lookback="5s")),
        )


@dataset(index=True)
class Cumulative:
    """The number of all orders so far, updated every ten seconds."""

    uid: int = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def cumulative(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(
            n=Count(window=Hopping("forever", "10s")), emit="final"
        )


@dataset(index=True)
class PopulationThen:
    """The number of users in a country, updated every ten seconds."""

    country: str = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Users)
    def population(cls, users: Rows) -> Rows:
        return users.groupby("country").aggregate(n=Count(window=Hopping("forever", "10s")))


@dataset(index=True)
class Spans:
    """The sum spent in each ten seconds."""

    uid: int = field(key=True)
    spent: float
    at: datetime

    @pipeline
    @inputs(Orders)
    def spans(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(spent=Sum(of="amount", window=Tumbling("10s")))


@dataset(index=True)
class EarlierSpans:
    """The number of orders in the ten seconds that had ended five seconds ago."""

    uid: int = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def spans(cls, orders: Rows) -> Rows:
        return orders.groupby("uid").aggregate(n=Count(window=Tumbling("10s", lookback="5s")))


@dataset
class SpanChanges:
    """Each change of the sum spent in ten seconds."""

    uid: int
    spent: float
    gone: bool
    at: datetime

    @pipeline
    @inputs(Spans)
    def changes(cls, spans: Rows) -> Rows:
        return spans.changelog(delete="gone")


@dataset
class WithSpan:
    """Orders with the sum spent in the ten seconds before."""

    uid: int
    sku: str
    spent: Optional[float]
    at: datetime

    @pipeline
    @inputs(Orders, Spans)
    def with_span(cls, orders: Rows, spans: Rows) -> Rows:
        return orders.drop("amount").join(spans, how="left", on=["uid"])


@source(webhook.endpoint("trips"), disorder="1d", cdc="append")
@dataset
class Trips:
    """A row in a case is (uid, began, at)."""

    uid: int
    began: datetime
    at: datetime = field(timestamp=True)


@dataset(index=True)
class TripsByBegin:
    """Trips counted by when they began."""

    uid: int = field(key=True)
    ten: int
    ever: int
    at: datetime

    @pipeline
    @inputs(Trips)
    def by_begin(cls, trips: Rows) -> Rows:
        return trips.groupby("uid").aggregate(
            ten=Count(window=Continuous("10s")),
            ever=Count(window=Continuous("forever")),
            along="began",
        )


@source(webhook.endpoint("parcels"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Parcels:
    """A row in a case is (parcel, uid, weight, sent, at)."""

    parcel: int = field(key=True)
    uid: int
    weight: int
    sent: datetime
    at: datetime = field(timestamp=True)


@dataset(index=True)
class ParcelsBySent:
    """The weight of parcels by when they were sent, however often they were corrected since."""

    uid: int = field(key=True)
    ten: int
    at: datetime

    @pipeline
    @inputs(Parcels)
    def by_sent(cls, parcels: Rows) -> Rows:
        return parcels.groupby("uid").aggregate(
            ten=Sum(of="weight", window=Tumbling("10s")), along="sent"
        )


_THREE = (
    row(Orders, 1, "a", 1.0, 0),
    row(Orders, 1, "b", 2.0, 5 * S),
    row(Orders, 1, "c", 4.0, 10 * S),
)

CASES: tuple[ConformanceCase, ...] = (
    case(
        "a continuous window counts both its ends",
        [Orders, Sliding],
        [row(Orders, 1, "a", 1.0, 10 * S), row(Orders, 1, "b", 1.0, 20 * S)],
        missing(Sliding, 1, at=10 * S - 1),
        found(Sliding, 1, at=10 * S, gives=[1, 1]),
        found(Sliding, 1, at=20 * S - 1, gives=[1, 1]),
        found(Sliding, 1, at=20 * S, gives=[2, 2]),
        found(Sliding, 1, at=20 * S + 1, gives=[1, 2]),
        found(Sliding, 1, at=30 * S, gives=[1, 2]),
        found(Sliding, 1, at=30 * S + 1, gives=[0, 2]),
    ),
    case(
        "a row dated in the future is invisible until then",
        [Orders, Sliding],
        [row(Orders, 1, "a", 1.0, 10 * S), row(Orders, 1, "b", 1.0, 9_000_000 * S)],
        found(Sliding, 1, at=8_000_000 * S, gives=[0, 1]),
        found(Sliding, 1, at=9_000_000 * S, gives=[1, 2]),
    ),
    case(
        "a discrete window shows when it has ended, and begins with its first instant",
        [Orders, Hourly],
        _THREE,
        missing(Hourly, 1, at=10 * S - 1),
        found(Hourly, 1, at=10 * S, gives=[2, 2]),
        found(Hourly, 1, at=20 * S - 1, gives=[2, 2]),
        found(Hourly, 1, at=20 * S, gives=[1, 3]),
        found(Hourly, 1, at=30 * S, gives=[0, 1]),
        found(Hourly, 1, at=40 * S, gives=[0, 0]),
    ),
    case(
        "a discrete window before the epoch is aligned like those after it",
        [Orders, Hourly],
        [row(Orders, 1, "a", 1.0, -1), row(Orders, 1, "b", 1.0, -10 * S)],
        missing(Hourly, 1, at=-1),
        found(Hourly, 1, at=0, gives=[2, 2]),
        found(Hourly, 1, at=10 * S, gives=[0, 2]),
    ),
    case(
        "a hopping window begins at a multiple of its stride",
        [Orders, Odd],
        [row(Orders, 1, "a", 1.0, 10 * S)],
        missing(Odd, 1, at=15 * S - 1),
        found(Odd, 1, at=15 * S, gives=[1]),
        found(Odd, 1, at=25 * S, gives=[1]),
        found(Odd, 1, at=35 * S - 1, gives=[1]),
        found(Odd, 1, at=35 * S, gives=[0]),
    ),
    case(
        "a lookback shows the rows that were current then",
        [Orders, Earlier],
        _THREE,
        missing(Earlier, 1, at=15 * S - 1),
        found(Earlier, 1, at=15 * S, gives=[2, 2]),
        found(Earlier, 1, at=25 * S - 1, gives=[2, 2]),
        found(Earlier, 1, at=25 * S, gives=[1, 3]),
        found(Earlier, 1, at=35 * S, gives=[0, 3]),
    ),
    case(
        "a hopping window for ever grows at the ends of its strides, final or not",
        [Orders, Cumulative],
        _THREE,
        missing(Cumulative, 1, at=10 * S - 1),
        found(Cumulative, 1, at=10 * S, gives=[2]),
        found(Cumulative, 1, at=20 * S - 1, gives=[2]),
        found(Cumulative, 1, at=20 * S, gives=[3]),
    ),
    case(
        "a hopping window forever over keyed rows shows those that were current at its end",
        [Users, PopulationThen],
        [
            row(Users, 1, "fr", 1, 5 * S),
            row(Users, 2, "fr", 1, 6 * S),
            row(Users, 1, "de", 1, 12 * S),
            delete(Users, 2, 20 * S),
            row(Users, 3, "es", 1, 21 * S),
            row(Users, 3, "it", 1, 22 * S),
        ],
        missing(PopulationThen, "fr", at=10 * S - 1),
        found(PopulationThen, "fr", at=10 * S, gives=[2]),
        found(PopulationThen, "fr", at=15 * S, gives=[2]),
        found(PopulationThen, "fr", at=20 * S, gives=[1]),
        found(PopulationThen, "fr", at=30 * S, gives=[0]),
        missing(PopulationThen, "de", at=19 * S),
        found(PopulationThen, "de", at=20 * S, gives=[1]),
        found(PopulationThen, "es", at=30 * S, gives=[0]),
        found(PopulationThen, "it", at=30 * S, gives=[1]),
    ),
    case(
        "a discretely windowed dataset has a version at each end at which its value changes",
        [Orders, Spans, SpanChanges],
        [
            row(Orders, 1, "a", 1.0, 3 * S),
            row(Orders, 1, "b", 1.0, 13 * S),
            row(Orders, 1, "c", 2.0, 23 * S),
            row(Orders, 1, "d", 3.0, 63 * S),
        ],
        holds(
            Spans,
            (1, 1.0, 10 * S),
            (1, 2.0, 30 * S),
            (1, 0.0, 40 * S),
            (1, 3.0, 70 * S),
            (1, 0.0, 80 * S),
        ),
        holds(
            SpanChanges,
            (1, 1.0, False, 10 * S),
            (1, 1.0, True, 30 * S),
            (1, 2.0, False, 30 * S),
            (1, 2.0, True, 40 * S),
            (1, 0.0, False, 40 * S),
            (1, 0.0, True, 70 * S),
            (1, 3.0, False, 70 * S),
            (1, 3.0, True, 80 * S),
            (1, 0.0, False, 80 * S),
        ),
    ),
    case(
        "with a lookback a discretely windowed dataset has its versions that much later",
        [Orders, EarlierSpans, Earlier],
        _THREE,
        holds(EarlierSpans, (1, 2, 15 * S), (1, 1, 25 * S), (1, 0, 35 * S)),
        holds(Earlier, (1, 2, 2, 15 * S), (1, 1, 3, 25 * S), (1, 0, 3, 35 * S)),
    ),
    case(
        "with a lookback a window enters and leaves once, though nothing else happens",
        [Orders, EarlierSpans],
        [row(Orders, 1, "a", 1.0, 3 * S)],
        holds(EarlierSpans, (1, 1, 15 * S), (1, 0, 25 * S)),
    ),
    case(
        "a late row changes a window that had closed",
        [Orders, Spans],
        [
            row(Orders, 1, "a", 1.0, 3 * S),
            row(Orders, 1, "b", 1.0, 1000 * S),
            row(Orders, 1, "late", 4.0, 13 * S),
        ],
        found(Spans, 1, at=20 * S, gives=[4.0]),
        holds(
            Spans,
            (1, 1.0, 10 * S),
            (1, 4.0, 20 * S),
            (1, 0.0, 30 * S),
            (1, 1.0, 1010 * S),
            (1, 0.0, 1020 * S),
        ),
    ),
    case(
        "a discretely windowed dataset joins as the keyed dataset that it is",
        [Orders, Spans, WithSpan],
        [
            row(Orders, 1, "a", 1.0, 3 * S),
            row(Orders, 1, "b", 2.0, 9 * S),
            row(Orders, 1, "c", 4.0, 10 * S),
            row(Orders, 1, "d", 8.0, 25 * S),
            row(Orders, 1, "e", 16.0, 55 * S),
        ],
        holds(
            WithSpan,
            (1, "a", None, 3 * S),
            (1, "b", None, 9 * S),
            (1, "c", 3.0, 10 * S),
            (1, "d", 4.0, 25 * S),
            (1, "e", 0.0, 55 * S),
        ),
    ),
    case(
        "along a column keyless rows are dated by it instead of by their event time",
        [Trips, TripsByBegin],
        [
            row(Trips, 1, 10 * S, 50 * S),
            row(Trips, 1, 20 * S, 21 * S),
            row(Trips, 1, 90 * S, 60 * S),
        ],
        missing(TripsByBegin, 1, at=10 * S - 1),
        found(TripsByBegin, 1, at=10 * S, gives=[1, 1]),
        found(TripsByBegin, 1, at=20 * S, gives=[2, 2]),
        found(TripsByBegin, 1, at=30 * S, gives=[1, 2]),
        found(TripsByBegin, 1, at=60 * S, gives=[0, 2]),
        found(TripsByBegin, 1, at=90 * S, gives=[1, 3]),
    ),
    case(
        "along a column keyed rows belong to its windows, as they are as of the question",
        [Parcels, ParcelsBySent],
        [
            row(Parcels, 7, 1, 100, 3 * S, 4 * S),
            row(Parcels, 8, 1, 10, 5 * S, 6 * S),
            row(Parcels, 7, 1, 200, 3 * S, 15 * S),
            delete(Parcels, 8, 18 * S),
        ],
        missing(ParcelsBySent, 1, at=10 * S - 1),
        found(ParcelsBySent, 1, at=10 * S, gives=[110]),
        found(ParcelsBySent, 1, at=15 * S, gives=[210]),
        found(ParcelsBySent, 1, at=18 * S, gives=[200]),
        found(ParcelsBySent, 1, at=20 * S, gives=[0]),
    ),
)

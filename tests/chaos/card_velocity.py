# ruff: noqa: ANN001, ANN201, N805 - an author's file
"""Card velocity: what a card, and a kind of merchant, did in the last minute, hour, day, month.

Beside the aggregates, it has a job for each kind of state: a deduplication, a join of a keyed
dataset, and sessions. Two sinks write rows to topics. The watched card has no part in these: its
payments are so many that they would measure one large group. Three logs have four partitions, so
that two indexes, of which one is joined, and a stage of author code have shards.
"""

from datetime import datetime

from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Kafka, Webhook, sink, source
from narthex.datasets import Average, Count, LastK, Max, Min, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous, Session, Tumbling, Window
from narthex.expr import col
from narthex.lib import inputs
from tests.chaos.rows import PROBE

__owner__ = "chaos@narthex.dev"

WEBHOOK = "chaos"

HOURLY_TOPIC, STANDING_TOPIC = "chaos-hourly-payments", "chaos-card-standings"

webhook = Webhook(name=WEBHOOK)
bus = Kafka("bus", "")


@source(webhook.endpoint("payments"), disorder="1h", cdc="append")
@dataset
class Payments:
    """A payment by card; a refused payment has no row."""

    payment: int
    card: str
    merchant: str
    cents: int
    paid_at: datetime = field(timestamp=True)


@source(webhook.endpoint("merchants"), disorder="1d", cdc="upsert")
@dataset(index=True, partitions=4)
class Merchants:
    """The merchant of a payment, as of an instant."""

    merchant: str = field(key=True)
    category: str
    risk: int
    since: datetime = field(timestamp=True)


@dataset(partitions=4)
class Approved:
    """A payment, with what was true of its merchant."""

    payment: int
    card: str
    merchant: str
    cents: int
    category: str | None
    risk: int | None
    paid_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Payments, Merchants)
    def with_merchant(cls, payments, merchants):
        return payments.filter(col("cents") > 0).join(merchants, how="left", on=["merchant"])


@dataset(index=True)
class CardVelocity:
    """The recent payments of a card."""

    card: str = field(key=True)
    count_1m: int
    count_1h: int
    count_1d: int
    count_30d: int
    cents_1m: int
    cents_1h: int
    cents_1d: int
    cents_30d: int
    least_1h: int
    most_1m: int
    most_1d: int
    most_30d: int
    mean_1d: float
    last_1d: list[int]
    paid_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Approved)
    def by_card(cls, approved):
        return approved.groupby("card").aggregate(
            count_1m=Count(window=Continuous("1m")),
            count_1h=Count(window=Continuous("1h")),
            count_1d=Count(window=Continuous("1d")),
            count_30d=Count(window=Continuous("30d")),
            cents_1m=Sum(of="cents", window=Continuous("1m")),
            cents_1h=Sum(of="cents", window=Continuous("1h")),
            cents_1d=Sum(of="cents", window=Continuous("1d")),
            cents_30d=Sum(of="cents", window=Continuous("30d")),
            least_1h=Min(of="cents", default=0, window=Continuous("1h")),
            most_1m=Max(of="cents", default=0, window=Continuous("1m")),
            most_1d=Max(of="cents", default=0, window=Continuous("1d")),
            most_30d=Max(of="cents", default=0, window=Continuous("30d")),
            mean_1d=Average(of="cents", default=0.0, window=Continuous("1d")),
            last_1d=LastK(of="payment", limit=3, dedup=False, window=Continuous("1d")),
        )


@dataset(index=True)
class CategoryVelocity:
    """The payments to a kind of merchants."""

    category: str = field(key=True)
    count_1h: int
    cents_1d: int
    most_30d: int
    paid_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Approved)
    def by_category(cls, approved):
        return (
            approved.dropnull("category")
            .filter(lambda df: df["cents"] > 0)
            .groupby("category")
            .aggregate(
                count_1h=Count(window=Continuous("1h")),
                cents_1d=Sum(of="cents", window=Continuous("1d")),
                most_30d=Max(of="cents", default=0, window=Continuous("30d")),
            )
        )


@sink(bus.topic(HOURLY_TOPIC), cdc="debezium")
@dataset
class HourlyPayments:
    """The last payment of a card to a merchant in each hour."""

    payment: int
    card: str
    merchant: str
    cents: int
    category: str | None
    risk: int | None
    paid_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Approved)
    def last_of_each_hour(cls, approved):
        cards = approved.filter(col("card") != PROBE)
        return cards.dedup("card", "merchant", window=Tumbling("1h"))


@sink(bus.topic(STANDING_TOPIC), cdc="debezium")
@dataset(index=True, partitions=4)
class CardStandings:
    """The last payment of a card, with what was true of its merchant."""

    card: str = field(key=True)
    payment: int
    merchant: str
    cents: int
    category: str | None
    risk: int | None
    paid_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Payments, Merchants)
    def last_of_card(cls, payments, merchants):
        cards = payments.filter(col("card") != PROBE)
        return cards.groupby("card").latest().join(merchants, how="left", on=["merchant"])


@dataset(index=True)
class Sprees:
    """More than one payment of a card with pauses of at most ten minutes."""

    card: str = field(key=True)
    window: Window = field(key=True)
    payments: int
    cents: int
    paid_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Approved)
    def by_session(cls, approved):
        return (
            approved.filter(col("card") != PROBE)
            .groupby("card", window=Session("10m"))
            .aggregate(payments=Count(), cents=Sum(of="cents"))
            .filter(col("payments") > 1)
        )


def card_velocity() -> Definitions:
    return definitions(
        [
            Payments,
            Merchants,
            Approved,
            CardVelocity,
            CategoryVelocity,
            HourlyPayments,
            CardStandings,
            Sprees,
        ],
        [],
    )

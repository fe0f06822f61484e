# ruff: noqa: ANN001, ANN201, N805, PLR2004 - Fennel's way to write a pipeline
"""The definitions that the platform benchmarks commit: payments in, features of a user out.

The path is the longest one of expressions only: a webhook and a Kafka topic feed one dataset, a
pipeline of expressions makes a second, an aggregate a third, and a featureset reads it.
"""

from datetime import datetime

from narthex.connectors import Kafka, Webhook, source
from narthex.datasets import Average, Count, Max, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import inputs

__owner__ = "bench@narthex.dev"

WEBHOOK = "bench"
ENDPOINT = "payments"
TOPIC = "bench.payments"
REFUNDED = 0

webhook = Webhook(name=WEBHOOK)
broker = Kafka(
    name="bench", bootstrap_servers="", security_protocol="PLAINTEXT", sasl_mechanism="PLAIN"
)


@source(webhook.endpoint(ENDPOINT), disorder="1h", cdc="append")
@source(broker.topic(TOPIC), disorder="1h", cdc="append")
@dataset
class BenchPayments:
    """A payment of a user; an amount of zero was refunded."""

    user: str
    cents: int
    paid_at: datetime = field(timestamp=True)


@dataset
class BenchKept:
    """Payments that were not refunded, in two units."""

    user: str
    cents: int
    price: float
    paid_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(BenchPayments)
    def kept(cls, payments):
        return payments.filter(col("cents") != REFUNDED).assign(
            price=(col("cents") / 100.0).astype(float)
        )


@dataset(index=True)
class BenchSpend:
    """The spending of a user."""

    user: str = field(key=True)
    count_1h: int
    count_1d: int
    count_ever: int
    cents_1h: int
    cents_1d: int
    cents_ever: int
    mean_1h: float
    mean_1d: float
    most_1d: int
    most_ever: int
    paid_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(BenchKept)
    def by_user(cls, kept):
        return kept.groupby("user").aggregate(
            count_1h=Count(window=Continuous("1h")),
            count_1d=Count(window=Continuous("1d")),
            count_ever=Count(window=Continuous("forever")),
            cents_1h=Sum(of="cents", window=Continuous("1h")),
            cents_1d=Sum(of="cents", window=Continuous("1d")),
            cents_ever=Sum(of="cents", window=Continuous("forever")),
            mean_1h=Average(of="price", window=Continuous("1h")),
            mean_1d=Average(of="price", window=Continuous("1d")),
            most_1d=Max(of="cents", window=Continuous("1d"), default=0),
            most_ever=Max(of="cents", window=Continuous("forever"), default=0),
        )


@featureset
class BenchUser:
    """Fifteen features: ten are looked up, five are computed by the query."""

    user: str
    count_1h: int = feature(BenchSpend.count_1h, default=0)
    count_1d: int = feature(BenchSpend.count_1d, default=0)
    count_ever: int = feature(BenchSpend.count_ever, default=0)
    cents_1h: int = feature(BenchSpend.cents_1h, default=0)
    cents_1d: int = feature(BenchSpend.cents_1d, default=0)
    cents_ever: int = feature(BenchSpend.cents_ever, default=0)
    mean_1h: float = feature(BenchSpend.mean_1h, default=0.0)
    mean_1d: float = feature(BenchSpend.mean_1d, default=0.0)
    most_1d: int = feature(BenchSpend.most_1d, default=0)
    most_ever: int = feature(BenchSpend.most_ever, default=0)
    is_new: bool = feature(col("count_ever") < 2)
    is_busy: bool = feature(col("count_1h") > 10)
    is_big: bool = feature(col("most_ever") > 5000)
    above_mean: bool = feature(col("mean_1h") > col("mean_1d"))
    older_count: int = feature(col("count_ever") - col("count_1d"))


DATASETS = [BenchPayments, BenchKept, BenchSpend]
FEATURESETS = [BenchUser]

# ruff: noqa: ANN001, ANN202, ARG001 - Fennel's way to write a pipeline
"""Many small streams: each a Kafka topic, a pipeline of one kind, and an index.

A function creates their classes, so that a bench can have any number of them.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import attrs

from narthex.connectors import Kafka, Webhook, source
from narthex.datasets import Count, Dataset, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import Featureset, feature, featureset
from narthex.lib import inputs

__owner__ = "bench@narthex.dev"

broker = Kafka(
    name="bench", bootstrap_servers="", security_protocol="PLAINTEXT", sasl_mechanism="PLAIN"
)


webhook = Webhook(name="bench_streams")
ENDPOINT = "currencies"
KNOWN, UNKNOWN = "eur", "xxx"
"""A currency that the joined dataset contains, and one that it does not contain."""


class Kind(StrEnum):
    """The way in which a pipeline selects the rows that it counts."""

    PLAIN = "plain"
    """By an expression."""
    CODE = "code"
    """By Python."""
    JOIN = "join"
    """By a join with a keyed dataset: it leaves out rows without a match."""


@source(webhook.endpoint(ENDPOINT), disorder="1h", cdc="upsert")
@dataset(index=True)
class Currencies:
    """The currencies that are accepted."""

    currency: str = field(key=True)
    digits: int
    known_at: datetime = field(timestamp=True)


@attrs.frozen(kw_only=True)
class Streams:
    """The committed definitions, and the topic of each stream."""

    name: str
    topics: Sequence[str]
    datasets: Sequence[Dataset]
    featureset: Featureset

    @property
    def user(self) -> str:
        """The feature that identifies the user of a query."""
        return f"{self.name}.user"

    def seen(self, number: int) -> str:
        """Return the name of the feature that counts a user's rows of a stream."""
        return f"{self.name}.seen_{number}"


def streams(count: int, kind: Kind) -> Streams:
    """Create `count` streams of a kind."""
    title = kind.capitalize()
    topics = [f"bench.{kind}.{number}" for number in range(count)]
    made = [_stream(f"{title}{number}", topic, kind) for number, topic in enumerate(topics)]
    features = {f"seen_{number}": counted for number, (_, counted) in enumerate(made)}
    body = {name: feature(counted.seen, default=0) for name, counted in features.items()}
    columns = {"user": str} | dict.fromkeys(features, int)
    name = f"{title}User"
    joined = [Currencies] if kind is Kind.JOIN else []
    return Streams(
        name=name,
        topics=topics,
        datasets=[*joined, *(dataset for pair in made for dataset in pair)],
        featureset=featureset(_class(name, columns, body)),
    )


def _stream(name: str, topic: str, kind: Kind) -> tuple[Dataset, Dataset]:
    columns = {"user": str, "cents": int, "paid_at": datetime}
    if kind is Kind.JOIN:
        columns["currency"] = str
    paid = _class(f"{name}Paid", columns, {"paid_at": field(timestamp=True)})
    read = source(broker.topic(topic), disorder="1h", cdc="append")(dataset(paid))

    def kept_by_expression(cls, rows):
        return _counted(rows.filter(col("cents") > 0))

    def kept_by_code(cls, rows):
        return _counted(rows.filter(lambda df: df["cents"] > 0))

    def kept_by_join(cls, rows, currencies):
        return _counted(rows.join(currencies, how="inner", on=["currency"]))

    kept = {
        Kind.PLAIN: inputs(read)(kept_by_expression),
        Kind.CODE: inputs(read)(kept_by_code),
        Kind.JOIN: inputs(read, Currencies)(kept_by_join),
    }
    body = {
        "user": field(key=True),
        "paid_at": field(timestamp=True),
        "kept": pipeline(kept[kind]),
    }
    columns = {"user": str, "seen": int, "paid_at": datetime}
    return read, dataset(index=True)(_class(f"{name}Seen", columns, body))


def _counted(rows):
    return rows.groupby("user").aggregate(seen=Count(window=Continuous("forever")))


def _class(name: str, columns: dict[str, type], body: dict[str, object]) -> type:
    return type(name, (), {"__annotations__": columns, "__module__": __name__, **body})

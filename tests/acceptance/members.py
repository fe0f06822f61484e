# ruff: noqa: ANN001, ANN201, N805
"""Members of clubs, whose rows can be erased by their names, also where sinks write them."""

from datetime import datetime

from narthex.connectors import Kafka, Postgres, Webhook, sink, source
from narthex.datasets import Count, LastK, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import inputs

__owner__ = "market@narthex.dev"

TOPIC = "member-readers"
TABLE = "readers"
WAREHOUSE = "warehouse"

webhook = Webhook(name="shop")


@source(webhook.endpoint("members"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Members:
    """The club of a person."""

    person: str = field(key=True, erase_key=True)
    club: str
    since: datetime = field(timestamp=True)


@dataset(index=True)
class Clubs:
    """The members of a club."""

    club: str = field(key=True)
    members: int
    names: list[str]
    since: datetime = field(timestamp=True)

    @pipeline
    @inputs(Members)
    def joined(cls, members):
        return members.groupby("club").aggregate(
            members=Count(window=Continuous("forever")),
            names=LastK(of="person", limit=10, dedup=False, window=Continuous("forever")),
        )


@sink(Kafka("bus", "").topic(TOPIC), cdc="debezium")
@sink(Postgres.get(WAREHOUSE).table(TABLE), how="incremental", every="1s")
@dataset
class Readers:
    """Members who get the newsletter, in a topic and in a table."""

    person: str = field(key=True)
    club: str
    since: datetime = field(timestamp=True)

    @pipeline
    @inputs(Members)
    def all(cls, members):
        return members.filter(col("club") != "none")


@featureset
class Club:
    """The features of a club."""

    club: str
    members: int = feature(Clubs.members, default=0)
    names: list[str] = feature(Clubs.names, default=[])


@featureset
class Member:
    """The features of a member."""

    person: str
    club: str = feature(Members.club, default="none")


DATASETS = [Members, Clubs, Readers]
FEATURESETS = [Club, Member]

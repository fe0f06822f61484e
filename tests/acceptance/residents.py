# ruff: noqa: ANN001, ANN201, N805
"""Definitions that need stateful jobs: sessions, changelogs, counts of keyed rows."""

from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import Count, Max, dataset, field, pipeline
from narthex.dtypes import Continuous, Session, Window
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import inputs

__owner__ = "market@narthex.dev"

webhook = Webhook(name="market")


@source(webhook.endpoint("residents"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Residents:
    """The residence of a person."""

    user: str = field(key=True)
    city: str
    since: datetime = field(timestamp=True)


@source(webhook.endpoint("visits"), disorder="1d", cdc="append")
@dataset
class Visits:
    """Somebody looks at a page."""

    user: str
    page: str
    at: datetime = field(timestamp=True)


@dataset(index=True)
class People:
    """The number of residents of a city, without those who moved away."""

    city: str = field(key=True)
    people: int
    since: datetime = field(timestamp=True)

    @pipeline
    @inputs(Residents)
    def living(cls, residents):
        return residents.groupby("city").aggregate(people=Count(window=Continuous("forever")))


@dataset(index=True)
class Moves:
    """How often somebody left a city."""

    user: str = field(key=True)
    moves: int
    since: datetime = field(timestamp=True)

    @pipeline
    @inputs(Residents)
    def left(cls, residents):
        return (
            residents.changelog(delete="gone")
            .filter(col("gone"))
            .groupby("user")
            .aggregate(moves=Count(window=Continuous("forever")))
        )


@dataset
class Stays:
    """The pages that somebody looks at with less than ten minutes between them."""

    user: str = field(key=True)
    window: Window = field(key=True)
    pages: int
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Visits)
    def sessions(cls, visits):
        return visits.groupby("user", window=Session("10m")).aggregate(pages=Count())


@dataset(index=True)
class Longest:
    """The greatest stay of somebody."""

    user: str = field(key=True)
    pages: int
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Stays)
    def of_stays(cls, stays):
        return stays.groupby("user").aggregate(
            pages=Max(of="pages", window=Continuous("forever"), default=0)
        )


@featureset
class City:
    """The features of a city."""

    city: str
    people: int = feature(People.people, default=0)


@featureset
class Resident:
    """The features of a resident."""

    user: str
    moves: int = feature(Moves.moves, default=0)
    longest: int = feature(Longest.pages, default=0)


DATASETS = [Residents, Visits, People, Moves, Stays, Longest]
FEATURESETS = [City, Resident]

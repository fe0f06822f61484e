# ruff: noqa: ANN001, ANN201, N805 - Fennel's way to write a pipeline
"""The definitions that the benchmark of stateful jobs runs: visits of users, and their plans."""

from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import Count, dataset, field, pipeline
from narthex.dtypes import Session, Window
from narthex.lib import inputs

__owner__ = "bench@narthex.dev"

GAP = "60s"

webhook = Webhook(name="stateful")


@source(webhook.endpoint("visits"), disorder="1d", cdc="append")
@dataset
class Visits:
    """A user's visit of a page."""

    user: str
    page: int
    at: datetime


@source(webhook.endpoint("accounts"), disorder="1d", cdc="upsert")
@dataset
class Accounts:
    """The plan of a user."""

    user: str = field(key=True)
    plan: str
    at: datetime


@source(webhook.endpoint("plans"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Plans:
    """The price of a plan."""

    plan: str = field(key=True)
    price: int
    at: datetime


@dataset
class UniqueVisits:
    """One visit for each user, page and instant."""

    user: str
    page: int
    at: datetime

    @pipeline
    @inputs(Visits)
    def unique(cls, visits):
        return visits.dedup(by=["user", "page"])


@dataset
class PricedAccounts:
    """The price of each user's plan."""

    user: str = field(key=True)
    plan: str
    price: int
    at: datetime

    @pipeline
    @inputs(Accounts, Plans)
    def priced(cls, accounts, plans):
        return accounts.join(plans, how="inner", on=["plan"])


@dataset
class VisitSessions:
    """The number of visits of each session of a user."""

    user: str = field(key=True)
    window: Window = field(key=True)
    visits: int
    at: datetime

    @pipeline
    @inputs(Visits)
    def sessions(cls, visits):
        return visits.groupby("user", window=Session(GAP)).aggregate(visits=Count())


DATASETS = [Visits, Accounts, Plans, UniqueVisits, PricedAccounts, VisitSessions]

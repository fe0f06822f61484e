# ruff: noqa: ANN001, ANN201, N805
"""The definitions that a later commit adds to the market."""

from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import Count, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.featuresets import feature, featureset
from narthex.lib import inputs

__owner__ = "market@narthex.dev"

webhook = Webhook(name="market")


@source(webhook.endpoint("returns"), disorder="1d", cdc="append")
@dataset
class Returns:
    """A returned purchase."""

    user: str
    item: str
    returned_at: datetime = field(timestamp=True)


@dataset(index=True)
class Regret:
    """How often a user sent something back."""

    user: str = field(key=True)
    returns: int
    returned_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Returns)
    def by_user(cls, returns):
        return returns.groupby("user").aggregate(returns=Count(window=Continuous("forever")))


@featureset
class Regrets:
    """The features of a buyer who returns purchases."""

    user: str
    returns: int = feature(Regret.returns, default=0)


DATASETS = [Returns, Regret]
FEATURESETS = [Regrets]

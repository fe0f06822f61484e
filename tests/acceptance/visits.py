# ruff: noqa: ANN001, ANN202, N805
"""A small project for branches of their own: visits are counted."""

from collections.abc import Sequence
from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import Count, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.featuresets import feature, featureset
from narthex.lib import inputs

__owner__ = "visits@narthex.dev"

webhook = Webhook(name="visits")


def visits(
    endpoint: str, *, unknown: int, version: int = 1
) -> tuple[Sequence[type], Sequence[type]]:
    """Declare datasets and featuresets that return `unknown` for a page without visits."""

    @source(webhook.endpoint(endpoint), disorder="1d", cdc="append")
    @dataset
    class Visits:
        page: str
        at: datetime

    @dataset(index=True)
    class Views:
        page: str = field(key=True)
        visits: int
        at: datetime

        @pipeline
        @inputs(Visits)
        def by_page(cls, rows):
            return rows.groupby("page").aggregate(visits=Count(window=Continuous("forever")))

    @featureset
    class Page:
        page: str
        visits: int = feature(Views.visits, default=unknown, version=version)

    return (Visits, Views), (Page,)

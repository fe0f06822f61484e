# ruff: noqa: ANN001, ANN201, ANN202, N805
"""Payments in two versions: the second one aggregates the same rows over one more window."""

from collections.abc import Sequence
from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import Average, Count, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.featuresets import feature, featureset
from narthex.lib import inputs

__owner__ = "market@narthex.dev"


@source(Webhook(name="market").endpoint("payments"), disorder="1d", cdc="append")
@dataset
class Payments:
    """Somebody pays."""

    payer: str
    euros: float
    paid_at: datetime


@dataset(index=True)
class Paid:
    """The payments of a user since the beginning."""

    payer: str = field(key=True)
    euros: float
    paid_at: datetime

    @pipeline
    @inputs(Payments)
    def by_payer(cls, payments):
        return payments.groupby("payer").aggregate(
            euros=Sum(of="euros", window=Continuous("forever"))
        )


@featureset
class Payer:
    """The features of a payer."""

    payer: str
    euros: float = feature(Paid.euros, default=0.0)


FIRST: tuple[Sequence[type], Sequence[type]] = (Payments, Paid), (Payer,)


def second() -> tuple[Sequence[type], Sequence[type]]:
    """Declare the second version: the last hour, how often, and how much at a time."""

    @dataset(index=True, version=2)
    class Paid:
        """The payments of a user since the beginning, and recently."""

        payer: str = field(key=True)
        euros: float
        lately: float
        mean: float
        times: int
        paid_at: datetime

        @pipeline
        @inputs(Payments)
        def by_payer(cls, payments):
            return payments.groupby("payer").aggregate(
                euros=Sum(of="euros", window=Continuous("forever")),
                lately=Sum(of="euros", window=Continuous("1h")),
                mean=Average(of="euros", window=Continuous("forever")),
                times=Count(window=Continuous("1d")),
            )

    @featureset
    class Payer:
        """The features of a payer."""

        payer: str
        euros: float = feature(Paid.euros, default=0.0, version=2)
        lately: float = feature(Paid.lately, default=0.0)
        mean: float = feature(Paid.mean, default=0.0)
        times: int = feature(Paid.times, default=0)

    return (Payments, Paid), (Payer,)

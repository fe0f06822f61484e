"""Correct definitions that no job can carry out yet."""

from datetime import datetime

from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import S3, source
from narthex.datasets import dataset, field
from tests.server.shop import Orders, Users

__owner__ = "shop@narthex.dev"


@source(
    S3("far", role_arn="arn:aws:iam::1:role/reader").bucket("far", prefix="readings"),
    disorder="1h",
    cdc="append",
)
@dataset
class Readings:
    """A measurement of a remote machine."""

    machine: str
    heat: float
    at: datetime = field(timestamp=True)


def unready_definitions() -> Definitions:
    """Return the shop's rows with what is made of them."""
    return definitions([Orders, Users, Readings], [])

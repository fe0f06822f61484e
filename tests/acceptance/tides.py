# ruff: noqa: ANN001, ANN201, N805
"""Heights of the sea, from harbours and from a silent buoy, with the names of their stations."""

from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field, pipeline
from narthex.lib import inputs

__owner__ = "tides@narthex.dev"

webhook = Webhook(name="tides")


@source(webhook.endpoint("buoys"), disorder="1h", cdc="append", idleness="10s")
@source(webhook.endpoint("harbours"), disorder="1h", cdc="append")
@dataset
class Tides:
    """A measured height."""

    station: str
    metres: float
    at: datetime


@source(webhook.endpoint("stations"), disorder="1h", cdc="upsert", idleness="10s")
@dataset(index=True)
class Stations:
    """The name of a station; it hardly ever changes."""

    station: str = field(key=True)
    name: str
    since: datetime


@dataset
class NamedTides:
    """A measured height with the name of its station."""

    station: str
    metres: float
    name: str | None
    at: datetime

    @pipeline
    @inputs(Tides, Stations)
    def named(cls, tides, stations):
        return tides.join(stations, how="left", on=["station"], fields=["name"])


DATASETS = (Tides, Stations, NamedTides)

"""Readings of thermometers, which must not be older than a few seconds."""

from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field
from narthex.lib import Freshness, meta

__owner__ = "thermometers@narthex.dev"


@meta(alerts=[Freshness("20s", severity="critical")])
@source(Webhook(name="thermometers").endpoint("readings"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Readings:
    """The newest reading of a thermometer."""

    thermometer: str = field(key=True)
    celsius: float
    at: datetime = field(timestamp=True)

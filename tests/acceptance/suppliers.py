"""The suppliers that a later commit adds to the market, from a file that does not exist yet."""

from datetime import datetime

from narthex.connectors import Files, source
from narthex.datasets import dataset, field

__owner__ = "market@narthex.dev"

LIST = "market/suppliers.csv"


@source(
    Files(name="suppliers").path(LIST), disorder="1d", cdc="upsert", bounded=True, idleness="1h"
)
@dataset(index=True)
class Suppliers:
    """The supplier of an item."""

    item: str = field(key=True)
    supplier: str
    since: datetime = field(timestamp=True)


DATASETS = [Suppliers]

# mypy: disable-error-code="call-overload, assignment"
"""Orders and baskets whose rows may be corrected; rows of `shop` arrive once.

No source sends a row without a key twice. These rows are derived from keyed ones: a later state at
the same instant corrects the derived rows, and a delete at that instant retracts them.
"""

from datetime import datetime
from typing import Optional

from narthex._sdk.datasets import Rows
from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field, pipeline
from narthex.expr import col
from narthex.lib import inputs

webhook = Webhook(name="corrected_shop")


@source(webhook.endpoint("receipts"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Receipts:
    """Purchases by number; a row in a case is (number, uid, sku, amount, at)."""

    number: int = field(key=True)
    uid: int
    sku: str
    amount: Optional[float]
    at: datetime


@dataset
class Orders:
    """The orders of `shop`, one for each row of a receipt."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime

    @pipeline
    @inputs(Receipts)
    def orders(cls, receipts: Rows) -> Rows:
        rows = receipts.changelog(insert="came").filter(col("came"))
        return rows.drop("number", "came")


@source(webhook.endpoint("carts"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Carts:
    """Lists that may still change; a row in a case is (uid, skus, counts, at)."""

    uid: int = field(key=True)
    skus: Optional[list[str]]
    counts: list[int]
    at: datetime


@dataset
class Baskets:
    """The baskets of `shop`, one for each row of a cart."""

    uid: int
    skus: Optional[list[str]]
    counts: list[int]
    at: datetime

    @pipeline
    @inputs(Carts)
    def baskets(cls, carts: Rows) -> Rows:
        return carts.changelog(insert="came").filter(col("came")).drop("came")

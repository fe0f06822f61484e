# mypy: disable-error-code="call-overload, assignment"
"""The datasets of the cases: orders, which have no key, and users, which have one."""

from datetime import datetime
from typing import Optional

from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field

webhook = Webhook(name="shop")


@source(webhook.endpoint("orders"), disorder="1d", cdc="append")
@dataset
class Orders:
    """Purchases; a row in a case is (uid, sku, amount, at)."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime


@source(webhook.endpoint("returns"), disorder="1d", cdc="append")
@dataset
class Returns:
    """Returned purchases, with the fields of orders."""

    uid: int
    sku: str
    amount: Optional[float]
    at: datetime


@source(webhook.endpoint("users"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Users:
    """Buyers; a row in a case is (uid, country, score, at)."""

    uid: int = field(key=True)
    country: str
    score: Optional[int]
    at: datetime


@source(webhook.endpoint("countries"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Countries:
    """The users' countries; a row in a case is (country, rate, at)."""

    country: str = field(key=True)
    rate: float
    at: datetime


@source(webhook.endpoint("baskets"), disorder="1d", cdc="append")
@dataset
class Baskets:
    """Lists; a row in a case is (uid, skus, counts, at)."""

    uid: int
    skus: Optional[list[str]]
    counts: list[int]
    at: datetime


SHOP = (Orders, Returns, Users, Countries, Baskets)

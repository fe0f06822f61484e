from datetime import datetime
from typing import Dict, List, Optional

from fennel.connectors import source
from fennel.datasets import dataset, field
from fennel.dtypes import Decimal, oneof, regex
from fennel.lib import meta

from loans.sources import bank, web


@meta(owner="raw@loans.example")
@source(bank.endpoint("Account"), disorder="30d", cdc="upsert")
@dataset(index=True)
class Account:
    account: str = field(key=True, erase_key=True)
    iban: regex("[A-Z]{2}[0-9]+")
    holder: str
    limit: Decimal[2]
    opened: datetime


@meta(owner="raw@loans.example")
@source(bank.endpoint("Rate"), disorder="30d", cdc="upsert")
@dataset(index=True)
class Rate:
    currency: str = field(key=True)
    euros: float
    at: datetime


@meta(owner="raw@loans.example")
@source(bank.endpoint("Payment"), disorder="30d", cdc="append")
@dataset
class Payment:
    account: str
    amount: float
    currency: str
    kind: oneof(str, ["in", "out"])
    booked: datetime
    labels: List[str]
    at: datetime = field(timestamp=True)


@meta(owner="raw@loans.example")
@source(web.endpoint("Visit"), disorder="30d", cdc="append")
@dataset
class Visit:
    account: str
    page: str
    device: Optional[str]
    extra: Dict[str, str]
    at: datetime


@meta(owner="raw@loans.example")
@source(web.endpoint("Application"), disorder="30d", cdc="append")
@dataset
class Application:
    account: str
    amount: float
    months: int
    at: datetime

"""Collections of MongoDB, sorted by a field of their documents.

A reading is no snapshot. What changes while it goes on moves to a greater cursor, so it is read in
its new state, now or with the next reading. Fields of documents that hold documents come as such.
"""

import datetime as dt
import itertools
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from pymongo import ASCENDING, MongoClient
from pymongo.collation import Collation
from pymongo.errors import PyMongoError

from narthex.connections import MongoDatabase
from narthex_spark_apps.table_cursors import Cursor
from narthex_spark_apps.table_readings import (
    BATCH,
    CONNECT_S,
    Reading,
    Row,
    TableAccess,
    TableError,
)

ATLAS: Final = ".mongodb.net"
"""Hosts of Atlas are names of whole clusters, which a look-up of services resolves."""


@contextmanager
def reading(access: TableAccess, start: Cursor | None) -> Iterator[Reading]:
    """Open a reading, as `ReadsTable`."""
    database = access.table.database
    if not isinstance(database, MongoDatabase):
        raise TypeError("not a database of MongoDB")
    try:
        with closing(_connect(database, access)) as client:
            collection = client[database.db_name][access.table.table]
            wanted = {"$ne": None} if start is None else {"$gte": _told(start)}
            found = (
                collection.find({access.cursor: wanted}, batch_size=BATCH)
                .sort(access.cursor, ASCENDING)
                .collation(Collation("simple"))
                .allow_disk_use(allow_disk_use=True)
            )
            yield Reading(key=("_id",), batches=_batches(found))
    except PyMongoError as error:
        raise TableError(str(error)) from None


def _connect(database: MongoDatabase, access: TableAccess) -> "MongoClient[Row]":
    address = address_of(database.host)
    wants_tls = address.startswith("mongodb+srv:") or "tls=true" in address
    return MongoClient(
        address,
        username=access.reveal(database.username),
        password=access.reveal(database.password),
        appname="narthex",
        tz_aware=True,
        serverSelectionTimeoutMS=CONNECT_S * 1000,
        **({"tlsCAFile": access.ca_file} if access.ca_file and wants_tls else {}),
    )


def address_of(host: str) -> str:
    """Give the address of a host, unless it is one already."""
    if "://" in host:
        return host
    is_cluster = host.endswith(ATLAS) and ":" not in host
    return f"mongodb+srv://{host}" if is_cluster else f"mongodb://{host}"


def _told(start: Cursor) -> object:
    """Give a cursor as documents have it: no day without an hour."""
    if isinstance(start, dt.date) and not isinstance(start, dt.datetime):
        return dt.datetime.combine(start, dt.time(), dt.UTC)
    return start


def _batches(found: Iterator[Row]) -> Iterator[list[Row]]:
    while batch := list(itertools.islice(found, BATCH)):
        yield batch

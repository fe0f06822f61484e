"""MongoDB collections, sorted by a field of their documents.

A scan is not a snapshot. A document that changes during the scan moves to a greater cursor, so its
new state is read now or by the next scan. Nested documents become nested values.
"""

import datetime as dt
import itertools
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final

from pymongo import ASCENDING, MongoClient, pool_shared
from pymongo.collation import Collation
from pymongo.errors import PyMongoError
from pymongo.pool_options import PoolOptions

from narthex._connectors import AddressInvalidError, Destination, parse_host
from narthex._connectors.mongo import MongoDatabase, mongo_address
from narthex.errors import NarthexError
from narthex_spark_apps.platform.outgoing_connections import open_socket, pinned
from narthex_spark_apps.sources.tables.cursors import Cursor
from narthex_spark_apps.sources.tables.reader import (
    BATCH,
    CONNECT_S,
    TableAccess,
    TableError,
    TableRow,
    TableScan,
)

_OURS: Final = "narthex-"
_numbers: Final = itertools.count(1)


class _Deployments:
    """The members that each client of this process may connect to, by its application name.

    A deployment sends the addresses of its members to the driver, which connects to each of them.
    The driver accepts no resolver of ours, so its own connect function is replaced.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[MongoDatabase, TableAccess]] = {}

    @contextmanager
    def named(self, database: MongoDatabase, access: TableAccess) -> Iterator[str]:
        """Yield a name with which a client may connect while the block runs."""
        name = f"{_OURS}{next(_numbers)}"
        self._known[name] = (database, access)
        try:
            yield name
        finally:
            del self._known[name]

    def connect(self, address: tuple[str, int], options: PoolOptions) -> socket.socket:
        """Connect to a member that may receive the secrets, at an allowed address.

        Raises:
            OSError: The member or its address is not allowed, or the member does not answer.
        """
        host, port = address
        name = options.appname or ""
        if not name.startswith(_OURS):
            return _connect_unchecked(address, options)
        found = self._known.get(name)
        if found is None:
            raise OSError("the client of this deployment is closed")
        database, access = found
        try:
            target = Destination(parse_host(host), port)
            _require_granted(database, access, target)
            made = open_socket(
                target, access.egress, timeout_s=options.connect_timeout or CONNECT_S
            )
        except (NarthexError, AddressInvalidError) as error:
            raise OSError(str(error)) from None
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return made


_connect_unchecked: Final[Callable[[tuple[str, int], PoolOptions], socket.socket]] = (
    pool_shared._create_connection  # noqa: SLF001 (no public API)
)
_DEPLOYMENTS: Final = _Deployments()
pool_shared._create_connection = _DEPLOYMENTS.connect  # noqa: SLF001 (no public API)


def _require_granted(database: MongoDatabase, access: TableAccess, target: Destination) -> None:
    access.reveal(database.username, (target,))
    access.reveal(database.password, (target,))


@contextmanager
def reading(access: TableAccess, start: Cursor | None) -> Iterator[TableScan]:
    """Open a scan; see `ReadsTable`."""
    database = access.table.database
    if not isinstance(database, MongoDatabase):
        raise TypeError("not a database of MongoDB")
    try:
        with (
            _DEPLOYMENTS.named(database, access) as name,
            closing(_connect(database, access, name)) as client,
        ):
            collection = client[database.db_name][access.table.table]
            wanted = {"$ne": None} if start is None else {"$gte": _bson_value(start)}
            found = (
                collection.find({access.cursor: wanted}, batch_size=BATCH)
                .sort(access.cursor, ASCENDING)
                .collation(Collation("simple"))
                .allow_disk_use(allow_disk_use=True)
            )
            yield TableScan(key=("_id",), batches=_batches(found))
    except PyMongoError as error:
        raise TableError(str(error)) from None


def _connect(database: MongoDatabase, access: TableAccess, name: str) -> "MongoClient[TableRow]":
    address = mongo_address(database.host)
    for target in address.targets:
        _require_granted(database, access, target)
        if not address.is_srv:
            # Fail at once if denied, not after the driver has waited for a member.
            pinned(target, access.egress)
    return MongoClient(
        address.url,
        username=access.reveal(database.username, address.targets),
        password=access.reveal(database.password, address.targets),
        appname=name,
        tz_aware=True,
        serverSelectionTimeoutMS=CONNECT_S * 1000,
        **({"tlsCAFile": access.ca_file} if access.ca_file and address.has_tls else {}),
    )


def _bson_value(start: Cursor) -> object:
    """Return a cursor in the form of documents, which have no dates without a time."""
    if isinstance(start, dt.date) and not isinstance(start, dt.datetime):
        return dt.datetime.combine(start, dt.time(), dt.UTC)
    return start


def _batches(found: Iterator[TableRow]) -> Iterator[list[TableRow]]:
    while batch := list(itertools.islice(found, BATCH)):
        yield batch

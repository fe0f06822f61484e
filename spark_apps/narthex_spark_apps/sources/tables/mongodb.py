"""Collections of MongoDB, sorted by a field of their documents.

A reading is no snapshot. What changes while it goes on moves to a greater cursor, so it is read in
its new state, now or with the next reading. Fields of documents that hold documents come as such.
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

from narthex._analysis.policy import AddressInvalidError, Destination, mongo_address, parse_host
from narthex._ir import MongoDatabase
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
    """What each client of this process may connect to, by the name that it gives its pools.

    A deployment names its members to the driver, which connects to each of them. The driver has
    no place for a resolver of ours, so its own function that connects is replaced.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[MongoDatabase, TableAccess]] = {}

    @contextmanager
    def named(self, database: MongoDatabase, access: TableAccess) -> Iterator[str]:
        """Yield a name under which a client may connect, inside the block."""
        name = f"{_OURS}{next(_numbers)}"
        self._known[name] = (database, access)
        try:
            yield name
        finally:
            del self._known[name]

    def connect(self, address: tuple[str, int], options: PoolOptions) -> socket.socket:
        """Connect to a member: granted its secrets, at an address that is allowed.

        Raises:
            OSError: It is not; or it does not answer.
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
    pool_shared._create_connection  # noqa: SLF001 (there is no other way)
)
_DEPLOYMENTS: Final = _Deployments()
pool_shared._create_connection = _DEPLOYMENTS.connect  # noqa: SLF001 (there is no other way)


def _require_granted(database: MongoDatabase, access: TableAccess, target: Destination) -> None:
    access.reveal(database.username, (target,))
    access.reveal(database.password, (target,))


@contextmanager
def reading(access: TableAccess, start: Cursor | None) -> Iterator[TableScan]:
    """Open a reading, as `ReadsTable`."""
    database = access.table.database
    if not isinstance(database, MongoDatabase):
        raise TypeError("not a database of MongoDB")
    try:
        with (
            _DEPLOYMENTS.named(database, access) as name,
            closing(_connect(database, access, name)) as client,
        ):
            collection = client[database.db_name][access.table.table]
            wanted = {"$ne": None} if start is None else {"$gte": _told(start)}
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
            # Denied at once, not after the driver has waited for a member.
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


def _told(start: Cursor) -> object:
    """Return a cursor as documents have it: no day without an hour."""
    if isinstance(start, dt.date) and not isinstance(start, dt.datetime):
        return dt.datetime.combine(start, dt.time(), dt.UTC)
    return start


def _batches(found: Iterator[TableRow]) -> Iterator[list[TableRow]]:
    while batch := list(itertools.islice(found, BATCH)):
        yield batch

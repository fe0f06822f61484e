"""MySQL and MariaDB tables: one statement in one snapshot, with rows streamed to the client.

A one-bit column, or `tinyint(1)`, arrives as a number; the type check reads it as a bool if the
dataset has one. The only supported driver option is `sslMode`.
"""

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeAlias

import attrs
import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions
from pymysql.cursors import SSDictCursor

from narthex._connectors import driver_options, server_at
from narthex._ir import SqlDatabase
from narthex_spark_apps.platform.outgoing_connections import open_socket
from narthex_spark_apps.sources.tables.cursors import Cursor
from narthex_spark_apps.sources.tables.reader import (
    BATCH,
    CONNECT_S,
    TableAccess,
    TableError,
    TableRow,
    TableScan,
)

_COLUMNS = """
    SELECT column_name, character_set_name IS NOT NULL FROM information_schema.columns
    WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s
"""
_KEY = """
    SELECT column_name FROM information_schema.statistics
    WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s AND index_name = 'PRIMARY'
    ORDER BY seq_in_index
"""
_CONVERSIONS: Final = {
    **conversions,
    FIELD_TYPE.BIT: lambda bits: int.from_bytes(bits, "big"),
    FIELD_TYPE.JSON: json.loads,
}
_Connection: TypeAlias = "pymysql.Connection[pymysql.cursors.Cursor]"
_BEFORE = "SET SESSION time_zone = '+00:00'"


@contextmanager
def reading(access: TableAccess, start: Cursor | None) -> Iterator[TableScan]:
    """Open a scan; see `ReadsTable`."""
    connection = None
    try:
        connection = _connect(access)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION READ ONLY")
        shape = _MysqlTableShape.of(connection, access)
        yield TableScan(key=shape.key, batches=_batches(connection, access, shape, start))
    except pymysql.MySQLError as error:
        raise TableError(": ".join(str(part) for part in error.args)) from None
    finally:
        if connection is not None:
            connection.close()


@attrs.frozen(kw_only=True)
class _MysqlTableShape:
    """Table metadata, queried once per scan: the primary key, and whether the cursor is text."""

    key: tuple[str, ...]
    is_text: bool

    @classmethod
    def of(cls, connection: "_Connection", access: TableAccess) -> "_MysqlTableShape":
        *schema, table = access.table.table.rsplit(".", 1)
        parameters = (schema[0] if schema else None, table)
        with connection.cursor() as cursor:
            cursor.execute(_COLUMNS, parameters)
            columns = dict(cursor.fetchall())
            cursor.execute(_KEY, parameters)
            key = cursor.fetchall()
        if not columns:
            raise TableError(f"the database has no table `{access.table.table}`")
        if access.cursor not in columns:
            raise TableError(f"the table has no column `{access.cursor}`")
        return cls(key=tuple(name for (name,) in key), is_text=bool(columns[access.cursor]))


def _batches(
    connection: "_Connection", access: TableAccess, shape: _MysqlTableShape, start: Cursor | None
) -> Iterator[list[TableRow]]:
    ordered = _quoted(access.cursor)
    if shape.is_text:
        ordered = f"CAST(CONVERT({ordered} USING utf8mb4) AS BINARY)"
    table = ".".join(_quoted(part) for part in access.table.table.split("."))
    wanted = "IS NOT NULL" if start is None else ">= %s"
    lowest = start.encode() if isinstance(start, str) else start
    rows = connection.cursor(SSDictCursor)
    rows.execute(
        f"SELECT * FROM {table} WHERE {ordered} {wanted} ORDER BY {ordered}",  # noqa: S608 (quoted)
        (() if start is None else (lowest,)),
    )
    while batch := rows.fetchmany(BATCH):
        yield list(batch)


def _quoted(name: str) -> str:
    # In a statement with parameters, a percent sign must be doubled.
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


def _connect(access: TableAccess) -> "_Connection":
    database = access.table.database
    if not isinstance(database, SqlDatabase):
        raise TypeError("not a database of MySQL")
    options, target = driver_options(database), server_at(database.host, database.port)
    connection = pymysql.connect(
        host=target.host,
        port=database.port,
        database=database.db_name,
        user=access.reveal(database.username, (target,)),
        password=access.reveal(database.password, (target,)),
        defer_connect=True,
        charset="utf8mb4",
        connect_timeout=CONNECT_S,
        program_name="narthex",
        init_command=_BEFORE,
        conv=_CONVERSIONS,
        **_trust(options.get("sslMode", "PREFERRED"), access.ca_file),
    )
    # TLS verifies the original name; the connection uses the checked address.
    connection.connect(open_socket(target, access.egress, timeout_s=CONNECT_S))
    return connection


def _trust(mode: str, ca_file: str) -> Mapping[str, object]:
    """Return the TLS parameters for a mode, by the name that the database's own drivers use."""
    match mode.upper():
        case "DISABLED":
            return {"ssl_disabled": True}
        case "PREFERRED":
            return {}
        case "REQUIRED" | "VERIFY_CA" | "VERIFY_IDENTITY" as wanted:
            tls = ssl.create_default_context(cafile=ca_file or None)
            tls.check_hostname = wanted == "VERIFY_IDENTITY"
            if wanted == "REQUIRED":
                tls.verify_mode = ssl.CERT_NONE
            return {"ssl": tls}
        case _:
            raise TableError(f"unknown `sslMode` `{mode}`; use `VERIFY_IDENTITY` or a weaker mode")

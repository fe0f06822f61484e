"""Redshift tables: an old Postgres protocol, so cursors are declared and literals are inlined.

Redshift does not enforce primary keys, so all values of a row together identify it. For a role, AWS
returns the database user and its password, which is valid for an hour.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from narthex._connectors import server_at
from narthex._connectors.redshift import RedshiftDatabase
from narthex_spark_apps.platform.optional_clients import load_client
from narthex_spark_apps.platform.outgoing_connections import libpq_host
from narthex_spark_apps.sources.tables.cursors import Cursor
from narthex_spark_apps.sources.tables.reader import (
    CONNECT_S,
    TableAccess,
    TableError,
    TableRow,
    TableScan,
)

FETCHED: Final = 1_000
"""The most rows that a single-node cluster returns at once."""


@contextmanager
def reading(access: TableAccess, start: Cursor | None) -> Iterator[TableScan]:
    """Open a scan; see `ReadsTable`."""
    database = access.table.database
    if not isinstance(database, RedshiftDatabase):
        raise TypeError("not a database of Redshift")
    where = libpq_host(server_at(database.host, database.port), access.egress)
    user, password = _account(database, access)
    table = sql.Identifier(database.schema, *access.table.table.split("."))
    try:
        with psycopg.connect(
            make_conninfo("", **where),
            dbname=database.db_name,
            user=user,
            password=password,
            connect_timeout=CONNECT_S,
            application_name="narthex",
            # Redshift's name for its encoding differs from that of all other servers.
            client_encoding="utf8",
            sslrootcert=access.ca_file or None,
            prepare_threshold=None,
            row_factory=dict_row,
            cursor_factory=psycopg.ClientCursor,
        ) as connection:
            connection.read_only = True
            connection.execute("SET timezone TO 'UTC'")
            yield TableScan(key=(), batches=_batches(connection, table, access.cursor, start))
    except psycopg.Error as error:
        raise TableError(str(error).strip()) from None


def _account(database: RedshiftDatabase, access: TableAccess) -> tuple[str, str]:
    if database.username is not None and database.password is not None:
        to = (server_at(database.host, database.port),)
        return access.reveal(database.username, to), access.reveal(database.password, to)
    aws_clients = load_client(
        "narthex_spark_apps.platform.aws_clients", install="narthex[redshift]"
    )
    found: tuple[str, str] = aws_clients.redshift_account(database)
    return found


def _batches(
    connection: "psycopg.Connection[TableRow]",
    table: sql.Composable,
    cursor: str,
    start: Cursor | None,
) -> Iterator[list[TableRow]]:
    statement = sql.SQL(
        "DECLARE narthex_rows CURSOR FOR "
        "SELECT * FROM {table} WHERE {ordered} {wanted} ORDER BY {ordered}"
    ).format(
        table=table,
        wanted=sql.SQL("IS NOT NULL" if start is None else ">= %s"),
        ordered=sql.Identifier(cursor),
    )
    connection.execute(statement, None if start is None else (start,))
    fetch = sql.SQL("FETCH FORWARD {} FROM narthex_rows").format(sql.Literal(FETCHED))
    while batch := connection.execute(fetch).fetchall():
        yield batch

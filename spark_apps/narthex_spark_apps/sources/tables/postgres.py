"""Postgres tables: one statement in one snapshot, read through a server-side cursor."""

from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from narthex._connectors import driver_options, server_at
from narthex._ir import SqlDatabase
from narthex_spark_apps.platform.outgoing_connections import libpq_host
from narthex_spark_apps.sources.tables.cursors import Cursor
from narthex_spark_apps.sources.tables.reader import (
    BATCH,
    CONNECT_S,
    TableAccess,
    TableError,
    TableRow,
    TableScan,
)

_KEY = """
    SELECT a.attname FROM pg_index i
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
    WHERE i.indrelid = %s::regclass AND i.indisprimary
    ORDER BY array_position(i.indkey::int2[], a.attnum)
"""
_IS_TEXT = """
    SELECT attcollation <> 0 FROM pg_attribute
    WHERE attrelid = %s::regclass AND attname = %s AND NOT attisdropped
"""


@contextmanager
def reading(access: TableAccess, start: Cursor | None) -> Iterator[TableScan]:
    """Open a scan; see `ReadsTable`."""
    try:
        with _connect(access) as connection:
            table = sql.Identifier(*access.table.table.split("."))
            shape = _PostgresTableShape.of(connection, table.as_string(connection), access.cursor)
            ordered: sql.Composable = sql.Identifier(access.cursor)
            if shape.is_text:
                ordered += sql.SQL(' COLLATE "C"')
            batches = _batches(connection, table, ordered, start)
            yield TableScan(key=shape.key, batches=batches)
    except psycopg.Error as error:
        raise TableError(str(error).strip()) from None


def _connect(access: TableAccess) -> "psycopg.Connection[TableRow]":
    database = access.table.database
    if not isinstance(database, SqlDatabase):
        raise TypeError("not a database of Postgres")
    target = server_at(database.host, database.port)
    more = {
        "connect_timeout": str(CONNECT_S),
        "application_name": "narthex",
        **driver_options(database),
        **libpq_host(target, access.egress),
    }
    if access.ca_file:
        more["sslrootcert"] = access.ca_file
    return psycopg.connect(
        make_conninfo("", **more),
        dbname=database.db_name,
        user=access.reveal(database.username, (target,)),
        password=access.reveal(database.password, (target,)),
        options="-c timezone=UTC -c default_transaction_read_only=on",
        row_factory=dict_row,
    )


@attrs.frozen(kw_only=True)
class _PostgresTableShape:
    """Table metadata, queried once per scan: the primary key, and whether the cursor is text."""

    key: tuple[str, ...]
    is_text: bool

    @classmethod
    def of(
        cls, connection: "psycopg.Connection[TableRow]", table: str, cursor: str
    ) -> "_PostgresTableShape":
        key = connection.execute(_KEY, (table,)).fetchall()
        text = connection.execute(_IS_TEXT, (table, cursor)).fetchone()
        if text is None:
            raise TableError(f"the table has no column `{cursor}`")
        return cls(
            key=tuple(str(row["attname"]) for row in key), is_text=bool(next(iter(text.values())))
        )


def _batches(
    connection: "psycopg.Connection[TableRow]",
    table: sql.Composable,
    ordered: sql.Composable,
    start: Cursor | None,
) -> Iterator[list[TableRow]]:
    statement = sql.SQL("SELECT * FROM {table} WHERE {ordered} {wanted} ORDER BY {ordered}").format(
        table=table,
        wanted=sql.SQL("IS NOT NULL" if start is None else ">= %s"),
        ordered=ordered,
    )
    with connection.cursor(name="narthex_rows") as rows:
        rows.execute(statement, None if start is None else (start,))
        while batch := rows.fetchmany(BATCH):
            yield batch

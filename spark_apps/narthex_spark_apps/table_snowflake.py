"""Tables of Snowflake: one statement, whose result stays as it was while it is fetched.

A name is written as its author would write it there: without quotes unless it needs them, so that
`orders` finds `ORDERS`. Columns that were made without quotes come in lower case. Nothing that
Snowflake knows of a primary key is held to: rows are told apart by all that they are.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final

from snowflake import connector
from snowflake.connector import errors
from snowflake.connector.constants import FIELD_ID_TO_NAME

from narthex.connections import SnowflakeDatabase
from narthex_spark_apps.table_cursors import Cursor
from narthex_spark_apps.table_readings import (
    BATCH,
    CONNECT_S,
    Reading,
    Row,
    TableAccess,
    TableError,
)

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")


@contextmanager
def reading(access: TableAccess, start: Cursor | None) -> Iterator[Reading]:
    """Open a reading, as `ReadsTable`."""
    try:
        with closing(connect(access)) as connection, closing(connection.cursor()) as rows:
            yield Reading(key=(), batches=_batches(rows, access, start))
    except errors.Error as error:
        raise TableError(str(error.msg or error).strip()) from None


def connect(access: TableAccess) -> "connector.SnowflakeConnection":
    """Connect to a schema of an account.

    Raises:
        SecretMissing: A secret that lets us in is not there.
    """
    database = access.table.database
    if not isinstance(database, SnowflakeDatabase):
        raise TypeError("not a database of Snowflake")
    return connector.connect(
        account=database.account,
        user=access.reveal(database.username),
        password=access.reveal(database.password),
        database=database.db_name,
        schema=database.schema,
        warehouse=database.warehouse,
        role=database.role,
        application="narthex",
        login_timeout=CONNECT_S,
        session_parameters={"TIMEZONE": "UTC", "QUERY_TAG": "narthex"},
    )


def quoted(name: str) -> str:
    """Write a name, each of its parts as it needs; `%` twice, for it stands among parameters."""
    parts = name.split(".")
    return ".".join(
        part if _PLAIN.fullmatch(part) else '"' + part.replace('"', '""').replace("%", "%%") + '"'
        for part in parts
    )


def folded(column: str) -> str:
    """Give a column's name as who wrote it without quotes did, in lower case."""
    return column.lower() if column == column.upper() and _PLAIN.fullmatch(column) else column


def _batches(
    rows: "connector.cursor.SnowflakeCursor", access: TableAccess, start: Cursor | None
) -> Iterator[list[Row]]:
    table, ordered = quoted(access.table.table), quoted(access.cursor)
    (described,) = rows.describe(f"SELECT {ordered} FROM {table}")  # noqa: S608 (quoted)
    if FIELD_ID_TO_NAME[described.type_code] == "TEXT":
        ordered += " COLLATE 'utf8'"  # by bytes, whatever the column's own order is
    wanted = "IS NOT NULL" if start is None else ">= %s"
    rows.execute(
        f"SELECT * FROM {table} WHERE {ordered} {wanted} ORDER BY {ordered}",  # noqa: S608 (quoted)
        None if start is None else (start,),
    )
    names = [folded(column.name) for column in rows.description]
    while batch := rows.fetchmany(BATCH):
        yield [_row(names, cells) for cells in batch]


def _row(names: Sequence[str], cells: Sequence[object]) -> Row:
    return dict(zip(names, cells, strict=True))

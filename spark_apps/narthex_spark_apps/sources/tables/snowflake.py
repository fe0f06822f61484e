"""Snowflake tables: one statement, whose result does not change while it is fetched.

A name is resolved as if it were unquoted, unless it needs quotes: `orders` finds `ORDERS`, and
columns that were created without quotes get lower-case names. Snowflake does not enforce primary
keys, so all values of a row together identify it.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final

from snowflake import connector
from snowflake.connector import errors
from snowflake.connector.constants import FIELD_ID_TO_NAME

from narthex._connectors import EgressRules
from narthex._connectors.snowflake import SnowflakeDatabase, snowflake_target
from narthex_spark_apps.platform.outgoing_connections import pinned
from narthex_spark_apps.sources.tables.cursors import Cursor
from narthex_spark_apps.sources.tables.reader import (
    BATCH,
    CONNECT_S,
    Reveals,
    TableAccess,
    TableError,
    TableRow,
    TableScan,
)

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")


@contextmanager
def reading(access: TableAccess, start: Cursor | None) -> Iterator[TableScan]:
    """Open a scan; see `ReadsTable`."""
    database = access.table.database
    if not isinstance(database, SnowflakeDatabase):
        raise TypeError("not a database of Snowflake")
    try:
        with (
            closing(connect(database, access.reveal, access.egress)) as connection,
            closing(connection.cursor()) as rows,
        ):
            yield TableScan(key=(), batches=_batches(rows, access, start))
    except errors.Error as error:
        raise TableError(str(error.msg or error).strip()) from None


def connect(
    database: SnowflakeDatabase, reveal: Reveals, egress: EgressRules
) -> "connector.SnowflakeConnection":
    """Connect to a schema of an account.

    Args:
        database: The account and the schema.
        reveal: Returns the value of a credential.
        egress: The hosts that the policy allows.

    Raises:
        SecretMissing: A secret for the account is missing.
        SecretWithheld: The account is not allowed to receive the secret.
        ConnectionDenied: The policy does not allow the account's address.
    """
    target = snowflake_target(database)
    # The driver resolves the name again; its domain belongs to Snowflake, not to an author.
    pinned(target, egress)
    return connector.connect(
        account=database.account,
        host=target.host,
        user=reveal(database.username, (target,)),
        password=reveal(database.password, (target,)),
        database=database.db_name,
        schema=database.schema,
        warehouse=database.warehouse,
        role=database.role,
        application="narthex",
        login_timeout=CONNECT_S,
        session_parameters={"TIMEZONE": "UTC", "QUERY_TAG": "narthex"},
    )


def quoted(name: str) -> str:
    """Quote a name, so that no part of it is read as SQL."""
    parts = (part.upper() if _PLAIN.fullmatch(part) else part for part in name.split("."))
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def among_parameters(text: str) -> str:
    """Escape `%` in a text that becomes part of a statement with parameters."""
    return text.replace("%", "%%")


def folded(column: str) -> str:
    """Return the public name of a column: lower case if it was created without quotes."""
    return column.lower() if column == column.upper() and _PLAIN.fullmatch(column) else column


def _batches(
    rows: "connector.cursor.SnowflakeCursor", access: TableAccess, start: Cursor | None
) -> Iterator[list[TableRow]]:
    table, ordered = quoted(access.table.table), quoted(access.cursor)
    (described,) = rows.describe(f"SELECT {ordered} FROM {table}")  # noqa: S608 (quoted)
    if FIELD_ID_TO_NAME[described.type_code] == "TEXT":
        ordered += " COLLATE 'utf8'"  # by bytes, whatever the column's own order is
    chosen, order = f"SELECT * FROM {table} WHERE {ordered}", f"ORDER BY {ordered}"  # noqa: S608 (quoted)
    if start is None:
        rows.execute(f"{chosen} IS NOT NULL {order}")
    else:
        rows.execute(f"{among_parameters(chosen)} >= %s {among_parameters(order)}", (start,))
    names = [folded(column.name) for column in rows.description]
    while batch := rows.fetchmany(BATCH):
        yield [_row(names, cells) for cells in batch]


def _row(names: Sequence[str], cells: Sequence[object]) -> TableRow:
    return dict(zip(names, cells, strict=True))

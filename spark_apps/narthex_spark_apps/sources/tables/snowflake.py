"""Tables of Snowflake: one statement, whose result stays as it was while it is fetched.

A name means what it would without quotes there, unless it needs them: `orders` finds `ORDERS`, and
columns that were made without quotes come in lower case. Nothing that Snowflake knows of a primary
key is held to: rows are told apart by all that they are.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final

from snowflake import connector
from snowflake.connector import errors
from snowflake.connector.constants import FIELD_ID_TO_NAME

from narthex._analysis.policy import EgressRules, snowflake_target
from narthex._ir import SnowflakeDatabase
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
    """Open a reading, as `ReadsTable`."""
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
        database: Where.
        reveal: Returns the value of a credential.
        egress: The hosts that the policy allows.

    Raises:
        SecretMissing: A secret that lets us in is not there.
        SecretWithheld: The account may not be sent it.
        ConnectionDenied: The account is at an address that the policy does not allow.
    """
    target = snowflake_target(database)
    # The driver resolves the name again; its domain is Snowflake's, and no author answers for it.
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
    """Write a name so that no part of it is a word of the language."""
    parts = (part.upper() if _PLAIN.fullmatch(part) else part for part in name.split("."))
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def among_parameters(text: str) -> str:
    """Write what stands in a statement that has parameters, where `%` begins one."""
    return text.replace("%", "%%")


def folded(column: str) -> str:
    """Return a column's name as who wrote it without quotes did, in lower case."""
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

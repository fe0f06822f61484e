"""A sink into a Postgres table: one table row for each current row.

The changes of one call are one transaction, which also raises the sink's mark in the table
`narthex_sinks`. Changes repeated after a crash find their mark and change nothing, and a run that
was taken over finds a greater mark and fails: each change is in the table exactly once.
"""

import base64
from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb
from typing_extensions import override

from narthex._base import Json
from narthex._connectors import driver_options, server_at
from narthex._ir import DataType, SinkJobSpec, SqlDatabase, Table, TypeMapper
from narthex.settings import Settings
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.platform.outgoing_connections import libpq_host
from narthex_spark_apps.sinks.changes import RowChange
from narthex_spark_apps.sinks.sink_stage import SinkFailedError, Target
from narthex_spark_apps.sinks.table_rows import SinkTableLayout, net

CONNECT_S: Final = 10
_TYPES: Final[TypeMapper[str]] = TypeMapper(
    int="bigint",
    float="double precision",
    bool="boolean",
    str="text",
    bytes="bytea",
    datetime="timestamptz",
    date="date",
    decimal=lambda _: "numeric",
    list=lambda _, __: "jsonb",
    map=lambda _, __: "jsonb",
    embedding=lambda _, __: "jsonb",
    struct=lambda _, __: "jsonb",
    null=lambda: "jsonb",
)
_FENCE = """
    INSERT INTO narthex_sinks (sink, mark) VALUES (%(sink)s, %(mark)s)
    ON CONFLICT (sink) DO UPDATE SET mark = excluded.mark WHERE narthex_sinks.mark < excluded.mark
    RETURNING mark
"""


class PostgresSink(Target):
    """One table; it and the table of marks are created if they do not exist."""

    def __init__(
        self,
        database: SqlDatabase,
        *,
        table: str,
        name: str,
        spec: SinkJobSpec,
        settings: Settings,
    ) -> None:
        """Write to a table as the sink `name`; the first write connects."""
        self._database = database
        self._table = sql.Identifier(*table.split("."))
        self._name = name
        self._spec = spec
        self._settings = settings
        self._layout = SinkTableLayout.of(spec)
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None

    @override
    def write(self, changes: Sequence[RowChange], *, mark: int) -> None:
        """Write the changes in one transaction, unless the table has them already."""
        try:
            connection = self._open()
            with connection.transaction():
                fresh = connection.execute(_FENCE, {"sink": self._name, "mark": mark}).fetchone()
                if fresh is None:
                    self._refuse_if_taken_over(connection, mark)
                else:
                    self._apply(connection, net(changes))
        except psycopg.Error as error:
            self.close()
            raise SinkFailedError(f"`{self._spec.dataset}`: {str(error).strip()}") from None

    def _refuse_if_taken_over(
        self, connection: "psycopg.Connection[tuple[object, ...]]", mark: int
    ) -> None:
        found = connection.execute(
            "SELECT mark FROM narthex_sinks WHERE sink = %s", (self._name,)
        ).fetchone()
        if found is not None and found[0] != mark:
            raise SinkFailedError(f"a newer run writes to the table of `{self._spec.dataset}`")

    def _apply(
        self, connection: "psycopg.Connection[tuple[object, ...]]", changes: Sequence[RowChange]
    ) -> None:
        gone = [self._cells(change) for change in changes if change.after is None]
        current = [self._cells(change) for change in changes if change.after is not None]
        with connection.cursor() as cursor:
            if gone:
                cursor.executemany(self._delete(), gone)
            if current:
                cursor.executemany(self._upsert(), current)

    def _cells(self, change: RowChange) -> dict[str, object]:
        return self._layout.cells(change, self._spec, cell=_cell)

    def _delete(self) -> sql.Composed:
        same = sql.SQL(" AND ").join(
            sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name))
            for name in self._layout.identity
        )
        return sql.SQL("DELETE FROM {} WHERE {}").format(self._table, same)

    def _upsert(self) -> sql.Composed:
        names = list(self._layout.types)
        others = [name for name in names if name not in self._layout.identity]
        return sql.SQL(
            "INSERT INTO {table} ({names}) VALUES ({values})"
            " ON CONFLICT ({identity}) DO UPDATE SET {others}"
        ).format(
            table=self._table,
            names=sql.SQL(", ").join(map(sql.Identifier, names)),
            values=sql.SQL(", ").join(map(sql.Placeholder, names)),
            identity=sql.SQL(", ").join(map(sql.Identifier, self._layout.identity)),
            others=sql.SQL(", ").join(
                sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others
            ),
        )

    def _open(self) -> "psycopg.Connection[tuple[object, ...]]":
        if self._connection is None or self._connection.closed:
            secrets, target = (
                AuthorSecrets.of(self._settings),
                server_at(self._database.host, self._database.port),
            )
            more = {
                "connect_timeout": str(CONNECT_S),
                "application_name": "narthex",
                **driver_options(self._database),
                **libpq_host(target, secrets.egress()),
            }
            if self._settings.ca_file:
                more["sslrootcert"] = self._settings.ca_file
            self._connection = psycopg.connect(
                make_conninfo("", **more),
                dbname=self._database.db_name,
                user=secrets.reveal(self._database.username, (target,)),
                password=secrets.reveal(self._database.password, (target,)),
                autocommit=True,
            )
            self._make(self._connection)
        return self._connection

    def _make(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS narthex_sinks (sink text PRIMARY KEY, mark bigint NOT NULL)"
        )
        columns = [
            sql.SQL("{} " + _TYPES(of)).format(sql.Identifier(name))
            for name, of in self._layout.types.items()
        ]
        key = sql.SQL(", ").join(map(sql.Identifier, self._layout.identity))
        connection.execute(
            sql.SQL("CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({}))").format(
                self._table, sql.SQL(", ").join(columns), key
            )
        )

    @override
    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _cell(rendered: Json, of: DataType) -> object:
    """Return a cell as a parameter: Postgres reads instants, days and numbers as text."""
    match _TYPES(of), rendered:
        case _, None:
            return None
        case "bytea", str():
            return base64.b64decode(rendered)
        case "jsonb", _:
            return Jsonb(rendered)
        case _:
            return rendered


def open_target(spec: SinkJobSpec, *, name: str, settings: Settings) -> PostgresSink:
    """Open the target of a sink.

    Raises:
        TypeError: The sink has another kind of target.
    """
    target = spec.sink.target
    if not (isinstance(target, Table) and isinstance(target.database, SqlDatabase)):
        raise TypeError("not a table of Postgres")
    return PostgresSink(
        target.database, table=target.table, name=name, spec=spec, settings=settings
    )

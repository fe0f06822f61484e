"""A sink into a Snowflake table: one table row for each current row.

The changes of one call are one transaction, which first raises the sink's mark in the table
`narthex_sinks`, as in `postgres`: each change is in the table exactly once, and a run that was
taken over fails. One statement writes the changes to a temporary table and another one merges
them: a statement occupies a warehouse as long for one row as for thousands.
"""

import base64
import datetime as dt
import decimal
import json
import secrets
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs
from snowflake import connector
from snowflake.connector import errors
from typing_extensions import override

from narthex._base import Json
from narthex._connectors.snowflake import SnowflakeDatabase
from narthex._ir import DataType, Decimal, SinkJobSpec, Table, TypeMapper
from narthex.settings import Settings
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.sinks.changes import RowChange
from narthex_spark_apps.sinks.sink_stage import SinkFailedError, Target
from narthex_spark_apps.sinks.table_rows import SinkTableLayout, net
from narthex_spark_apps.sources.tables.snowflake import among_parameters, connect, quoted

GONE: Final = "_narthex_gone"
_VARIANT: Final = "VARIANT"
_MARKS = "CREATE TABLE IF NOT EXISTS narthex_sinks (sink VARCHAR NOT NULL, mark NUMBER(19, 0))"
# Snowflake does not enforce primary keys. Two runs that start at once insert two rows for a sink;
# both rows are raised together from then on.
_FIRST = """
    INSERT INTO narthex_sinks (sink, mark)
    SELECT %s, -1 WHERE NOT EXISTS (SELECT 1 FROM narthex_sinks WHERE sink = %s)
"""
_FENCE = "UPDATE narthex_sinks SET mark = %s WHERE sink = %s AND mark < %s"


_Parameter: TypeAlias = Callable[[Json], object]
"""Converts a rendered cell, not null, to a parameter of a statement."""


def _unchanged(rendered: Json) -> object:
    return rendered


@attrs.frozen
class _TableColumn:
    """The form of one type in a table: the type of the column, and the parameter for a cell."""

    type: str
    parameter: _Parameter = _unchanged


class SnowflakeSink(Target):
    """One table; it and the table of marks are created if they do not exist."""

    def __init__(
        self,
        database: SnowflakeDatabase,
        *,
        table: str,
        name: str,
        spec: SinkJobSpec,
        settings: Settings,
    ) -> None:
        """Write to a table as the sink `name`; the first write connects."""
        self._database = database
        self._table = quoted(table)
        self._staged = f"narthex_changes_{secrets.token_hex(6)}"
        self._name = name
        self._spec = spec
        self._settings = settings
        self._layout = SinkTableLayout.of(spec)
        self._types = {name: _COLUMNS(of).type for name, of in self._layout.types.items()}
        self._connection: connector.SnowflakeConnection | None = None

    @override
    def write(self, changes: Sequence[RowChange], *, mark: int) -> None:
        """Write the changes in one transaction, unless the table has them already."""
        try:
            with self._open().cursor() as cursor:
                cursor.execute("BEGIN")
                cursor.execute(_FENCE, (mark, self._name, mark))
                if cursor.rowcount:
                    self._apply(cursor, net(changes))
                else:
                    self._refuse_if_taken_over(cursor, mark)
                cursor.execute("COMMIT")
        except errors.Error as error:
            self.close()
            raise SinkFailedError(f"`{self._spec.dataset}`: {error.msg or error}".strip()) from None
        except SinkFailedError:
            self.close()
            raise

    def _refuse_if_taken_over(self, cursor: "connector.cursor.SnowflakeCursor", mark: int) -> None:
        cursor.execute("SELECT max(mark) FROM narthex_sinks WHERE sink = %s", (self._name,))
        found = cursor.fetchone()
        if found is not None and int(found[0]) != mark:
            raise SinkFailedError(f"a newer run writes to the table of `{self._spec.dataset}`")

    def _apply(
        self, cursor: "connector.cursor.SnowflakeCursor", changes: Sequence[RowChange]
    ) -> None:
        names = among_parameters(", ".join((*map(quoted, self._types), GONE)))
        holes = ", ".join(["%s"] * (len(self._types) + 1))
        cursor.execute(f"DELETE FROM {self._staged}")  # noqa: S608 (a name of ours)
        cursor.executemany(
            f"INSERT INTO {self._staged} ({names}) VALUES ({holes})",  # noqa: S608 (quoted)
            [self._cells(change) for change in changes],
        )
        cursor.execute(self._merge())

    def _cells(self, change: RowChange) -> tuple[object, ...]:
        cells = self._layout.cells(change, self._spec, cell=_cell)
        return (*(cells[name] for name in self._types), change.after is None)

    def _merge(self) -> str:
        names = {name: quoted(name) for name in self._types}
        identity = [names[name] for name in self._layout.identity]
        others = [column for column in names.values() if column not in identity]
        read = ", ".join(
            f"PARSE_JSON({column}) AS {column}" if self._types[name] == _VARIANT else column
            for name, column in names.items()
        )
        return (
            f"MERGE INTO {self._table} AS t"  # noqa: S608 (quoted)
            f" USING (SELECT {read}, {GONE} FROM {self._staged}) AS s"
            f" ON {' AND '.join(f't.{column} = s.{column}' for column in identity)}"
            f" WHEN MATCHED AND s.{GONE} THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {', '.join(f'{c} = s.{c}' for c in others)}"
            f" WHEN NOT MATCHED AND NOT s.{GONE} THEN INSERT ({', '.join(names.values())})"
            f" VALUES ({', '.join(f's.{column}' for column in names.values())})"
        )

    def _open(self) -> "connector.SnowflakeConnection":
        if self._connection is None:
            secrets = AuthorSecrets.of(self._settings)
            self._connection = connect(self._database, secrets.reveal, secrets.egress())
            with self._connection.cursor() as cursor:
                self._make(cursor)
        return self._connection

    def _make(self, cursor: "connector.cursor.SnowflakeCursor") -> None:
        columns = {quoted(name): of for name, of in self._types.items()}
        definitions = ", ".join(f"{column} {of}" for column, of in columns.items())
        # The temporary table holds text for the columns that are parsed while merging.
        staged = ", ".join(
            f"{c} {'VARCHAR' if of == _VARIANT else of}" for c, of in columns.items()
        )
        cursor.execute(_MARKS)
        cursor.execute(_FIRST, (self._name, self._name))
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {self._table} ({definitions})")
        cursor.execute(f"CREATE TEMPORARY TABLE {self._staged} ({staged}, {GONE} BOOLEAN)")

    @override
    def close(self) -> None:
        """Close the connection; uncommitted changes are rolled back."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _cell(rendered: Json, of: DataType) -> object:
    """Return a cell as a parameter of the statement that stages it."""
    return None if rendered is None else _COLUMNS(of).parameter(rendered)


def _parsed_text(parse: Callable[[str], object]) -> _Parameter:
    return lambda rendered: parse(rendered) if isinstance(rendered, str) else rendered


def _json_text(rendered: Json) -> object:
    return json.dumps(rendered, separators=(",", ":"), ensure_ascii=False)


def _decimal(dtype: Decimal) -> _TableColumn:
    return _TableColumn(f"NUMBER(38, {dtype.scale})", _parsed_text(decimal.Decimal))


_JSON = _TableColumn(_VARIANT, _json_text)
_COLUMNS: Final[TypeMapper[_TableColumn]] = TypeMapper(
    int=_TableColumn("NUMBER(19, 0)"),
    float=_TableColumn("FLOAT"),
    bool=_TableColumn("BOOLEAN"),
    str=_TableColumn("VARCHAR"),
    bytes=_TableColumn("BINARY", _parsed_text(base64.b64decode)),
    datetime=_TableColumn("TIMESTAMP_TZ(6)", _parsed_text(dt.datetime.fromisoformat)),
    date=_TableColumn("DATE", _parsed_text(dt.date.fromisoformat)),
    decimal=_decimal,
    list=lambda _, __: _JSON,
    map=lambda _, __: _JSON,
    embedding=lambda _, __: _JSON,
    struct=lambda _, __: _JSON,
    null=lambda: _JSON,
)


def open_target(spec: SinkJobSpec, *, name: str, settings: Settings) -> SnowflakeSink:
    """Open the target of a sink.

    Raises:
        TypeError: The sink has another kind of target.
    """
    target = spec.sink.target
    if not (isinstance(target, Table) and isinstance(target.database, SnowflakeDatabase)):
        raise TypeError("not a table of Snowflake")
    return SnowflakeSink(
        target.database, table=target.table, name=name, spec=spec, settings=settings
    )

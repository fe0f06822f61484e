"""Sources of tables: asked again and again for what stands at or after their cursor.

One reading is one statement in one snapshot, in the order of the cursor. What is read again gives
the same facts; most of it is known to be there, and not appended again. Rows whose cursor is null
have no place and are not read.
"""

import datetime as dt
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

import attrs
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from narthex.connections import SqlDatabase, Table
from narthex.records import to_plain
from narthex.settings import Settings
from narthex.times import SECOND_US, to_micros
from narthex_spark_apps.admitted_rows import Arrived, Place, RowRenderer
from narthex_spark_apps.author_secrets import AuthorSecrets
from narthex_spark_apps.plain_values import plain
from narthex_spark_apps.source_job import SourceJob
from narthex_spark_apps.table_cursors import Cursor, Reach, cursor_of, place_of
from narthex_stores import LogProducer

BATCH = 5_000
CONNECT_S = 10
REMEMBERED: Final = 200_000
"""How many of the newest rows are known, so that reading them again does not append them again."""

EVERY_US: Final = 60 * SECOND_US
"""How often a table is asked where its source does not say."""

_DIGEST_BYTES: Final = 16

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


class TableError(OSError):
    """A table cannot be read: its database does not answer, or there is no such column."""


@attrs.frozen(kw_only=True)
class _Shape:
    """What of a table is asked once a reading: its primary key, whether its cursor is text."""

    key: tuple[str, ...]
    is_text: bool


class TableSource:
    """The table of one source job, and how far it was read."""

    def __init__(self, job: SourceJob, *, settings: Settings, memory: Path) -> None:
        """Remember how far it was read in the file `memory`."""
        connector = job.spec.source.connector
        if not isinstance(connector, Table) or not isinstance(connector.database, SqlDatabase):
            raise TypeError("only a source of a table of a database has rows to ask for")
        if connector.cursor is None:
            raise TypeError("a table is read by a cursor")
        self._connector = connector
        self._database = connector.database
        self._cursor = connector.cursor
        self._job = job
        self._settings = settings
        self._memory = memory
        self._disorder_us = job.spec.source.disorder_us
        self._known: dict[tuple[int, bytes], bytes] = {}
        self._renderer = RowRenderer.of(
            json.dumps(to_plain(job.spec)),
            source_id="",
            output=job.output,
            quarantine=job.quarantine,
        )

    @property
    def every_s(self) -> float:
        """How often it is asked, seconds."""
        return (self._job.spec.source.every_us or EVERY_US) / SECOND_US

    def close(self) -> None:
        """End the worker that ran code of the author, if one was started."""
        self._renderer.close()

    def read(
        self, producer: LogProducer, *, stopped: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Read to the table's end; give how many rows came, were refused and were left out.

        Args:
            producer: What facts are appended by; they stand when this returns.
            stopped: Asked between batches; a reading that is stopped is repeated as a whole.

        Raises:
            TableError: The database does not answer, or has no such table or column.
            NoCursorError: A row's cursor orders nothing.
            StoreError: Something could not be appended.
            SecretMissing: A secret that lets us in is not there.
        """
        now_us = to_micros(dt.datetime.now(dt.UTC))
        reach = self._reach()
        start = reach.start(now_us=now_us, disorder_us=self._disorder_us)
        counts = {"rows": 0, "quarantined": 0, "left_out": 0}
        high: Cursor | None = None
        # A reading that fails knows nothing of what it has appended.
        known, self._known = self._known, {}
        try:
            with self._connect() as connection:
                for batch in self._batches(connection, start):
                    if stopped():
                        return counts
                    high = batch[-1][0]
                    fresh = [row for _, row in batch if self._is_news(known, row)]
                    self._take(fresh, producer, counts)
        except psycopg.Error as error:
            where = f"`{self._job.spec.source_id}`"
            raise TableError(f"{where}: {str(error).strip()}") from None
        self._known = known
        self._remember(reach.after(high, now_us=now_us, disorder_us=self._disorder_us))
        return counts

    def newest_us(self) -> int | None:
        """Give the greatest event time of the rows that this process admitted."""
        return self._renderer.newest_us

    @staticmethod
    def _is_news(known: dict[tuple[int, bytes], bytes], arrived: Arrived) -> bool:
        """Whether a row is not known to have been appended as it is; it is known from now on."""
        place = (arrived.place.offset, arrived.place.rest)
        told = json.dumps(arrived.row, sort_keys=True).encode()
        digest = hashlib.blake2b(told, digest_size=_DIGEST_BYTES).digest()
        is_news = known.pop(place, None) != digest
        known[place] = digest
        if len(known) > REMEMBERED:
            del known[next(iter(known))]
        return is_news

    def _take(self, rows: Sequence[Arrived], producer: LogProducer, counts: dict[str, int]) -> None:
        for made in self._renderer.render(rows):
            counts["rows"] += 1
            counts["left_out"] += not made
            for topic, key, value in made:
                counts["quarantined"] += topic == self._job.quarantine
                producer.post(topic, key=key, value=value)
        producer.flush()

    def _connect(self) -> "psycopg.Connection[dict[str, object]]":
        reveal = AuthorSecrets.of(self._settings).reveal
        more = dict(parse_qsl(self._database.jdbc_params or ""))
        if self._settings.ca_file:
            more.setdefault("sslrootcert", self._settings.ca_file)
        return psycopg.connect(
            make_conninfo("", **more),
            host=self._database.host,
            port=self._database.port,
            dbname=self._database.db_name,
            user=reveal(self._database.username),
            password=reveal(self._database.password),
            connect_timeout=CONNECT_S,
            application_name="narthex",
            options="-c timezone=UTC -c default_transaction_read_only=on",
            row_factory=dict_row,
        )

    def _batches(
        self, connection: "psycopg.Connection[dict[str, object]]", start: Cursor | None
    ) -> Iterator[Sequence[tuple[Cursor, Arrived]]]:
        table = sql.Identifier(*self._connector.table.split("."))
        shape = self._shape(connection, table.as_string(connection))
        column: sql.Composable = sql.Identifier(self._cursor)
        ordered = column + sql.SQL(' COLLATE "C"') if shape.is_text else column
        statement = sql.SQL("SELECT * FROM {table} WHERE {wanted} ORDER BY {ordered}").format(
            table=table,
            wanted=(
                sql.SQL("{} IS NOT NULL").format(column)
                if start is None
                else sql.SQL("{} >= %s").format(ordered)
            ),
            ordered=ordered,
        )
        with connection.cursor(name="narthex_rows") as rows:
            rows.execute(statement, None if start is None else (start,))
            while batch := rows.fetchmany(BATCH):
                yield [self._arrived(row, shape) for row in batch]

    def _shape(self, connection: "psycopg.Connection[dict[str, object]]", table: str) -> _Shape:
        key = connection.execute(_KEY, (table,)).fetchall()
        text = connection.execute(_IS_TEXT, (table, self._cursor)).fetchone()
        if text is None:
            raise TableError(f"`{self._job.spec.source_id}` has no column `{self._cursor}`")
        return _Shape(
            key=tuple(str(row["attname"]) for row in key), is_text=bool(next(iter(text.values())))
        )

    def _arrived(self, row: Mapping[str, object], shape: _Shape) -> tuple[Cursor, Arrived]:
        cursor = cursor_of(row[self._cursor])
        offset, rest = place_of(cursor, [row[name] for name in shape.key or sorted(row)])
        # A table's rows have no arrival that a second reading repeats: theirs is the epoch.
        arrived = Arrived(
            place=Place(offset=offset, rest=rest),
            row={name: plain(value) for name, value in row.items()},
            now_us=0,
        )
        return cursor, arrived

    def _reach(self) -> Reach:
        if not self._memory.is_file():
            return Reach()
        return Reach.parse(json.loads(self._memory.read_text()))

    def _remember(self, reach: Reach) -> None:
        self._memory.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._memory.with_suffix(".new")
        with fresh.open("w") as file:
            json.dump(reach.plain(), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._memory)

"""Table sources: polled for rows at or after their cursor.

The client of each kind of database, which the registry names, reads with one statement, in the
order of the cursor. Reading a row again yields the same facts; most repeated rows are recognized
and not appended again. Rows with a null cursor have no position and are not read.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from typing_extensions import override

from narthex._base import SECOND_US, atomic_write, to_micros
from narthex._connectors import kind_of, source_kind
from narthex._ir import Table
from narthex.settings import Settings
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.platform.json_values import plain
from narthex_spark_apps.platform.optional_clients import load_part
from narthex_spark_apps.sources.polling_source import PollingSource
from narthex_spark_apps.sources.row_appender import no_rows
from narthex_spark_apps.sources.row_rendering import Arrived, RawRowPosition
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.tables.cursors import (
    Cursor,
    NoCursorError,
    TablePosition,
    cursor_of,
    place_of,
)
from narthex_spark_apps.sources.tables.reader import ReadsTable, TableAccess, TableError, TableRow
from narthex_stores import LogProducer

REMEMBERED: Final = 200_000
"""How many of the newest rows are remembered, so that they are not appended again."""

_DIGEST_BYTES: Final = 16


class TableSource(PollingSource):
    """The table of one source job, and its read position."""

    default_every_us = 60 * SECOND_US

    def __init__(self, job: SourceJob, *, settings: Settings, memory: Path) -> None:
        """Keep the read position in the file `memory`."""
        connector = job.spec.source.connector
        if not isinstance(connector, Table) or connector.cursor is None:
            raise TypeError("the spec is not a table source with a cursor")
        super().__init__(job, memory=memory)
        secrets = AuthorSecrets.of(settings)
        self._access = TableAccess(
            table=connector,
            cursor=connector.cursor,
            reveal=secrets.reveal,
            egress=secrets.egress(),
            ca_file=settings.ca_file,
        )
        client = source_kind(connector).client
        self._reads: ReadsTable = load_part(client, install=kind_of(connector).install)
        self._disorder_us = job.spec.source.disorder_us
        self._known: dict[tuple[int, bytes], bytes] = {}

    @override
    def read(
        self, producer: LogProducer, *, stopped: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Read to the table's end; a stopped scan is repeated as a whole.

        Raises:
            TableError: The database does not answer, or has no such table or column.
            NoCursorError: The cursor of a row has no order.
            StoreError: A record could not be appended.
            SecretMissing: A secret for the database is missing.
        """
        now_us = to_micros(dt.datetime.now(dt.UTC))
        reach = self._reach()
        start = reach.start(now_us=now_us, disorder_us=self._disorder_us)
        counts = no_rows()
        high: Cursor | None = None
        # After a failed scan it is unknown which rows were appended.
        known, self._known = self._known, {}
        try:
            with self._reads(self._access, start) as reading:
                for rows in reading.batches:
                    if stopped():
                        return counts
                    batch = [self._arrived(row, reading.key) for row in rows]
                    high = _highest(high, [cursor for cursor, _ in batch])
                    fresh = [row for _, row in batch if self._is_news(known, row)]
                    self._appender.append(fresh, producer, counts)
        except OSError as error:
            raise TableError(f"`{self._job.spec.source_id}`: {error}") from None
        self._known = known
        self._remember(reach.after(high, now_us=now_us, disorder_us=self._disorder_us))
        return counts

    @staticmethod
    def _is_news(known: dict[tuple[int, bytes], bytes], arrived: Arrived) -> bool:
        """Whether a row is new or changed since it was last appended; remember its state."""
        place = (arrived.place.offset, arrived.place.rest)
        encoded = json.dumps(arrived.row, sort_keys=True).encode()
        digest = hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).digest()
        is_news = known.pop(place, None) != digest
        known[place] = digest
        if len(known) > REMEMBERED:
            del known[next(iter(known))]
        return is_news

    def _arrived(self, row: TableRow, key: Sequence[str]) -> tuple[Cursor, Arrived]:
        cursor = cursor_of(row[self._access.cursor])
        offset, rest = place_of(cursor, [row[name] for name in key or sorted(row)])
        # No arrival time of a table's row is the same at a second read, so `now` is the epoch.
        arrived = Arrived(
            place=RawRowPosition(offset=offset, rest=rest),
            row={name: plain(value) for name, value in row.items()},
            now_us=0,
        )
        return cursor, arrived

    def _reach(self) -> TablePosition:
        if not self._memory.is_file():
            return TablePosition()
        return TablePosition.parse(json.loads(self._memory.read_text()))

    def _remember(self, reach: TablePosition) -> None:
        atomic_write(self._memory, json.dumps(reach.plain()))


def _highest(high: Cursor | None, cursors: Sequence[Cursor]) -> Cursor | None:
    """Return the last of ordered cursors, which must continue the order after `high`.

    Raises:
        NoCursorError: The cursors have two types, between which there is no order.
    """
    for cursor in cursors:
        if high is not None and type(cursor) is not type(high):
            raise NoCursorError(
                f"cursor `{cursor!r}` after `{high!r}`; all rows must have one type of cursor"
            )
        high = cursor
    return high

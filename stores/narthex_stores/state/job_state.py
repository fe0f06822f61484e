# mypy: disable-error-code="explicit-any"
"""The state of one job: the rows that its steps keep, and the records to produce next.

A batch of a job is one transaction: the rows of its steps, the offsets that it has read, and its
*outbox*, the records that result from it. They are produced after the commit and the outbox is
emptied after that, so a crash between the two produces exactly the same records again and loses
none. Each batch has a number that only grows. Its version, of all facts in it, is the epoch of its
owner and that number: facts that are produced again never supersede later ones, and two owners
never produce different facts of one version, also if one of them continues an older copy.

Tables, all keys of which begin with a step's number:

- `versions`: source, row -> the current version
- `places`: step, side, row -> its place: the group it is in, and its instant if the step asks for
  rows by time; not of a row whose identity determines its place
- `members`: step, side, place, row -> the row
- `given`: step, group, row -> a row that the step emitted
- `told`: row -> its last emitted state
- `doubts`: row whose last emitted state differs in the log -> its state by this job
- `outbox`: place -> the Kafka keys and values of some records, in turn
- `meta`: `epoch`, `layout`, `number`, `newest` (the version up to which the log's facts are known),
  `doubt`, and `o` + topic + 0x00 + partition -> next offset

Groups, rows and instants are laid out as in `narthex_stores.indexes.key_layout`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import attrs
import lmdb

from narthex_stores.indexes.key_layout import (
    INSTANT_BYTES,
    event_time_of,
    group_of,
    instant_of,
    pack,
    row_of,
    unpack,
)
from narthex_stores.indexes.lmdb.offsets_and_epoch import advance, fence, offsets_of
from narthex_stores.indexes.protocol import Offsets
from narthex_stores.lmdb.environment import MAP_SIZE, LmdbEnvironment, LmdbTable, Transaction

_R = TypeVar("_R")

_NUMBER = b"number"
_NEWEST = b"newest"
_DOUBT = b"doubt"
_LAYOUT = b"layout"
_PLACE_BITS = 24
"""The bits of an outbox position within a batch, which limit the batch's keys and values."""

_OUTBOX_PARTS = 200
"""The most keys and values in an entry of the outbox: an even number."""

_TABLES = (
    b"versions",
    b"places",
    b"members",
    b"given",
    b"told",
    b"doubts",
    b"outbox",
    b"meta",
)


def place_of(key: bytes, instant: int | None = None) -> bytes:
    """Return the place of a row.

    Args:
        key: The canonical bytes of the key of its group.
        instant: Its position among the rows of the group, for steps that read them by time.
    """
    group = group_of(key)
    return group if instant is None else group + instant_of(instant)


def group_at(place: bytes) -> bytes:
    """Return the group of a place with an instant."""
    return place[:-INSTANT_BYTES]


def version_of(epoch: int, number: int) -> bytes:
    """Return the version of a batch's facts: by epoch, then by number."""
    return epoch.to_bytes(8, "big") + number.to_bytes(8, "big")


def number_of(version: bytes) -> int:
    """Return the number of the batch of a version."""
    return int.from_bytes(version[-8:], "big")


@attrs.frozen
class StateBatch:
    """The state that a batch reads and changes, inside its transaction.

    Attributes:
        number: The number of the batch.
        version: The version of all facts that the batch emits.
    """

    number: int
    version: bytes
    _tables: Mapping[bytes, LmdbTable]
    _transaction: Transaction

    def supersede(self, source: int, row_id: bytes, version: bytes) -> bool:
        """Store the version of a source's row if it is newer; return whether it is."""
        key = b"%c%b" % (source, row_of(row_id))
        versions = self._tables[b"versions"]
        # Most rows are new, and take one access.
        if self._transaction.put(key, version, overwrite=False, db=versions):
            return True
        newest = self._get(b"versions", key)
        if newest is not None and newest >= version:
            return False
        self._put(b"versions", key, version)
        return True

    def place(self, step: int, side: int, row_id: bytes) -> bytes | None:
        """Return the place at which a step keeps a row; None if it does not keep the row."""
        found: bytes | None = self._get(b"places", b"%c%c%b" % (step, side, row_of(row_id)))
        return found

    def move(self, step: int, side: int, row_id: bytes, place: bytes | None) -> None:
        """Store the place at which a step keeps a row; None if it no longer keeps the row."""
        key = b"%c%c%b" % (step, side, row_of(row_id))
        if place is None:
            self._delete(b"places", key)
        else:
            self._put(b"places", key, place)

    def keep(self, step: int, side: int, place: bytes, row_id: bytes, row: bytes) -> bytes | None:
        """Keep a row at a place (`place_of`); return the row that was there, None if none was."""
        key = b"%c%c%b%b" % (step, side, place, row_of(row_id))
        return self._replace(b"members", key, row)

    def leave(self, step: int, side: int, place: bytes, row_id: bytes) -> bytes | None:
        """Remove a row from a place; return the row that was there, None if none was."""
        return self._pop(b"members", b"%c%c%b%b" % (step, side, place, row_of(row_id)))

    def members(self, step: int, side: int, group: bytes) -> Iterator[bytes]:
        """Yield all rows of a group."""
        return self._scan(b"members", b"%c%c%b" % (step, side, group))

    def members_between(
        self, step: int, side: int, group: bytes, first: int, last: int
    ) -> Iterator[bytes]:
        """Yield the rows of a group from one instant to another, both included, by instant."""
        prefix = b"%c%c%b" % (step, side, group)
        end = prefix + instant_of(last)
        for key, row in self._upwards(b"members", prefix, prefix + instant_of(first)):
            if key[: len(end)] > end:
                return
            yield row

    def instants_before(self, step: int, side: int, group: bytes, instant: int) -> Iterator[int]:
        """Yield the instants of a group's rows before this one, the latest first."""
        prefix = b"%c%c%b" % (step, side, group)
        for key in self._downwards(b"members", prefix, prefix + instant_of(instant)):
            yield event_time_of(key, prefix)

    def instants_after(self, step: int, side: int, group: bytes, instant: int) -> Iterator[int]:
        """Yield the instants of a group's rows after this one, the earliest first."""
        prefix = b"%c%c%b" % (step, side, group)
        for key, _ in self._upwards(b"members", prefix, prefix + instant_of(instant + 1)):
            yield event_time_of(key, prefix)

    def given(self, step: int, group: bytes) -> Iterator[bytes]:
        """Yield the rows that a step emitted for a group."""
        return self._scan(b"given", b"%c%b" % (step, group))

    def give(self, step: int, group: bytes, row_id: bytes, row: bytes) -> None:
        """Store a row that a step emits for a group."""
        self._put(b"given", b"%c%b%b" % (step, group, row_of(row_id)), row)

    def take_back(self, step: int, group: bytes, row_id: bytes) -> None:
        """Remove a row that a step no longer emits."""
        self._delete(b"given", b"%c%b%b" % (step, group, row_of(row_id)))

    def emitted(self, row_id: bytes) -> bytes | None:
        """Return the last emitted state of a row; None if nothing was emitted, or a tombstone."""
        found: bytes | None = self._get(b"told", row_of(row_id))
        return found

    def set_emitted(self, row_id: bytes, fact: bytes | None) -> bytes | None:
        """Store the emitted state of a row, None for a tombstone; return the one before."""
        key = row_of(row_id)
        return self._pop(b"told", key) if fact is None else self._replace(b"told", key, fact)

    def doubt(self, row_id: bytes, meant: bytes | None) -> None:
        """Mark a row whose last emitted state in the log differs from this job's state."""
        self._put(b"doubts", row_of(row_id), pack((row_id, meant)))

    def has_doubts(self) -> bool:
        """Whether the last emitted state of some row in the log differs from this job's state."""
        return next(self.doubts(), None) is not None

    def is_sure(self, row_id: bytes) -> None:
        """Unmark a row: its last emitted state in the log matches this job's state."""
        self._delete(b"doubts", row_of(row_id))

    def meant(self, row_id: bytes) -> bytes | None:
        """Return the row by this job's state: the last emitted one, unless that is in doubt."""
        found = self._get(b"doubts", row_of(row_id))
        return self.emitted(row_id) if found is None else unpack(found)[1]

    def doubts(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the rows in doubt, each with its state by this job."""
        for packed in self._scan(b"doubts", b""):
            row_id, meant = unpack(packed)
            yield row_id, meant

    def doubt_until(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Store the offsets up to which topics must be read to settle all doubts."""
        plain = [(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        self._put(b"meta", _DOUBT, pack(plain))

    def settle(self) -> None:
        """Store that all doubts are settled."""
        self._delete(b"meta", _DOUBT)

    def lay_out(self, layout: int) -> None:
        """Store the number of the layout in which the steps keep their rows."""
        self._put(b"meta", _LAYOUT, pack(layout))

    def know(self, version: bytes) -> None:
        """Store that the log's facts up to a version are known; later batches have greater ones."""
        self._put(b"meta", _NEWEST, version)
        number = number_of(version)
        if number > unpack(self._get(b"meta", _NUMBER) or pack(0)):
            self._put(b"meta", _NUMBER, pack(number))

    def post(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Add the batch's records (Kafka key, value) to the outbox, after earlier batches."""
        parts = [part for record in records for part in record]
        for place in range(0, len(parts), _OUTBOX_PARTS):
            at = self.number << _PLACE_BITS | place
            self._put(b"outbox", at.to_bytes(8, "big"), pack(parts[place : place + _OUTBOX_PARTS]))
        self._put(b"meta", _NEWEST, self.version)

    def advance(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Store the offsets that were read; they never go back."""
        advance(self._transaction, self._tables[b"meta"], offsets)

    def _get(self, table: bytes, key: bytes) -> bytes | None:
        found: bytes | None = self._transaction.get(key, db=self._tables[table])
        return found

    def _put(self, table: bytes, key: bytes, value: bytes) -> None:
        self._transaction.put(key, value, db=self._tables[table])

    def _replace(self, table: bytes, key: bytes, value: bytes) -> bytes | None:
        found: bytes | None = self._transaction.replace(key, value, db=self._tables[table])
        return found

    def _pop(self, table: bytes, key: bytes) -> bytes | None:
        found: bytes | None = self._transaction.pop(key, db=self._tables[table])
        return found

    def _delete(self, table: bytes, key: bytes) -> None:
        self._transaction.delete(key, db=self._tables[table])

    def _scan(self, table: bytes, prefix: bytes) -> Iterator[bytes]:
        for _, value in self._upwards(table, prefix, prefix):
            yield value

    def _upwards(self, table: bytes, prefix: bytes, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries with a prefix from a key on, by key."""
        with self._transaction.cursor(db=self._tables[table]) as cursor:
            if not cursor.set_range(start):
                return
            for key, value in cursor:
                if not key.startswith(prefix):
                    return
                yield key, value

    def _downwards(self, table: bytes, prefix: bytes, end: bytes) -> Iterator[bytes]:
        """Yield the keys with a prefix before a key, the last first."""
        with self._transaction.cursor(db=self._tables[table]) as cursor:
            if not (cursor.prev() if cursor.set_range(end) else cursor.last()):
                return
            for key in cursor.iterprev(keys=True, values=False):
                if not key.startswith(prefix):
                    return
                yield key


class JobState:
    """The state of a job, in a directory of its checkpoint; opened at most once per process."""

    def __init__(self, path: Path, *, epoch: int, map_size: int = MAP_SIZE) -> None:
        """Open or create the state, and refuse runs of earlier epochs from now on.

        Args:
            path: The directory of the state, below an existing checkpoint.
            epoch: The epoch under which the job runs.
            map_size: Initial bytes of address space; doubled when they are full.

        Raises:
            IndexFenced: A run of a later epoch has taken over.
        """
        path.mkdir(exist_ok=True)
        self._epoch = epoch
        self._environment = LmdbEnvironment(path, tables=_TABLES, readonly=False, map_size=map_size)
        try:
            with self._environment.transaction(write=True) as transaction:
                fence(transaction, self._environment.tables[b"meta"], epoch)
        except BaseException:
            self._environment.close()
            raise

    def run(self, work: Callable[[StateBatch], _R]) -> _R:
        """Run a batch's work in one transaction; if the map is full, grow it and rerun.

        Raises:
            IndexFenced: A run of a later epoch has taken over; nothing was changed.
        """
        meta = self._environment.tables[b"meta"]
        while True:
            try:
                with self._environment.transaction(write=True) as transaction:
                    fence(transaction, meta, self._epoch)
                    found = transaction.get(_NUMBER, db=meta)
                    number: int = 1 if found is None else unpack(found) + 1
                    transaction.put(_NUMBER, pack(number), db=meta)
                    version = version_of(self._epoch, number)
                    done = work(StateBatch(number, version, self._environment.tables, transaction))
            except lmdb.MapFullError:
                self._environment.grow()
            else:
                return done

    def newest(self) -> bytes:
        """Return the version up to which the log's facts are known; empty for a fresh state."""
        return self._meta(_NEWEST) or b""

    def doubt_ends(self) -> Offsets | None:
        """Return the offsets to read to before doubts are settled; None without doubts."""
        value = self._meta(_DOUBT)
        if value is None:
            return None
        return {(topic, partition): offset for topic, partition, offset in unpack(value)}

    def _meta(self, key: bytes) -> bytes | None:
        with self._environment.transaction(write=False) as transaction:
            found: bytes | None = transaction.get(key, db=self._environment.tables[b"meta"])
            return found

    def outbox(self) -> list[tuple[bytes, bytes]]:
        """Return the records (key, value) that may not have been produced yet, in order."""
        with (
            self._environment.transaction(write=False) as transaction,
            transaction.cursor(db=self._environment.tables[b"outbox"]) as cursor,
        ):
            entries = [unpack(value) for _, value in cursor]
            return [pair for parts in entries for pair in zip(parts[::2], parts[1::2], strict=True)]

    def empty_outbox(self) -> None:
        """Empty the outbox after its records were produced.

        Raises:
            IndexFenced: A run of a later epoch has taken over.
        """
        with self._environment.transaction(write=True) as transaction:
            fence(transaction, self._environment.tables[b"meta"], self._epoch)
            transaction.drop(self._environment.tables[b"outbox"], delete=False)

    def require_layout(self, layout: int) -> None:
        """Clear a state whose rows are laid out differently; its job then reads its input again.

        Raises:
            IndexFenced: A run of a later epoch has taken over.
        """
        if unpack(self._meta(_LAYOUT) or pack(0)) != layout:
            self.clear()
            self.run(lambda batch: batch.lay_out(layout))

    def clear(self) -> None:
        """Remove everything but the epoch and the number of the last batch, which only grows.

        Raises:
            IndexFenced: A run of a later epoch has taken over.
        """
        meta = self._environment.tables[b"meta"]
        with self._environment.transaction(write=True) as transaction:
            fence(transaction, meta, self._epoch)
            number = transaction.get(_NUMBER, db=meta)
            for table in self._environment.tables.values():
                transaction.drop(table, delete=False)
            fence(transaction, meta, self._epoch)
            if number is not None:
                transaction.put(_NUMBER, number, db=meta)

    def offsets(self) -> Offsets:
        """Return the read offsets: (topic, partition) to the next offset."""
        with self._environment.transaction(write=False) as transaction:
            return offsets_of(transaction, self._environment.tables[b"meta"])

    def is_replaced(self) -> bool:
        """Whether the directory holds another state, or none, by now.

        This object continues to commit to the state that it opened.
        """
        return self._environment.is_replaced()

    def sync(self) -> None:
        """Make all batches durable against a loss of power."""
        self._environment.flush()

    def close(self) -> None:
        """Close the state; committed batches stay."""
        self._environment.close()


def offsets_in_state(path: Path) -> Offsets:
    """Return the offsets that the state in a directory has read, without opening it for a run.

    Raises:
        EnvironmentMissingError: The state does not exist.
    """
    environment = LmdbEnvironment(path, tables=_TABLES, readonly=True)
    try:
        with environment.transaction(write=False) as transaction:
            return offsets_of(transaction, environment.tables[b"meta"])
    finally:
        environment.close()

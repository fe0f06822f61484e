# mypy: disable-error-code="explicit-any"
"""The state of one job: the rows that its steps keep, and what it has to tell next.

A batch of a job is one transaction: what its steps keep, how far it has read, and its *outbox*,
the records that come of it. They are produced after the commit and the outbox is emptied
after that, so a crash between the two produces them again, the very same ones, and loses none.
Each batch has a number of its own that only grows, the version of all facts in it: facts that are
produced again, by whoever, never stand against later ones.

Tables, all keys of which begin with a step's number:

- `versions`: source, row -> the version that stands
- `places`: step, side, row -> the group it is in
- `members`: step, side, group, row -> the row
- `given`: step, group, row -> a row that the step gave
- `told`: row -> what was told of it last
- `doubts`: row of which the log says something else -> what this state means of it
- `outbox`: place -> Kafka key and value
- `meta`: `epoch`, `number`, `doubt`, and `o` + topic + 0x00 + partition -> next offset

Groups and rows are laid out as in `narthex_stores.indexes.key_layout`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import attrs
import lmdb

from narthex_stores.indexes.key_layout import group_of, pack, row_of, unpack
from narthex_stores.indexes.lmdb.meta import advance, fence, offsets_of
from narthex_stores.indexes.protocol import Offsets
from narthex_stores.lmdb.environment import MAP_SIZE, LmdbEnvironment, LmdbTable, Transaction

_R = TypeVar("_R")

_NUMBER = b"number"
_DOUBT = b"doubt"
_PLACE_BITS = 24
"""A batch posts fewer records than these bits count."""

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


@attrs.frozen
class StateBatch:
    """What a batch reads and changes, inside its transaction.

    Attributes:
        number: The number of the batch.
    """

    number: int
    _tables: Mapping[bytes, LmdbTable]
    _transaction: Transaction

    def supersede(self, source: int, row_id: bytes, version: bytes) -> bool:
        """Note the version of a source's row if it is newer than what stands; say whether it is."""
        key = b"%c%b" % (source, row_of(row_id))
        standing = self._get(b"versions", key)
        if standing is not None and standing >= version:
            return False
        self._put(b"versions", key, version)
        return True

    def place(self, step: int, side: int, row_id: bytes) -> bytes | None:
        """Return the group in which a step keeps a row; None if it keeps none of that identity."""
        found: bytes | None = self._get(b"places", b"%c%c%b" % (step, side, row_of(row_id)))
        return found

    def keep(self, step: int, side: int, key: bytes, row_id: bytes, row: bytes) -> bytes:
        """Keep a row in the group of a key's canonical bytes; return the group."""
        group, of = group_of(key), row_of(row_id)
        self._put(b"places", b"%c%c%b" % (step, side, of), group)
        self._put(b"members", b"%c%c%b%b" % (step, side, group, of), row)
        return group

    def kept(self, step: int, side: int, group: bytes, row_id: bytes) -> bytes | None:
        """Return a row that a step keeps in a group."""
        key = b"%c%c%b%b" % (step, side, group, row_of(row_id))
        found: bytes | None = self._get(b"members", key)
        return found

    def forget(self, step: int, side: int, group: bytes, row_id: bytes) -> None:
        """Keep a row, which is in another group by now, in this one no more."""
        self._delete(b"members", b"%c%c%b%b" % (step, side, group, row_of(row_id)))

    def leave(self, step: int, side: int, group: bytes, row_id: bytes) -> None:
        """Keep a row no more."""
        self._delete(b"places", b"%c%c%b" % (step, side, row_of(row_id)))
        self.forget(step, side, group, row_id)

    def members(self, step: int, side: int, group: bytes) -> Iterator[bytes]:
        """Yield all rows of a group."""
        return self._scan(b"members", b"%c%c%b" % (step, side, group))

    def given(self, step: int, group: bytes) -> Iterator[bytes]:
        """Yield the rows that a step gave for a group."""
        return self._scan(b"given", b"%c%b" % (step, group))

    def give(self, step: int, group: bytes, row_id: bytes, row: bytes) -> None:
        """Note a row that a step gives for a group."""
        self._put(b"given", b"%c%b%b" % (step, group, row_of(row_id)), row)

    def take_back(self, step: int, group: bytes, row_id: bytes) -> None:
        """Note that a step does not give a row any more."""
        self._delete(b"given", b"%c%b%b" % (step, group, row_of(row_id)))

    def told(self, row_id: bytes) -> bytes | None:
        """Return what was emitted last for a row; None if nothing was emitted, or its deletion."""
        found: bytes | None = self._get(b"told", row_of(row_id))
        return found

    def tell(self, row_id: bytes, said: bytes | None) -> None:
        """Note what is told of a row; None is that it is no more."""
        self.is_sure(row_id)
        if said is None:
            self._delete(b"told", row_of(row_id))
        else:
            self._put(b"told", row_of(row_id), said)

    def doubt(self, row_id: bytes, meant: bytes | None) -> None:
        """Note that something else was told of a row than this state means so far."""
        self._put(b"doubts", row_of(row_id), pack((row_id, meant)))

    def is_sure(self, row_id: bytes) -> None:
        """Note that what was told of a row is what this state means."""
        self._delete(b"doubts", row_of(row_id))

    def meant(self, row_id: bytes) -> bytes | None:
        """Return the row as this state defines it: what was emitted last, unless that is in
        doubt.
        """
        found = self._get(b"doubts", row_of(row_id))
        return self.told(row_id) if found is None else unpack(found)[1]

    def doubts(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the rows in doubt, each with what this state means of it."""
        for packed in self._scan(b"doubts", b""):
            row_id, meant = unpack(packed)
            yield row_id, meant

    def doubt_until(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Note how far topics must be read until whoever is in doubt then is no more."""
        plain = [(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        self._put(b"meta", _DOUBT, pack(plain))

    def settle(self) -> None:
        """Note that there are no doubts any more."""
        self._delete(b"meta", _DOUBT)

    def at_least(self, number: int) -> None:
        """See to it that later batches have greater numbers than this one."""
        if number > unpack(self._get(b"meta", _NUMBER) or pack(0)):
            self._put(b"meta", _NUMBER, pack(number))

    def post(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Put the batch's records (Kafka key, value) into the outbox, behind those of others."""
        for place, record in enumerate(records):
            at = self.number << _PLACE_BITS | place
            self._put(b"outbox", at.to_bytes(8, "big"), pack(record))

    def advance(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Note how far topics are read; offsets never go back."""
        advance(self._transaction, self._tables[b"meta"], offsets)

    def _get(self, table: bytes, key: bytes) -> bytes | None:
        found: bytes | None = self._transaction.get(key, db=self._tables[table])
        return found

    def _put(self, table: bytes, key: bytes, value: bytes) -> None:
        self._transaction.put(key, value, db=self._tables[table])

    def _delete(self, table: bytes, key: bytes) -> None:
        self._transaction.delete(key, db=self._tables[table])

    def _scan(self, table: bytes, prefix: bytes) -> Iterator[bytes]:
        with self._transaction.cursor(db=self._tables[table]) as cursor:
            if not cursor.set_range(prefix):
                return
            for key, value in cursor:
                if not key.startswith(prefix):
                    return
                yield value


class JobState:
    """The state of a job, in a directory of its checkpoint; opened at most once a process."""

    def __init__(self, path: Path, *, epoch: int, map_size: int = MAP_SIZE) -> None:
        """Open it, made if it is not there, and refuse runs of earlier epochs from now on.

        Args:
            path: Its directory, below a checkpoint that stands.
            epoch: The epoch under which the job runs.
            map_size: Bytes of address space to begin with; it doubles when they are full.

        Raises:
            Fenced: A run of a later epoch has been here.
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
        """Do a batch's work, all of it or nothing; where space ran out, again with more.

        Raises:
            Fenced: A run of a later epoch has taken over; nothing was changed.
        """
        meta = self._environment.tables[b"meta"]
        while True:
            try:
                with self._environment.transaction(write=True) as transaction:
                    fence(transaction, meta, self._epoch)
                    found = transaction.get(_NUMBER, db=meta)
                    number: int = 1 if found is None else unpack(found) + 1
                    transaction.put(_NUMBER, pack(number), db=meta)
                    done = work(StateBatch(number, self._environment.tables, transaction))
            except lmdb.MapFullError:
                self._environment.grow()
            else:
                return done

    def number(self) -> int:
        """Return the greatest number that a batch had; 0 of a fresh state."""
        found = self._meta(_NUMBER)
        return 0 if found is None else int(unpack(found))

    def doubt_ends(self) -> Offsets | None:
        """Return the offsets up to which topics must be read to settle doubts; None without
        doubts.
        """
        found = self._meta(_DOUBT)
        if found is None:
            return None
        return {(topic, partition): offset for topic, partition, offset in unpack(found)}

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
            return [tuple(unpack(value)) for _, value in cursor]

    def empty_outbox(self) -> None:
        """Forget the records of the outbox: they were produced.

        Raises:
            Fenced: A run of a later epoch has taken over.
        """
        with self._environment.transaction(write=True) as transaction:
            fence(transaction, self._environment.tables[b"meta"], self._epoch)
            transaction.drop(self._environment.tables[b"outbox"], delete=False)

    def offsets(self) -> Offsets:
        """Return the read offsets: (topic, partition) to the next offset."""
        with self._environment.transaction(write=False) as transaction:
            return offsets_of(transaction, self._environment.tables[b"meta"])

    def is_replaced(self) -> bool:
        """Whether another state, or none, stands in the directory by now.

        What is committed here goes on to be kept by what stood when it was opened.
        """
        return self._environment.is_replaced()

    def sync(self) -> None:
        """Make all batches survive a loss of power."""
        self._environment.flush()

    def close(self) -> None:
        """Let go of the state; what was committed stays."""
        self._environment.close()


def offsets_in_state(path: Path) -> Offsets:
    """Return the offsets that the state in a directory has read, without opening it for a run.

    Raises:
        EnvironmentMissingError: No state stands there.
    """
    environment = LmdbEnvironment(path, tables=_TABLES, readonly=True)
    try:
        with environment.transaction(write=False) as transaction:
            return offsets_of(transaction, environment.tables[b"meta"])
    finally:
        environment.close()

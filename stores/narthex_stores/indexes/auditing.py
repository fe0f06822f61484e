# mypy: disable-error-code="explicit-any"
"""Compare the entries of an index with those of a fresh index, filled from the same facts.

Lookups need not read every stored byte: a row inside a tile is never read on its own. So a proof
of an index compares its tables too, entry by entry. The entries of an index on Redis servers are
first copied to this machine.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import TypeAlias

import attrs
import lmdb

from narthex._aggregates import Folding, IntervalFolding
from narthex._ir import BEGINNING, Cell, Fact
from narthex_stores.indexes.key_layout import (
    INSTANT_BYTES,
    IndexLayout,
    Plain,
    event_time_of,
    row_of,
    unpack,
)
from narthex_stores.indexes.lmdb.environment import Environment
from narthex_stores.indexes.lmdb.index import LmdbIndex
from narthex_stores.indexes.ordered_tables.index_snapshot import IndexSnapshot
from narthex_stores.indexes.ordered_tables.tables import Table, Tables, Transaction
from narthex_stores.indexes.protocol import IndexReader, WrongShapeError
from narthex_stores.indexes.redis.entries import TableEntry, all_entries
from narthex_stores.indexes.redis.reading import RedisReader
from narthex_stores.indexes.sharded import ShardedReader

Stored: TypeAlias = tuple[bytes, bytes]
"""A key and a value of a table."""

Differing: TypeAlias = tuple[bytes, bytes | None, bytes | None]
"""A key, with its stored and its expected value; None means that the entry is missing."""

_TILE_SUFFIX = 1 + INSTANT_BYTES
BATCH = 20_000
_PREFIX = "narthex-audit-"


class Part(Enum):
    """A table of an index."""

    ROWS = "rows"
    TILES = "tiles"
    PLACES = "places"


@attrs.frozen(kw_only=True)
class StoredDifference:
    """One entry of an index that does not match its log.

    Attributes:
        key: The key cells of its group; None if no fact of the log has them.
        instant: The row's event time, or the tile's beginning; None for a place.
        length_us: The length of a tile.
        row_id: The id of a row or a place, if the entry contains it.
        found: The stored values by name; None without an entry. A tile has its finished values.
        meant: The expected values by name; None if no entry should exist.
    """

    part: Part
    key: tuple[Cell, ...] | None
    instant: int | None
    length_us: int | None = None
    row_id: bytes | None = None
    found: dict[str, Cell] | None
    meant: dict[str, Cell] | None


@attrs.frozen(kw_only=True)
class IndexAudit:
    """Compares one snapshot of an index with facts.

    Attributes:
        facts: All facts that the index should contain, in any order, superseded states too.
        is_sample: Whether the facts cover some groups only; other groups are not compared.
        changing: Facts that the index may contain besides; the groups that they change, or may
            have changed, are not compared.
        horizon: The event time before which entries may be missing; earlier ones are not compared.
    """

    layout: IndexLayout
    folding: Folding | IntervalFolding | None
    facts: Sequence[Fact]
    is_sample: bool
    changing: Sequence[Fact]
    horizon: int
    _groups: dict[bytes, tuple[Cell, ...]] = attrs.field(init=False, repr=False)
    _changing: set[bytes] = attrs.field(init=False, repr=False)
    _rows: set[bytes] = attrs.field(init=False, repr=False)
    _lengths: tuple[int, ...] = attrs.field(init=False, repr=False)

    @_groups.default
    def _find_groups(self) -> dict[bytes, tuple[Cell, ...]]:
        found: dict[bytes, tuple[Cell, ...]] = {}
        for fact in (*self.facts, *self.changing):
            _, group = self.layout.locate(fact)
            if group not in found:
                found[group] = self._cells_of(fact)
        return found

    @_rows.default
    def _find_rows(self) -> set[bytes]:
        return {row_of(fact.row_id) for fact in self.changing}

    @_changing.default
    def _find_changing(self) -> set[bytes]:
        """Find the groups of all states of the rows that change: a row may leave a group."""
        row_ids = {fact.row_id for fact in self.changing}
        states = [fact for fact in self.facts if fact.row_id in row_ids] if row_ids else []
        return {self.layout.locate(fact)[1] for fact in (*states, *self.changing)}

    @_lengths.default
    def _find_lengths(self) -> tuple[int, ...]:
        return tuple(sorted({len(group) for group in self._groups}))

    def _cells_of(self, fact: Fact) -> tuple[Cell, ...]:
        log = self.layout.spec.log
        if not self.layout.spec.by:
            return fact.key
        named = dict(
            zip(
                [column.name for column in (*log.keys, *log.values)],
                (*fact.key, *fact.values),
                strict=True,
            )
        )
        return tuple(named[name] for name in self.layout.spec.by)

    def differences(
        self, found: "TablesOf", meant: "TablesOf", part: Part
    ) -> Iterator[StoredDifference]:
        """Yield the entries of a table that differ."""
        tell = {Part.ROWS: self._row, Part.TILES: self._tile, Part.PLACES: self._place}[part]
        for differing in differing_entries(found.entries(part), meant.entries(part)):
            yield from tell(*differing)

    def _row(
        self, key: bytes, found: bytes | None, meant: bytes | None
    ) -> Iterator[StoredDifference]:
        group = next((key[:n] for n in self._lengths if key[:n] in self._groups), None)
        if group in self._changing or (group is None and self.is_sample):
            return
        event_time = None if group is None else event_time_of(key, group)
        if event_time is not None and event_time < self.horizon:
            return
        after = b"" if group is None else key[len(group) + INSTANT_BYTES + 1 :]
        yield StoredDifference(
            part=Part.ROWS,
            key=None if group is None else self._groups[group],
            instant=event_time,
            row_id=after or None,
            found=self._told_row(found),
            meant=self._told_row(meant),
        )

    def _told_row(self, value: bytes | None) -> dict[str, Cell] | None:
        if value is None:
            return None
        plain: Plain = unpack(value)
        names = [column.name for column in self.layout.columns]
        cells = dict(zip(names, self.layout.cells(plain), strict=True)) if plain[1] else {}
        return {"version": plain[0], "alive": plain[1], **cells}

    def _tile(
        self, key: bytes, found: bytes | None, meant: bytes | None
    ) -> Iterator[StoredDifference]:
        if isinstance(self.folding, IntervalFolding):
            # This table holds ended contributions by their ends.
            plain: Plain = unpack(found or meant or b"")
            for one in self._row(key, found, meant):
                yield attrs.evolve(one, instant=plain[4])
            return
        group = key[:-_TILE_SUFFIX]
        if group in self._changing or (group not in self._groups and self.is_sample):
            return
        spec = self.layout.spec
        level = key[-_TILE_SUFFIX]
        length = spec.tile_lengths_us[level]
        # A tile's number is encoded like an instant.
        begin = event_time_of(key[-INSTANT_BYTES:], b"") * length
        # A part is only kept up to date while the finest tile around it is there.
        finest = spec.ladder_us[0] if level >= len(spec.ladder_us) else length
        if begin // finest * finest < self.horizon:
            return
        yield StoredDifference(
            part=Part.TILES,
            key=self._groups.get(group),
            instant=begin,
            length_us=length,
            found=self._told_tile(found, begin + length),
            meant=self._told_tile(meant, begin + length),
        )

    def _told_tile(self, value: bytes | None, as_of: int) -> dict[str, Cell] | None:
        if value is None or not isinstance(self.folding, Folding):
            return None
        states = unpack(value)
        kept = self.folding.of_tiles(counting_rows=bool(self.layout.spec.parts_us))
        return {
            f"{partial.kind}({partial.of or ''})": partial.algebra.finish(state, as_of)
            for partial, state in zip(kept.partials, states, strict=True)
        }

    def _place(
        self, key: bytes, found: bytes | None, meant: bytes | None
    ) -> Iterator[StoredDifference]:
        if key in self._rows or (meant is None and self.is_sample):
            return
        told = _told_place(found)
        if told is not None and told["place"] is None and told == _told_place(meant):
            # The values of rows without a place differ between stores in an unused length.
            return
        yield StoredDifference(
            part=Part.PLACES,
            key=None,
            instant=None,
            row_id=key[1:],
            found=_told_place(found),
            meant=_told_place(meant),
        )


def _told_place(value: bytes | None) -> dict[str, Cell] | None:
    if value is None:
        return None
    plain: Plain = unpack(value)
    return {"version": plain[0], "place": plain[1]}


@attrs.frozen
class TablesOf:
    """The tables of an index within one transaction."""

    transaction: Transaction
    tables: dict[Part, Table]

    def entries(self, part: Part) -> Iterator[Stored]:
        """Yield a table's entries in the order of their keys."""
        with self.transaction.cursor(db=self.tables[part]) as cursor:
            yield from cursor


def differing_entries(found: Iterator[Stored], meant: Iterator[Stored]) -> Iterator[Differing]:
    """Yield the entries in which two tables, each in the order of its keys, differ."""
    have, want = next(found, None), next(meant, None)
    while have is not None or want is not None:
        if want is None or (have is not None and have[0] < want[0]):
            if have is not None:
                yield have[0], have[1], None
            have = next(found, None)
        elif have is None or want[0] < have[0]:
            yield want[0], None, want[1]
            want = next(meant, None)
        else:
            if have[1] != want[1]:
                yield have[0], have[1], want[1]
            have, want = next(found, None), next(meant, None)


@attrs.frozen(kw_only=True)
class StoredEntries:
    """All entries of an index, as its snapshot has them.

    Attributes:
        horizon: The event time before which rows may be missing; None if none are.
    """

    layout: IndexLayout
    folding: Folding | IntervalFolding | None
    tables: TablesOf
    horizon: int | None

    def differences(
        self, facts: Sequence[Fact], *, is_sample: bool = False, changing: Sequence[Fact] = ()
    ) -> list[StoredDifference]:
        """Compare the entries with those that facts produce in an empty index.

        Tiles of floats may differ by rounding errors; their finished values show by how much.

        Args:
            facts: All facts that the index should contain: the log below its offsets.
            is_sample: Whether the facts cover some groups only; other groups are not compared.
            changing: Facts that it may contain besides, if its snapshot is not exact; groups that
                they may have changed are not compared.
        """
        audit = IndexAudit(
            layout=self.layout,
            folding=self.folding,
            facts=facts,
            is_sample=is_sample,
            changing=changing,
            horizon=BEGINNING if self.horizon is None else self.horizon,
        )
        with tempfile.TemporaryDirectory(prefix=_PREFIX) as directory:
            twin = LmdbIndex(Path(directory), self.layout.spec)
            try:
                for start in range(0, len(facts), BATCH):
                    twin.apply(facts[start : start + BATCH], offsets={}, epoch=1)
                with twin.read() as meant:
                    expected = _tables_of(meant.tables, meant.transaction)
                    return [
                        difference
                        for part in Part
                        for difference in audit.differences(self.tables, expected, part)
                    ]
            finally:
                twin.close()


@attrs.frozen
class ShardedEntries:
    """All entries of a divided index, each part on its own."""

    reader: ShardedReader
    parts: tuple[StoredEntries, ...]

    def differences(
        self, facts: Sequence[Fact], *, is_sample: bool = False, changing: Sequence[Fact] = ()
    ) -> list[StoredDifference]:
        """Compare the entries of each part with those that its own facts produce."""
        return [
            difference
            for shard, part in enumerate(self.parts)
            for difference in part.differences(
                self.reader.facts_of(shard, facts),
                is_sample=is_sample,
                changing=self.reader.facts_of(shard, changing),
            )
        ]


@contextmanager
def stored_entries(snapshot: IndexReader) -> Iterator[StoredEntries | ShardedEntries]:
    """Read all entries of a snapshot of an LMDB or Redis index.

    Raises:
        WrongShapeError: The index is in memory.
        TransientError: A server did not reply.
    """
    match snapshot:
        case ShardedReader(parts=parts):
            with ExitStack() as opened:
                found = tuple(opened.enter_context(_entries_of(part)) for part in parts)
                yield ShardedEntries(snapshot, found)
        case _:
            with _entries_of(snapshot) as entries:
                yield entries


@contextmanager
def _entries_of(snapshot: IndexReader) -> Iterator[StoredEntries]:
    if not isinstance(snapshot, IndexSnapshot | RedisReader):
        raise WrongShapeError("an index in memory has no entries")
    with _tables_in(snapshot) as tables:
        yield StoredEntries(
            layout=snapshot.layout,
            folding=snapshot.folding,
            tables=tables,
            horizon=snapshot.horizon,
        )


@contextmanager
def _tables_in(snapshot: IndexSnapshot | RedisReader) -> Iterator[TablesOf]:
    if isinstance(snapshot, IndexSnapshot):
        yield _tables_of(snapshot.tables, snapshot.transaction)
    else:
        with _copied(snapshot) as tables:
            yield tables


@contextmanager
def _copied(reader: RedisReader) -> Iterator[TablesOf]:
    """Copy the entries of an index to a directory of this machine, in the order of their keys."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as directory:
        environment = Environment(Path(directory), readonly=False)
        try:
            for entries in all_entries(reader.keys, reader.servers):
                _put(environment, entries)
            with environment.transaction(write=False) as transaction:
                yield _tables_of(environment, transaction)
        finally:
            environment.close()


def _put(environment: Environment, entries: Sequence[TableEntry]) -> None:
    while True:
        try:
            with environment.transaction(write=True) as transaction:
                for table, key, value in entries:
                    transaction.put(key, value, db=getattr(environment, table.value))
        except lmdb.MapFullError:
            environment.grow()
        else:
            return


def _tables_of(tables: Tables, transaction: Transaction) -> TablesOf:
    return TablesOf(
        transaction,
        {Part.ROWS: tables.facts, Part.TILES: tables.tiles, Part.PLACES: tables.rows},
    )

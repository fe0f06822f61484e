# mypy: disable-error-code="explicit-any"
"""Tables in memory that hold the entries read from servers, with the methods of LMDB's.

They contain only what was read: whoever stages a batch or a lookup reads all that it visits.
"""

import bisect
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import attrs


@attrs.define(eq=False)
class StagedTable:
    """Ordered entries, and what changed since they were read.

    Attributes:
        entries: The values by key.
        before: For each changed key, the value that was read; None without one.
    """

    entries: dict[bytes, bytes] = attrs.field(factory=dict)
    before: dict[bytes, bytes | None] = attrs.field(factory=dict)
    _order: list[bytes] | None = None

    def order(self) -> list[bytes]:
        """Return the keys in order."""
        if self._order is None:
            self._order = sorted(self.entries)
        return self._order

    def load(self, key: bytes, value: bytes) -> None:
        """Add an entry that was read."""
        self.entries[key] = value
        self._order = None

    def put(self, key: bytes, value: bytes) -> None:
        """Write an entry."""
        known = self.entries.get(key)
        self.before.setdefault(key, known)
        if known is None and self._order is not None:
            bisect.insort(self._order, key)
        self.entries[key] = value

    def delete(self, key: bytes) -> bool:
        """Remove an entry; return whether there was one."""
        known = self.entries.pop(key, None)
        if known is None:
            return False
        self.before.setdefault(key, known)
        if self._order is not None:
            del self._order[bisect.bisect_left(self._order, key)]
        return True

    def changes(self) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
        """Yield (key, value before, value after) of each entry that differs from what was read."""
        for key, before in self.before.items():
            after = self.entries.get(key)
            if before != after:
                yield key, before, after


@attrs.define(eq=False)
class StagedCursor:
    """A position in a table; writing through another cursor moves it."""

    table: StagedTable
    _order: list[bytes] = attrs.field(factory=list)
    _at: int = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: a cursor holds nothing."""

    def set_range(self, key: bytes) -> bool:
        """Move to the first key that is not before this one; return whether there is one."""
        self._order = self.table.order()
        self._at = bisect.bisect_left(self._order, key)
        return self._at < len(self._order)

    def last(self) -> bool:
        """Move to the last key; return whether there is one."""
        self._order = self.table.order()
        self._at = len(self._order) - 1
        return self._at >= 0

    def prev(self) -> bool:
        """Move to the key before; return whether there is one."""
        self._at -= 1
        return self._at >= 0

    def key(self) -> bytes:
        """Return the key here."""
        return self._order[self._at]

    def value(self) -> bytes:
        """Return the value here."""
        return self.table.entries[self._order[self._at]]

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries from here on."""
        order, entries = self._order, self.table.entries
        for at in range(self._at, len(order)):
            yield order[at], entries[order[at]]

    def iterprev(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries from here backwards."""
        order, entries = self._order, self.table.entries
        for at in range(self._at, -1, -1):
            self._at = at
            yield order[at], entries[order[at]]

    def getmulti(self, keys: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
        """Return the entries among these keys."""
        entries = self.table.entries
        return [(key, entries[key]) for key in keys if key in entries]

    def putmulti(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Write entries."""
        for key, value in items:
            self.table.put(key, value)


@attrs.frozen(eq=False)
class StagedTables:
    """The tables of an index, and the transaction on them."""

    facts: StagedTable = attrs.field(factory=StagedTable)
    tiles: StagedTable = attrs.field(factory=StagedTable)
    rows: StagedTable = attrs.field(factory=StagedTable)

    def get(self, key: bytes, *, db: StagedTable) -> bytes | None:
        """Return the value of a key; None without one."""
        return db.entries.get(key)

    def put(self, key: bytes, value: bytes, *, db: StagedTable) -> None:
        """Write an entry."""
        db.put(key, value)

    def delete(self, key: bytes, *, db: StagedTable) -> bool:
        """Remove an entry; return whether there was one."""
        return db.delete(key)

    def cursor(self, *, db: StagedTable) -> StagedCursor:
        """Return a cursor on a table."""
        return StagedCursor(db)


def add_entries(tables: StagedTables, group: bytes, members: Sequence[Any]) -> None:
    """Add the entries of a group, as the servers return them."""
    facts, tiles = tables.facts.load, tables.tiles.load
    for member in members:
        end = 1 + member[-1]
        (facts if member[0] == _FACTS else tiles)(group + member[1:end], member[end:-1])


_FACTS = ord("f")

# mypy: disable-error-code="explicit-any"
"""The ordered tables that a store of indexes provides."""

import itertools
from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias

Transaction: TypeAlias = Any
"""A transaction or cursor of the store, with the methods of LMDB's."""

Table: TypeAlias = Any
"""A table as the store's transactions name it."""


class Tables(Protocol):
    """The tables of an index; `narthex_stores.indexes.key_layout` describes their content."""

    @property
    def facts(self) -> Table:
        """The facts by group and instant."""

    @property
    def tiles(self) -> Table:
        """The tiles by group, level and number."""

    @property
    def rows(self) -> Table:
        """The positions of rows."""


def entries_between(cursor: Transaction, first: bytes, end: bytes) -> Iterable[tuple[bytes, bytes]]:
    """Return the keys and values from one inclusive key to one exclusive key, in order."""
    return (
        itertools.takewhile(lambda item: item[0] < end, cursor) if cursor.set_range(first) else ()
    )


def step_before(cursor: Transaction, key: bytes) -> bool:
    """Move a cursor to the last key before the given one; return whether there is one."""
    moved: bool = cursor.prev() if cursor.set_range(key) else cursor.last()
    return moved

"""The LMDB environment of one index."""

from pathlib import Path

from narthex_stores.indexes.protocol import IndexMissingError
from narthex_stores.lmdb.environment import (
    MAP_SIZE,
    EnvironmentMissingError,
    LmdbEnvironment,
    LmdbTable,
    Transaction,
)

__all__ = ["MAP_SIZE", "Environment", "LmdbTable", "Transaction"]


class Environment(LmdbEnvironment):
    """The tables of an index; what they hold is in `narthex_stores.indexes.key_layout`."""

    facts: LmdbTable
    tiles: LmdbTable
    rows: LmdbTable
    meta: LmdbTable

    def __init__(self, path: Path, *, readonly: bool, map_size: int = MAP_SIZE) -> None:
        """Open it.

        Raises:
            IndexMissingError: There is no such directory, or nothing in it to read.
        """
        names = (b"facts", b"tiles", b"rows", b"meta")
        try:
            super().__init__(path, tables=names, readonly=readonly, map_size=map_size)
        except EnvironmentMissingError as error:
            raise IndexMissingError(f"no index stands at `{path}`") from error
        self.facts, self.tiles, self.rows, self.meta = (self.tables[name] for name in names)


def step_before(cursor: Transaction, key: bytes) -> bool:
    """Put a cursor on the last key before one; say whether there is any."""
    moved: bool = cursor.prev() if cursor.set_range(key) else cursor.last()
    return moved

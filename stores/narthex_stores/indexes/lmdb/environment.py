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
    """The tables of an index; `narthex_stores.indexes.key_layout` describes their content."""

    facts: LmdbTable
    tiles: LmdbTable
    rows: LmdbTable
    meta: LmdbTable

    def __init__(self, path: Path, *, readonly: bool, map_size: int = MAP_SIZE) -> None:
        """Open the environment.

        Raises:
            IndexMissingError: The directory does not exist, or holds no environment.
        """
        names = (b"facts", b"tiles", b"rows", b"meta")
        try:
            super().__init__(path, tables=names, readonly=readonly, map_size=map_size)
        except EnvironmentMissingError as error:
            raise IndexMissingError(f"no index exists at `{path}`") from error
        self.facts, self.tiles, self.rows, self.meta = (self.tables[name] for name in names)

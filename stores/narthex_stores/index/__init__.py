"""Indexes: the state of a dataset log, for lookups as of any instant."""

from narthex_stores.index.adapter import index_adapter
from narthex_stores.index.auditing import Part, StoredDifference, stored_differences
from narthex_stores.index.lmdb_index import LmdbIndex
from narthex_stores.index.memory import InMemoryIndex
from narthex_stores.index.protocol import (
    AppliedBatch,
    Fenced,
    Found,
    IndexMismatchError,
    IndexMissingError,
    IndexReader,
    IndexStore,
    NotCorrectableError,
    Offsets,
    Touched,
    WrongShapeError,
)
from narthex_stores.index.reading import Snapshot as IndexSnapshot

__all__ = [
    "AppliedBatch",
    "Fenced",
    "Found",
    "InMemoryIndex",
    "IndexMismatchError",
    "IndexMissingError",
    "IndexReader",
    "IndexSnapshot",
    "IndexStore",
    "LmdbIndex",
    "NotCorrectableError",
    "Offsets",
    "Part",
    "StoredDifference",
    "Touched",
    "WrongShapeError",
    "index_adapter",
    "stored_differences",
]

"""Indexes: the state of a dataset log, for lookups as of any instant."""

from narthex_stores.index.adapter import index_adapter
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

__all__ = [
    "AppliedBatch",
    "Fenced",
    "Found",
    "InMemoryIndex",
    "IndexMismatchError",
    "IndexMissingError",
    "IndexReader",
    "IndexStore",
    "LmdbIndex",
    "NotCorrectableError",
    "Offsets",
    "Touched",
    "WrongShapeError",
    "index_adapter",
]

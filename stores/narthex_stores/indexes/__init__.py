"""Indexes: the state of a dataset log, for lookups as of any instant.

`protocol` is the contract, `memory` the definition of the right answers, `lmdb` the index that
serves. `key_layout` is the format of keys and values; `decay` and `read_time_folds` compute what
depends on the instant of a lookup.
"""

from narthex_stores.indexes.adapter import index_adapter
from narthex_stores.indexes.lmdb.auditing import Part, StoredDifference, stored_differences
from narthex_stores.indexes.lmdb.index import LmdbIndex
from narthex_stores.indexes.lmdb.reading import Snapshot as IndexSnapshot
from narthex_stores.indexes.memory import InMemoryIndex
from narthex_stores.indexes.protocol import (
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

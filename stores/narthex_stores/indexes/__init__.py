"""Indexes: the state of a dataset log, for lookups as of any instant.

`protocol` is the contract, `memory` the reference implementation, `lmdb` the index that serves
lookups by `ordered_tables.window_results`, and `lmdb.offsets_and_epoch` stores
the Kafka offsets that an index contains. `key_layout` is the format of keys and values,
`fold_choice` finds how a lookup folds rows, and `decayed_rows` computes values that decay.
"""

from narthex_stores.indexes.adapter import index_adapter
from narthex_stores.indexes.lmdb.auditing import Part, StoredDifference, stored_differences
from narthex_stores.indexes.lmdb.index import LmdbIndex
from narthex_stores.indexes.ordered_tables.index_snapshot import IndexSnapshot as IndexSnapshot
from narthex_stores.indexes.memory import InMemoryIndex
from narthex_stores.indexes.protocol import (
    AppliedBatch,
    IndexFenced,
    IndexMismatchError,
    IndexMissingError,
    IndexReader,
    IndexStore,
    Invalidation,
    LookupResult,
    NotCorrectableError,
    Offsets,
    WrongShapeError,
)

__all__ = [
    "AppliedBatch",
    "InMemoryIndex",
    "IndexFenced",
    "IndexMismatchError",
    "IndexMissingError",
    "IndexReader",
    "IndexSnapshot",
    "IndexStore",
    "Invalidation",
    "LmdbIndex",
    "LookupResult",
    "NotCorrectableError",
    "Offsets",
    "Part",
    "StoredDifference",
    "WrongShapeError",
    "index_adapter",
    "stored_differences",
]

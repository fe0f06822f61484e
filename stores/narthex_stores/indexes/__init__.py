"""Indexes: the state of a dataset log, for lookups as of any instant.

`index_store` opens the indexes of an installation. `protocol` is the contract and `memory` the
reference implementation. `lmdb` is the embedded index, and `redis` the one on servers of the Redis
protocol. Both apply facts and answer lookups by the
code of `ordered_tables`, where `window_results` computes the results of windows. `key_layout`
is the format of keys and values, `fold_choice` finds how a lookup folds rows, and `decayed_rows`
computes values that decay.
"""

from narthex_stores.indexes.adapter import (
    SHARD_PREFIX,
    create_shard,
    divided_index,
    ensure_parent,
    index_adapter,
    shard_path,
)
from narthex_stores.indexes.auditing import (
    Part,
    ShardedEntries,
    StoredDifference,
    StoredEntries,
    stored_entries,
)
from narthex_stores.indexes.index_store import (
    IndexStore,
    LmdbIndexStore,
    RedisIndexStore,
    index_store,
)
from narthex_stores.indexes.lmdb.index import LmdbIndex
from narthex_stores.indexes.memory import InMemoryIndex
from narthex_stores.indexes.newest_rows import only_grows
from narthex_stores.indexes.ordered_tables.index_snapshot import IndexSnapshot as IndexSnapshot
from narthex_stores.indexes.protocol import (
    AppliedBatch,
    IndexFenced,
    IndexHandle,
    IndexMismatchError,
    IndexMissingError,
    IndexPartLostError,
    IndexReader,
    Invalidation,
    LookupResult,
    NotCorrectableError,
    Offsets,
    WritableIndex,
    WrongShapeError,
)
from narthex_stores.indexes.redis.adapter import RedisIndexAdapter
from narthex_stores.indexes.redis.addresses import StoreAddress, parse_address
from narthex_stores.indexes.redis.index import RedisIndex
from narthex_stores.indexes.redis.servers import RedisServers, shared_servers
from narthex_stores.indexes.sharded import ShardedIndex, ShardedReader

__all__ = [
    "ShardedEntries",
    "SHARD_PREFIX",
    "ShardedIndex",
    "ShardedReader",
    "create_shard",
    "divided_index",
    "ensure_parent",
    "shard_path",
    "AppliedBatch",
    "InMemoryIndex",
    "IndexFenced",
    "IndexHandle",
    "IndexMismatchError",
    "IndexMissingError",
    "IndexPartLostError",
    "IndexReader",
    "IndexSnapshot",
    "IndexStore",
    "Invalidation",
    "LmdbIndex",
    "LmdbIndexStore",
    "LookupResult",
    "NotCorrectableError",
    "Offsets",
    "Part",
    "RedisIndex",
    "RedisIndexAdapter",
    "RedisIndexStore",
    "RedisServers",
    "StoreAddress",
    "StoredDifference",
    "StoredEntries",
    "WritableIndex",
    "WrongShapeError",
    "index_adapter",
    "index_store",
    "only_grows",
    "parse_address",
    "shared_servers",
    "stored_entries",
]

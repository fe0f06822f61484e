"""Stores hold the physical data behind assets, and read and write it.

* `adapters`: create, find and destroy the physical thing behind each kind of asset.
* `kafka`: topics and logs; `facts`: facts as columns; `history`: Delta tables of facts.
* `indexes`: lookups as of any instant, in LMDB, on Redis servers and in memory.
* `lmdb`: environments and snapshots.
* `process_logs`: the form of the log of a process.
* `state`: the state of stateful jobs; `samples`: the values of sampled keys of histories.

Start with `adapters.protocol`, `indexes.protocol` and `indexes.index_store`.
"""

from narthex_stores.adapters.confined_files import (
    OutsideError,
    find_beneath,
    open_beneath,
    require_no_links,
)
from narthex_stores.adapters.directories import OWNER_FILE, DirectoryAdapter, Owner, find_owner
from narthex_stores.adapters.memory import Crash, Fault, FaultTiming, InMemoryAdapter, Operation
from narthex_stores.adapters.protocol import (
    Absent,
    Adapter,
    Listed,
    Match,
    Mismatch,
    Probe,
    Unknown,
)
from narthex_stores.disk_use import disk_bytes
from narthex_stores.errors import (
    ForeignAssetError,
    MalformedNameError,
    PermanentError,
    StoreError,
    TransientError,
)
from narthex_stores.facts.columns import ColumnReader, FactColumns, column_reader
from narthex_stores.facts.states import alive, below, newest, public
from narthex_stores.facts.tables import LogRow, fact_schema, to_rows, to_table
from narthex_stores.file_systems import file_system_of
from narthex_stores.formats import STORE_FORMATS
from narthex_stores.history.adapter import HistoryAdapter, history_path, storage_options
from narthex_stores.history.newest_rows import history_rows, render_fact
from narthex_stores.history.record_tables import next_offsets, record_table
from narthex_stores.history.table import Appended, HistorySnapshot, HistoryTable
from narthex_stores.index_residue import index_names, search_indexes
from narthex_stores.indexes import (
    SHARD_PREFIX,
    AppliedBatch,
    IndexFenced,
    IndexHandle,
    IndexMissingError,
    IndexReader,
    IndexSnapshot,
    IndexStore,
    InMemoryIndex,
    Invalidation,
    LmdbIndex,
    LmdbIndexStore,
    LookupResult,
    Part,
    RedisIndexStore,
    ShardedEntries,
    ShardedIndex,
    ShardedReader,
    StoredDifference,
    StoredEntries,
    WritableIndex,
    create_shard,
    divided_index,
    ensure_parent,
    index_store,
    only_grows,
    parse_address,
    shard_path,
    stored_entries,
)
from narthex_stores.kafka.brokers import (
    GREATEST_RECORD_BYTES,
    SASL_MECHANISMS,
    Broker,
    platform_broker,
)
from narthex_stores.kafka.copying import (
    CopiedLog,
    compare_logs,
    copy_log,
    delete_records,
    seal_topic,
)
from narthex_stores.kafka.end_offsets import EndOffsetReader
from narthex_stores.kafka.group_offsets import CommittedOffset, GroupOffsets, consumer_group
from narthex_stores.kafka.logs import (
    Delivered,
    Headers,
    LogEvent,
    LogProducer,
    LogReader,
    PartitionKey,
    Record,
)
from narthex_stores.kafka.row_ends import RowEnds, end_rows
from narthex_stores.kafka.topics import TopicAdapter, is_compacted, topic_config
from narthex_stores.lmdb.environment import EnvironmentMissingError
from narthex_stores.lmdb.snapshots import (
    BrokenSnapshotError,
    NoSuchSnapshotError,
    SnapshotStore,
    SnapshotView,
    copy_environment,
    state_of,
)
from narthex_stores.process_logs import log_json, log_lines, open_log
from narthex_stores.residue import (
    Needle,
    Searched,
    names_below,
    search_files,
    search_topic,
)
from narthex_stores.samples.pinned_history import (
    HASH,
    STATES,
    PinnedHistory,
    TooManyStatesError,
    has_keys,
    keys_frame,
    newest_rows,
)
from narthex_stores.samples.values import values_as_of
from narthex_stores.state.checkpoint_directories import checkpoint_adapter
from narthex_stores.state.job_state import (
    JobState,
    StateBatch,
    group_at,
    offsets_in_state,
    place_of,
)

__all__ = [
    "STORE_FORMATS",
    "BrokenSnapshotError",
    "ensure_parent",
    "IndexHandle",
    "Part",
    "TooManyStatesError",
    "newest_rows",
    "STATES",
    "Adapter",
    "IndexMissingError",
    "MalformedNameError",
    "consumer_group",
    "CommittedOffset",
    "SHARD_PREFIX",
    "SASL_MECHANISMS",
    "only_grows",
    "search_files",
    "Absent",
    "history_rows",
    "ForeignAssetError",
    "WritableIndex",
    "OWNER_FILE",
    "next_offsets",
    "Fault",
    "LogReader",
    "AppliedBatch",
    "Record",
    "column_reader",
    "find_owner",
    "group_at",
    "search_topic",
    "TransientError",
    "IndexStore",
    "compare_logs",
    "LogRow",
    "RedisIndexStore",
    "history_path",
    "StoreError",
    "StoredEntries",
    "delete_records",
    "HistorySnapshot",
    "Appended",
    "PinnedHistory",
    "Probe",
    "FactColumns",
    "newest",
    "state_of",
    "offsets_in_state",
    "to_table",
    "ColumnReader",
    "index_names",
    "keys_frame",
    "Operation",
    "LookupResult",
    "EnvironmentMissingError",
    "Searched",
    "PartitionKey",
    "Match",
    "index_store",
    "is_compacted",
    "storage_options",
    "StoredDifference",
    "below",
    "has_keys",
    "render_fact",
    "shard_path",
    "Broker",
    "log_json",
    "log_lines",
    "open_beneath",
    "open_log",
    "topic_config",
    "InMemoryAdapter",
    "Invalidation",
    "StateBatch",
    "public",
    "Headers",
    "find_beneath",
    "DirectoryAdapter",
    "HistoryTable",
    "names_below",
    "GREATEST_RECORD_BYTES",
    "SnapshotView",
    "FaultTiming",
    "HASH",
    "checkpoint_adapter",
    "JobState",
    "IndexReader",
    "parse_address",
    "platform_broker",
    "Delivered",
    "LogEvent",
    "seal_topic",
    "to_rows",
    "HistoryAdapter",
    "CopiedLog",
    "SnapshotStore",
    "ShardedEntries",
    "Unknown",
    "TopicAdapter",
    "create_shard",
    "OutsideError",
    "ShardedIndex",
    "search_indexes",
    "LmdbIndex",
    "IndexSnapshot",
    "NoSuchSnapshotError",
    "disk_bytes",
    "file_system_of",
    "divided_index",
    "values_as_of",
    "EndOffsetReader",
    "LogProducer",
    "record_table",
    "Needle",
    "PermanentError",
    "end_rows",
    "Mismatch",
    "copy_environment",
    "GroupOffsets",
    "InMemoryIndex",
    "ShardedReader",
    "fact_schema",
    "alive",
    "Crash",
    "place_of",
    "require_no_links",
    "stored_entries",
    "Listed",
    "LmdbIndexStore",
    "Owner",
    "copy_log",
    "IndexFenced",
    "RowEnds",
]

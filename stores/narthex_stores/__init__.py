"""Where assets live: topics, lookup indexes, histories, checkpoints."""

from narthex_stores.adapter import (
    Absent,
    Adapter,
    Listed,
    Match,
    Mismatch,
    Probe,
    Unknown,
)
from narthex_stores.beneath import OutsideError, find_beneath, open_beneath, require_no_links
from narthex_stores.brokers import GREATEST_RECORD_BYTES, SASL_MECHANISMS, Broker
from narthex_stores.checkpoints import checkpoint_adapter
from narthex_stores.directories import OWNER_FILE, DirectoryAdapter, Owner, find_owner
from narthex_stores.errors import (
    ForeignAssetError,
    MalformedNameError,
    PermanentError,
    StoreError,
    TransientError,
)
from narthex_stores.fact_columns import ColumnReader, FactColumns, column_reader
from narthex_stores.fact_states import alive, below, newest, public
from narthex_stores.fact_tables import LogRow, fact_schema, to_rows, to_table
from narthex_stores.history import Appended, HistoryTable
from narthex_stores.history_adapter import HistoryAdapter, history_path, storage_options
from narthex_stores.history_rows import history_rows, render_fact
from narthex_stores.index import (
    AppliedBatch,
    Fenced,
    Found,
    IndexReader,
    IndexSnapshot,
    IndexStore,
    InMemoryIndex,
    LmdbIndex,
    Part,
    StoredDifference,
    Touched,
    index_adapter,
    stored_differences,
)
from narthex_stores.job_state import JobState, StateBatch, offsets_in_state
from narthex_stores.lmdb_environment import EnvironmentMissingError
from narthex_stores.logs import (
    Delivered,
    Headers,
    LogEvent,
    LogProducer,
    LogReader,
    Place,
    Record,
)
from narthex_stores.memory import Crash, Fault, InMemoryAdapter, Operation, When
from narthex_stores.snapshots import (
    BrokenSnapshotError,
    NoSuchSnapshotError,
    SnapshotStore,
    SnapshotView,
    copy_environment,
    state_of,
)
from narthex_stores.tips import LogTips
from narthex_stores.topics import TopicAdapter, topic_config

__all__ = [
    "GREATEST_RECORD_BYTES",
    "SASL_MECHANISMS",
    "Absent",
    "BrokenSnapshotError",
    "EnvironmentMissingError",
    "NoSuchSnapshotError",
    "OWNER_FILE",
    "OutsideError",
    "SnapshotStore",
    "SnapshotView",
    "Adapter",
    "Appended",
    "AppliedBatch",
    "Broker",
    "ColumnReader",
    "Crash",
    "Delivered",
    "DirectoryAdapter",
    "FactColumns",
    "Fault",
    "find_beneath",
    "open_beneath",
    "require_no_links",
    "Fenced",
    "ForeignAssetError",
    "Found",
    "Headers",
    "HistoryAdapter",
    "HistoryTable",
    "InMemoryAdapter",
    "InMemoryIndex",
    "IndexReader",
    "IndexSnapshot",
    "IndexStore",
    "Listed",
    "JobState",
    "LmdbIndex",
    "LogEvent",
    "LogProducer",
    "LogReader",
    "LogRow",
    "LogTips",
    "MalformedNameError",
    "Match",
    "Mismatch",
    "Operation",
    "Owner",
    "Part",
    "PermanentError",
    "Place",
    "Probe",
    "Record",
    "StateBatch",
    "StoreError",
    "StoredDifference",
    "TopicAdapter",
    "Touched",
    "TransientError",
    "Unknown",
    "When",
    "alive",
    "below",
    "checkpoint_adapter",
    "column_reader",
    "fact_schema",
    "find_owner",
    "history_path",
    "history_rows",
    "index_adapter",
    "newest",
    "offsets_in_state",
    "public",
    "render_fact",
    "copy_environment",
    "state_of",
    "storage_options",
    "stored_differences",
    "to_rows",
    "to_table",
    "topic_config",
]

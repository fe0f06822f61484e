"""The history of a dataset: an append-only Delta table of every fact state that its log held.

Each append carries, as Delta's application transactions, the next offset of each partition that
it holds, and one more for the number of partitions. So a repeated append finds its offsets
committed and adds nothing, the table itself refuses a writer that was superseded, and the table
alone determines where to resume.

Delta's library is imported on first use: processes that only read indexes have 16 MiB less.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from narthex._ir import TOMBSTONE_TIME, HistorySpec, LogSpec
from narthex_stores.errors import ForeignAssetError, TransientError
from narthex_stores.facts.states import below, is_below
from narthex_stores.facts.tables import LogRow, fact_schema, to_table
from narthex_stores.file_systems import file_system_of

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow.dataset import Dataset

_ATTEMPTS = 4
"""A commit conflicts at most once per other writer; only one writer is expected."""

KEPT_AFTER_COMPACTION = timedelta(hours=24)
"""How long files replaced by compaction are kept for readers that hold their list."""

_SAMPLED_PER_SPAN = 64
"""How many event times are kept of each span when event time is divided."""

PROPERTIES = {
    "delta.logRetentionDuration": "interval 15 minutes",
    "delta.deletedFileRetentionDuration": "interval 2 days",
}
"""How long the table's own log keeps each write's entry and the list of replaced files.

Each write lists the log: with 3,000 entries, or two hours of writes, a write took twice as long.
A reader that is further behind begins with the newest checkpoint.
"""


@attrs.frozen(kw_only=True)
class Appended:
    """The result of an append.

    Attributes:
        rows: Number of new fact states.
        repeated: Number of fact states at offsets that an earlier append had committed.
    """

    rows: int
    repeated: int


@attrs.frozen(kw_only=True)
class HistorySnapshot:
    """One version of a table; compaction keeps its files for `KEPT_AFTER_COMPACTION`.

    Attributes:
        offsets: The next offset of each partition; the files have every state below them, and no
            other.
        files: The Parquet files: paths or URLs.
        states: The number of fact states in them.
        storage: Options of the object store.
    """

    offsets: Mapping[int, int]
    files: tuple[str, ...]
    states: int
    storage: Mapping[str, str] = attrs.field(repr=False)


class HistoryTable:
    """One dataset's history, open at `path`: a local path or an `s3://` URL."""

    def __init__(
        self, path: str | Path, spec: HistorySpec, *, storage: Mapping[str, str] | None = None
    ) -> None:
        """Open an existing table.

        Args:
            path: The path or URL of the table.
            spec: The spec that the table was created for.
            storage: Options of the object store, as from `storage_options`.

        Raises:
            FileNotFoundError: The table does not exist.
            ForeignAssetError: The table holds another log's facts.
            TransientError: The store did not answer.
        """
        self._log = spec.log
        self._schema = fact_schema(spec.log)
        self._storage = storage or {}
        self._path = str(path)
        self._table = open_table(self._path, storage=self._storage)
        found = pa.schema(self._table.schema().to_arrow())
        if found.names != self._schema.names:
            raise ForeignAssetError(f"`{path}` has the columns {', '.join(found.names)}")

    @property
    def log(self) -> LogSpec:
        """The log whose facts the table holds."""
        return self._log

    def append_rows(self, rows: Sequence[LogRow]) -> Appended:
        """Add facts, as `append_table`; each partition resumes after its last offset."""
        next_offsets: dict[int, int] = {}
        for row in rows:
            next_offsets[row.partition] = max(row.offset + 1, next_offsets.get(row.partition, 0))
        return self.append_table(to_table(self._log, rows), next_offsets=next_offsets)

    def append_table(self, rows: pa.Table, *, next_offsets: Mapping[int, int]) -> Appended:
        """Add fact states in their Arrow form, each offset once even when it is repeated.

        Args:
            rows: States read from the log, all below `next_offsets`.
            next_offsets: For each partition read, the offset to resume from.

        Raises:
            ValueError: A row is not below the next offset of its partition.
            TransientError: The append failed or its outcome is unknown; append again.
        """
        if below(rows, next_offsets).num_rows != rows.num_rows:
            raise ValueError("a row's offset is not below the next offset of its partition")
        for _ in range(_ATTEMPTS):
            committed = self.offsets()
            fresh = rows.filter(~is_below(committed))
            ahead = {p: o for p, o in next_offsets.items() if o > committed.get(p, 0)}
            if ahead and not self._commit(fresh, ahead, committed):
                continue
            return Appended(
                rows=fresh.num_rows,
                repeated=rows.num_rows - fresh.num_rows,
            )
        raise TransientError(f"too many concurrent commits to `{self._table.table_uri}`")

    def _commit(
        self, rows: pa.Table, ahead: Mapping[int, int], committed: Mapping[int, int]
    ) -> bool:
        from deltalake import CommitProperties, Transaction, write_deltalake  # noqa: PLC0415
        from deltalake.exceptions import CommitFailedError, DeltaError  # noqa: PLC0415

        marks = [Transaction(_partition_app(number), offset) for number, offset in ahead.items()]
        known = max(committed, default=-1) + 1
        if (partitions := max(known, max(ahead) + 1)) > known:
            marks.append(Transaction(_PARTITIONS_APP, partitions))
        try:
            write_deltalake(
                self._table,
                rows,
                mode="append",
                # After a concurrent commit the caller must check the offsets again.
                commit_properties=CommitProperties(app_transactions=marks, max_commit_retries=0),
            )
        except CommitFailedError:
            return False
        except (DeltaError, OSError) as error:
            raise TransientError(f"`{self._table.table_uri}`: {error}") from error
        return True

    def offsets(self) -> dict[int, int]:
        """Return the next offset of each partition that the table has read from."""
        self._refresh()
        return self._offsets()

    def snapshot(self) -> "HistorySnapshot":
        """Return what the table contains now: its files, and the offsets that these end at."""
        self._refresh()
        added = pa.table(self._table.get_add_actions(flatten=True))
        return HistorySnapshot(
            offsets=self._offsets(),
            files=tuple(sorted(self._table.file_uris())),
            states=int(pc.sum(added.column("num_records")).as_py() or 0) if added.num_rows else 0,
            storage=dict(self._storage),
        )

    def _offsets(self) -> dict[int, int]:
        partitions = self._table.transaction_version(_PARTITIONS_APP) or 0
        found = {
            number: self._table.transaction_version(_partition_app(number))
            for number in range(partitions)
        }
        return {number: offset for number, offset in found.items() if offset is not None}

    def files(self) -> list[str]:
        """List the Parquet files of the table's current version: paths or URLs."""
        self._refresh()
        return sorted(self._table.file_uris())

    def scan(
        self,
        *,
        columns: Iterable[str] | None = None,
        from_us: int | None = None,
        to_us: int | None = None,
        offsets: Mapping[int, int] | None = None,
        since: Mapping[int, int] | None = None,
        row_ids: Collection[bytes] | None = None,
    ) -> pa.Table:
        """Read fact states, superseded ones and tombstones too.

        A retraction has no event time of its own (`TOMBSTONE_TIME`), and is read with any span.

        Args:
            columns: Names of the Arrow form; all when not given.
            from_us: The least event time, inclusive.
            to_us: The greatest event time, exclusive.
            offsets: Read only rows below these next offsets; a partition left out has none.
            since: Read only rows at or after these offsets; all of a partition left out.
            row_ids: Read only the states of these rows.
        """
        self._refresh()
        wanted = None
        if row_ids is not None:
            wanted = pc.field("row_id").isin(pa.array(row_ids, pa.binary()))
        for term in _terms(from_us, to_us, offsets, since):
            wanted = term if wanted is None else wanted & term
        names = self._schema.names if columns is None else list(columns)
        found: pa.Table = self._dataset().to_table(columns=names, filter=wanted)
        return found.cast(pa.schema([self._schema.field(name) for name in names]))

    def spans(
        self, *, states: int, offsets: Mapping[int, int]
    ) -> tuple[tuple[int | None, int | None], ...]:
        """Divide event time so that each span has about as many fact states as given.

        It reads the event times in batches, and keeps a sample of them. The first and the last span
        are unbounded, so that they have the states without an event time of their own, too. Equal
        event times are in one span, however many there are.

        Args:
            states: The number of states of a span.
            offsets: As for `scan`.
        """
        self._refresh()
        stride = max(1, states // _SAMPLED_PER_SPAN)
        sampled: list[npt.NDArray[np.int64]] = []
        read = 0
        batches = self._dataset().to_batches(columns=["event_time"], filter=is_below(offsets))
        for batch in batches:
            times = batch.column("event_time").to_numpy()
            sampled.append(times[-read % stride :: stride])
            read += len(times)
        if read <= states:
            return ((None, None),)
        times = np.sort(np.concatenate(sampled))
        times = times[times < TOMBSTONE_TIME]
        cuts = np.unique(times[_SAMPLED_PER_SPAN::_SAMPLED_PER_SPAN]).tolist()
        return tuple(pairwise([None, *cuts, None]))

    def newest_event_time(self) -> int | None:
        """Return the greatest event time of any state, tombstones too; None for an empty table.

        It comes from the table's own file statistics: a file is read only where it holds
        retractions, which have no event time.
        """
        self._refresh()
        files = pa.table(self._table.get_add_actions(flatten=True))
        if not files.num_rows:
            return None
        found = pc.max(files.column("max.event_time")).as_py()
        if found == TOMBSTONE_TIME:
            times = self.scan(columns=["event_time"]).column("event_time").to_numpy()
            found = max(times[times < TOMBSTONE_TIME], default=None)
        return None if found is None else int(found)

    def compact(self, *, keep: timedelta = KEPT_AFTER_COMPACTION) -> int:
        """Rewrite small files into large ones; return the number of replaced files.

        The table's content and offsets do not change, and others may append meanwhile. Replaced
        files are deleted once they have been out of use for `keep`, and so are files that no write
        refers to; log entries are removed as set in `PROPERTIES`.
        """
        from deltalake.exceptions import DeltaError  # noqa: PLC0415

        self._refresh()
        try:
            done = self._table.optimize.compact(max_concurrent_tasks=1)
            self._table.vacuum(
                retention_hours=int(keep / timedelta(hours=1)),
                dry_run=False,
                enforce_retention_duration=False,
                full=True,
            )
            self._table.create_checkpoint()
            self._table.cleanup_metadata()
        except (DeltaError, OSError) as error:
            raise TransientError(f"`{self._table.table_uri}`: {error}") from error
        return int(done["numFilesRemoved"])

    @cached_property
    def _files(self) -> fs.FileSystem:
        system, path = file_system_of(self._path)
        return fs.SubTreeFileSystem(path, system)

    def _dataset(self) -> "Dataset":
        dataset: Dataset = self._table.to_pyarrow_dataset(filesystem=self._files)
        return dataset

    def _refresh(self) -> None:
        from deltalake.exceptions import DeltaError, TableNotFoundError  # noqa: PLC0415

        try:
            self._table.update_incremental()
        except TableNotFoundError as error:
            raise FileNotFoundError(self._table.table_uri) from error
        except (DeltaError, OSError) as error:
            raise TransientError(f"`{self._table.table_uri}`: {error}") from error


_PARTITIONS_APP = "partitions"


def _partition_app(partition: int) -> str:
    return f"partition-{partition}"


def _terms(
    from_us: int | None,
    to_us: int | None,
    offsets: Mapping[int, int] | None,
    since: Mapping[int, int] | None,
) -> list[pc.Expression]:
    terms = []
    if from_us is not None:
        terms.append(pc.field("event_time") >= from_us)
    if to_us is not None:
        terms.append((pc.field("event_time") < to_us) | (pc.field("event_time") == TOMBSTONE_TIME))
    if offsets is not None:
        terms.append(is_below(offsets))
    if since is not None:
        terms.append(~is_below(since))
    return terms


def open_table(path: str, *, storage: Mapping[str, str]) -> "DeltaTable":
    """Open the Delta table at a path.

    Raises:
        FileNotFoundError: The table does not exist.
        TransientError: The store did not answer.
    """
    from deltalake import DeltaTable  # noqa: PLC0415
    from deltalake.exceptions import DeltaError, TableNotFoundError  # noqa: PLC0415

    try:
        return DeltaTable(path, storage_options=dict(storage))
    except TableNotFoundError as error:
        raise FileNotFoundError(path) from error
    except (DeltaError, OSError, json.JSONDecodeError) as error:
        raise TransientError(f"`{path}`: {error}") from error

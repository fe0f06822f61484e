"""The contract of an index: the state of one dataset log, for lookups as of any instant.

An index is a set of facts, each in its state of the highest version, together with the log
offsets that it contains. Facts may arrive late, twice and in any order; the same facts give the
same answers.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, Self, TypeAlias

import attrs

from narthex._ir import Cell, Fact, IndexSpec
from narthex_stores.errors import PermanentError
from narthex_stores.facts.columns import FactColumns

Offsets: TypeAlias = dict[tuple[str, int], int]
"""(topic, partition) to the next offset to read."""

Key: TypeAlias = Sequence[Cell]
"""The cells of the key columns, in the log's order."""


class IndexFenced(Exception):
    """A writer of a later epoch has taken the index over; this one must stop."""


class IndexMissingError(FileNotFoundError):
    """The index does not exist; only its adapter creates one."""


class IndexMismatchError(ValueError):
    """The index was created for another spec."""


class IndexPartLostError(PermanentError):
    """A server of a networked store has lost its part of the index; answers would lack rows."""


class WrongShapeError(TypeError):
    """This shape of index does not support the operation."""


class NotCorrectableError(ValueError):
    """A fact retracts a row, but the index stores no row positions to find it by."""


@attrs.frozen(kw_only=True)
class LookupResult:
    """The result of a lookup.

    Attributes:
        values: The row's values; for contributions, the aggregates' values in the spec's order.
        event_time: When the row became valid; for contributions, the newest event time.
    """

    values: tuple[Cell, ...]
    event_time: int


@attrs.frozen(kw_only=True)
class Invalidation:
    """A changed span of a key's past: from inclusive, to exclusive; None means no end."""

    key: tuple[Cell, ...]
    from_us: int
    to_us: int | None


@attrs.frozen(kw_only=True)
class AppliedBatch:
    """The outcome of a batch.

    Attributes:
        fresh: Facts that changed the state.
        duplicates: Facts that the index held already, in this or a newer version.
        invalidations: For a keyed log, the span that each fresh fact changed, up to the next
            version.
    """

    fresh: int
    duplicates: int
    invalidations: tuple[Invalidation, ...]


class IndexReader(Protocol):
    """One consistent snapshot of an index.

    An index in several parts has a snapshot of each, which is opened when it is first used.

    A networked store is consistent per group: each group is read at one instant, which is not
    before the snapshot was opened. So answers contain all facts below `offsets`, and may contain
    facts that were applied later.
    """

    @property
    def offsets(self) -> Offsets:
        """The log offsets that the snapshot contains."""

    @property
    def is_exact(self) -> bool:
        """Whether answers contain no facts beyond `offsets`."""

    @property
    def newest(self) -> int | None:
        """The greatest event time of the rows, if the dataset has a history; None without rows.

        Absences and retracted rows do not count. `narthex_stores.indexes.newest_rows` describes
        for which indexes retracted rows do.
        """

    @property
    def answered_from(self) -> int | None:
        """The first instant as of which lookups are answered; None if all are."""

    def with_newest(self, newest: int | None) -> Self:
        """Return this snapshot with the newest row of a dataset of which it has a part."""

    def lookup(self, keys: Sequence[Key], as_of: Sequence[int]) -> list[LookupResult | None]:
        """Return the value of each key as of its instant.

        For a keyed log this is the newest row at or before it; None without one, or if the key is
        absent. For contributions these are the aggregates' values, the empty ones too; None if
        there was no contribution by then. Retracted contributions do not count. Rows before
        `spec.oldest_visible` of the instant and the newest row are not seen.

        Raises:
            HistoryExpired: One of the instants is before `answered_from`.
        """

    def floor(
        self, keys: Sequence[Key], as_of: Sequence[int], *, not_before: Sequence[int | None]
    ) -> list[LookupResult | None]:
        """Return the newest row of each key at or before an instant, unless it is too old.

        Raises:
            WrongShapeError: The log is not keyed.
        """

    def rows(self, by: Key, from_us: int, to_us: int | None) -> list[Fact]:
        """Return the valid rows whose `by` columns have these cells, by event time and row_id.

        Their event times are from `from_us` to before `to_us`; None means no end.

        Raises:
            WrongShapeError: The index has no `by` columns.
        """

    def reading(self, newest_rows: int) -> Self:
        """Return this snapshot with another number of rows to read before any tile.

        That changes which entries an answer is computed from, and no answer.
        """


class WritableIndex(Protocol):
    """An index that can be written."""

    @property
    def spec(self) -> IndexSpec:
        """The spec of the index."""

    def apply(
        self, facts: Sequence[Fact], *, offsets: Mapping[tuple[str, int], int], epoch: int
    ) -> AppliedBatch:
        """Apply facts and offsets in one transaction.

        A networked store changes each group in one transaction, and advances the offsets after all
        groups; a batch that was interrupted is completed by applying it again.

        A fact changes the state if the index has no fact of its row_id, or an older version. A
        fact whose event time is `TOMBSTONE_TIME` retracts the row, as if it had never existed.
        Offsets never go back.

        Raises:
            IndexFenced: The index has seen a later epoch.
            NotCorrectableError: A fact retracts a row, and the index is not correctable.
        """

    def expire(self, *, now_us: int, most: int, epoch: int) -> int:
        """Delete rows that no lookup may see any more, the oldest first.

        Call it again and again: each call advances `answered_from` and deletes a bounded number of
        entries. Without `spec.expires` it does nothing.

        Args:
            now_us: The present time; a row that is dated later makes no other row too old.
            most: About how many entries to delete.
            epoch: The writer's epoch.

        Returns:
            How many entries were deleted; 0 if no others are due.

        Raises:
            IndexFenced: The index has seen a later epoch.
        """

    def preview_invalidations(self, facts: Sequence[Fact]) -> tuple[Invalidation, ...]:
        """Return at least the spans that `apply` would change; none for a log without keys."""

    def raise_epoch(self, epoch: int) -> None:
        """Refuse writers of earlier epochs from now on.

        Raises:
            IndexFenced: The index has seen a later epoch.
        """

    def offsets(self) -> Offsets:
        """Return the log offsets that the index contains."""

    def read(self) -> AbstractContextManager[IndexReader]:
        """Open a snapshot; a thread holds at most one per index, and only briefly."""


class IndexHandle(WritableIndex, Protocol):
    """An index that a process has open in an index store."""

    @property
    def name(self) -> str:
        """The physical name of the index."""

    @property
    def takes_columns(self) -> bool:
        """Whether facts can be applied as columns: only contributions that are not corrected."""

    def apply_columns(
        self, facts: FactColumns, *, offsets: Mapping[tuple[str, int], int], epoch: int
    ) -> AppliedBatch:
        """Apply facts as columns: equivalent to `apply`, but faster.

        Raises:
            WrongShapeError: `takes_columns` is false.
            IndexFenced: The index has seen a later epoch.
        """

    def is_replaced(self) -> bool:
        """Whether it is known that the index was removed, or that its name has another one."""

    def sync(self) -> None:
        """Make all batches as durable as the store can; the writer calls it every second."""

    def close(self) -> None:
        """Close the index; committed batches stay."""

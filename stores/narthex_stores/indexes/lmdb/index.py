"""The index in LMDB: embedded, many reader processes, one writer at a time."""

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import lmdb
from typing_extensions import override

from narthex._aggregates import Folding
from narthex._base import to_plain
from narthex._ir import Cell, Fact, IndexSpec
from narthex_stores.facts.columns import FactColumns
from narthex_stores.indexes.fold_choice import folding_of
from narthex_stores.indexes.key_layout import IndexLayout
from narthex_stores.indexes.lmdb.environment import MAP_SIZE, Environment, Transaction
from narthex_stores.indexes.lmdb.expiry import Expiry
from narthex_stores.indexes.lmdb.newest_row import NewestRow
from narthex_stores.indexes.lmdb.offsets_and_epoch import advance, fence, offsets_of
from narthex_stores.indexes.ordered_tables.index_snapshot import IndexSnapshot
from narthex_stores.indexes.ordered_tables.window_results import NEWEST_ROWS
from narthex_stores.indexes.ordered_tables.writing import (
    BatchWriter,
    KeyInstant,
    changed_places,
    locate_all,
    locate_columns,
    next_version,
)
from narthex_stores.indexes.protocol import (
    AppliedBatch,
    IndexMismatchError,
    Invalidation,
    Offsets,
    WrongShapeError,
)

_SPEC = b"spec"
_Written = TypeVar("_Written")


def _digest(spec: IndexSpec) -> bytes:
    """Hash a spec without its number of shards: each of them is an index of its own.

    An index without parts has the hash that it had before there were parts.
    """
    plain = to_plain(spec)
    if isinstance(plain, dict):
        left_out = ("shards",) if spec.parts_us else ("shards", "parts_us", "divided_above")
        for name in left_out:
            del plain[name]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).digest()


class _OpenSnapshot(AbstractContextManager[IndexSnapshot]):
    """A snapshot during a `with` block; a generator would take several times as long."""

    __slots__ = ("_environment", "_make", "_transaction")

    def __init__(
        self, environment: Environment, make: Callable[[Transaction], IndexSnapshot]
    ) -> None:
        self._environment = environment
        self._make = make

    @override
    def __enter__(self) -> IndexSnapshot:
        transaction = self._transaction = self._environment.begin_read()
        try:
            return self._make(transaction)
        except BaseException:
            self._environment.end_read(transaction)
            raise

    @override
    def __exit__(self, *_: object) -> None:
        self._environment.end_read(self._transaction)


class LmdbIndex:
    """An index in the directory that its adapter created; opened at most once per process.

    Writers in several processes wait for each other's transactions; the epoch that each one passes
    decides which of them may write. Readers never wait and never block a writer.
    """

    def __init__(
        self,
        path: Path,
        spec: IndexSpec,
        *,
        readonly: bool = False,
        map_size: int = MAP_SIZE,
        newest_rows: int = NEWEST_ROWS,
    ) -> None:
        """Open the index.

        Args:
            path: The directory of the index.
            spec: The spec that the index was created for.
            readonly: Whether to open it without writing or waiting for a writer.
            map_size: Initial bytes of address space; doubled when they are full.
            newest_rows: How many of a group's rows are read before any tile; changes no answer.

        Raises:
            IndexMissingError: The index does not exist.
            IndexMismatchError: The index was created for another spec.
        """
        self.path = path
        self.spec = spec
        self._newest_rows = newest_rows
        self._layout = IndexLayout(spec=spec)
        self._folding = folding_of(spec)
        self._environment = Environment(path, readonly=readonly, map_size=map_size)
        self._newest_row = NewestRow(layout=self._layout, environment=self._environment)
        self._expiry = Expiry(spec=spec, environment=self._environment, newest_row=self._newest_row)
        try:
            self._check_spec(path, readonly=readonly)
        except BaseException:
            self._environment.close()
            raise

    def _check_spec(self, path: Path, *, readonly: bool) -> None:
        wanted = _digest(self.spec)
        meta = self._environment.meta
        with self._environment.transaction(write=False) as transaction:
            found = transaction.get(_SPEC, db=meta)
        if found is None and not readonly:
            with self._environment.transaction(write=True) as transaction:
                transaction.put(_SPEC, wanted, overwrite=False, db=meta)
                found = transaction.get(_SPEC, db=meta)
        if found != wanted:
            raise IndexMismatchError(f"`{path}` is an index of another spec")

    @property
    def name(self) -> str:
        """The name of its directory, which is the physical name of the index."""
        return self.path.name

    def apply(
        self, facts: Sequence[Fact], *, offsets: Mapping[tuple[str, int], int], epoch: int
    ) -> AppliedBatch:
        """Apply facts and offsets in one transaction."""
        located = locate_all(self._layout, facts)
        places = [group for _, group, _ in located], [fact.event_time for _, _, fact in located]

        def apply(writer: BatchWriter) -> AppliedBatch:
            with self._newest_row.following(writer.transaction, located):
                return writer.apply_located(located)

        return self._apply(apply, places, offsets, epoch)

    @property
    def takes_columns(self) -> bool:
        """Whether facts can be applied as columns: only contributions that are not corrected."""
        return isinstance(self._folding, Folding) and not self.spec.correctable

    def apply_columns(
        self, facts: FactColumns, *, offsets: Mapping[tuple[str, int], int], epoch: int
    ) -> AppliedBatch:
        """Apply facts as columns: equivalent to `apply`, but faster.

        Raises:
            WrongShapeError: `takes_columns` is false.
            IndexFenced: The index has seen a later epoch.
        """
        if not self.takes_columns:
            raise WrongShapeError("a columnar index accepts only contributions without corrections")
        located = locate_columns(self._layout, facts)
        places = located.groups, facts.event_times

        def apply(writer: BatchWriter) -> AppliedBatch:
            self._newest_row.add(writer.transaction, facts.event_times, facts.alive)
            return writer.apply_located_columns(located)

        return self._apply(apply, places, offsets, epoch)

    def _apply(
        self,
        take: Callable[[BatchWriter], AppliedBatch],
        places: tuple[Sequence[bytes], Sequence[int]],
        offsets: Mapping[tuple[str, int], int],
        epoch: int,
    ) -> AppliedBatch:
        def apply(transaction: Transaction) -> AppliedBatch:
            applied = take(self._writer(transaction))
            self._expiry.enqueue(transaction, *places)
            advance(transaction, self._environment.meta, offsets)
            return applied

        return self._written(apply, epoch)

    def expire(self, *, now_us: int, most: int, epoch: int) -> int:
        """Delete rows that no lookup may see any more, up to about so many entries."""
        if not self.spec.expires:
            return 0
        step = functools.partial(self._expiry.step, now_us=now_us, most=most)
        return self._written(step, epoch)

    def _written(self, write: Callable[[Transaction], _Written], epoch: int) -> _Written:
        """Run a writer's transaction; if the map is full, run it again on a larger one."""
        while True:
            try:
                with self._environment.transaction(write=True) as transaction:
                    fence(transaction, self._environment.meta, epoch)
                    written = write(transaction)
            except lmdb.MapFullError:
                self._environment.grow()
            else:
                return written

    def _writer(self, transaction: Transaction) -> BatchWriter:
        return BatchWriter(
            layout=self._layout,
            folding=self._folding if isinstance(self._folding, Folding) else None,
            tables=self._environment,
            transaction=transaction,
        )

    def preview_invalidations(self, facts: Sequence[Fact]) -> tuple[Invalidation, ...]:
        """Return at least the spans that `apply` would change; none for a log without keys."""
        if not self._layout.keyed:
            return ()
        environment = self._environment
        with environment.transaction(write=False) as transaction:
            places: dict[KeyInstant, tuple[Cell, ...]] = {}
            for fact in facts:
                places |= changed_places(self._layout, environment, transaction, fact)
            return tuple(
                Invalidation(
                    key=key,
                    from_us=place[1],
                    to_us=next_version(environment, transaction, *place),
                )
                for place, key in places.items()
            )

    def raise_epoch(self, epoch: int) -> None:
        """Refuse writers of earlier epochs from now on."""
        with self._environment.transaction(write=True) as transaction:
            fence(transaction, self._environment.meta, epoch)

    def offsets(self) -> Offsets:
        """Return the log offsets that the index contains."""
        with self._environment.transaction(write=False) as transaction:
            return offsets_of(transaction, self._environment.meta)

    def read(self) -> AbstractContextManager[IndexSnapshot]:
        """Open a snapshot; a thread holds at most one per index, and only briefly.

        While a snapshot is open, space that later batches free is not reused.
        """
        return _OpenSnapshot(self._environment, self._snapshot)

    def _snapshot(self, transaction: Transaction) -> IndexSnapshot:
        return IndexSnapshot(
            layout=self._layout,
            folding=self._folding,
            newest_rows=self._newest_rows,
            tables=self._environment,
            transaction=transaction,
            read_offsets=functools.partial(offsets_of, transaction, self._environment.meta),
            newest=self._newest_row.event_time(transaction),
            horizon=self._expiry.horizon(transaction),
        )

    def is_replaced(self) -> bool:
        """Whether the directory is gone, or holds another index by now.

        This object continues to read the index that it opened.
        """
        return self._environment.is_replaced()

    def sync(self) -> None:
        """Make all batches durable against a loss of power."""
        self._environment.flush()

    def close(self) -> None:
        """Close the index; committed batches stay."""
        self._environment.close()

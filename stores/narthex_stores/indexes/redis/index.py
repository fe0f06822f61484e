"""The index on servers of the Redis protocol, behind the interface of every index."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from narthex._aggregates import Folding
from narthex._ir import Fact, IndexSpec
from narthex_stores.errors import TransientError
from narthex_stores.facts.columns import FactColumns
from narthex_stores.indexes.expired_rows import horizon_at
from narthex_stores.indexes.fold_choice import folding_of
from narthex_stores.indexes.key_layout import IndexLayout
from narthex_stores.indexes.newest_rows import later, newest_of, only_grows
from narthex_stores.indexes.ordered_tables.window_results import NEWEST_ROWS
from narthex_stores.indexes.protocol import (
    AppliedBatch,
    IndexMissingError,
    Invalidation,
    Offsets,
    WrongShapeError,
)
from narthex_stores.indexes.redis.batches import GroupChangedError, StagedBatch, WriterIdentity
from narthex_stores.indexes.redis.expiry import RedisExpiry
from narthex_stores.indexes.redis.header import Header, HeaderState, OwnNewest, incarnation_of
from narthex_stores.indexes.redis.members import IndexKeys
from narthex_stores.indexes.redis.newest_row import RedisNewestRow
from narthex_stores.indexes.redis.reading import RedisReader
from narthex_stores.indexes.redis.servers import Servers

_ATTEMPTS: Final = 5


class RedisIndex:
    """An index that its adapter created; any number of processes may open it.

    A batch changes each group at once and advances the offsets last. So a reader sees each group
    whole, and possibly some groups of a batch before others.
    """

    def __init__(
        self,
        servers: Servers,
        name: str,
        spec: IndexSpec,
        *,
        newest_rows: int = NEWEST_ROWS,
        writer: str | None = None,
        shard: int | None = None,
    ) -> None:
        """Open the index.

        Args:
            servers: The servers of the index store.
            name: The physical name of the index.
            spec: The spec that the index was created for.
            newest_rows: How many of a group's rows are read before any tile; changes no answer.
            writer: Distinguishes this writer from all others; None draws a name.
            shard: The shard that is written, under an epoch of its own; None for the whole index.

        Raises:
            IndexMissingError: The index does not exist.
            IndexMismatchError: The index was created for another spec.
        """
        self.name = name
        self.spec = spec
        self._servers = servers
        self._newest_rows = newest_rows
        self._layout = IndexLayout(spec=spec)
        self._folding = folding_of(spec)
        self._keys = IndexKeys(name, incarnation_of(servers, name, spec), shard)
        self._header = Header(self._keys, shard)
        self._expiry = RedisExpiry(spec=spec, keys=self._keys, servers=servers)
        self._newest = RedisNewestRow(spec=spec, keys=self._keys, servers=servers)
        self._writer = secrets.token_hex(6) if writer is None else writer
        self._number = 0
        self._is_gone = False

    def apply(
        self, facts: Sequence[Fact], *, offsets: Mapping[tuple[str, int], int], epoch: int
    ) -> AppliedBatch:
        """Apply facts, each group in one transaction, and then advance the offsets."""
        newest = None
        if self.spec.history_us is not None and only_grows(self.spec):
            newest = newest_of([f.event_time for f in facts], [f.alive for f in facts])
        take = (lambda batch: batch.apply(facts)) if facts else None
        return self._apply(take, newest, offsets, epoch)

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
        newest = None
        if self.spec.history_us is not None:
            newest = newest_of(facts.event_times, facts.alive)
        take = (lambda batch: batch.apply_columns(facts)) if len(facts) else None
        return self._apply(take, newest, offsets, epoch)

    def _apply(
        self,
        take: Callable[[StagedBatch], AppliedBatch] | None,
        newest: int | None,
        offsets: Mapping[tuple[str, int], int],
        epoch: int,
    ) -> AppliedBatch:
        applied = AppliedBatch(fresh=0, duplicates=0, invalidations=())
        own_newest = None
        with self._noticing():
            if take is not None:
                applied = self._attempted(take, epoch)
                if self._newest.is_tracked:
                    own_newest = OwnNewest(self._newest.event_time())
            self._servers.run(
                [self._header.advancing(offsets, epoch, newest=newest, own_newest=own_newest)]
            )
        return applied

    def expire(self, *, now_us: int, most: int, epoch: int) -> int:
        """Delete rows that no lookup may see any more, about so many entries."""
        if not self.spec.expires:
            return 0
        with self._noticing():
            state = self._state()
            reached = None
            if state.newest is not None:
                reached = horizon_at(self.spec, state.newest, now_us)
            # The horizon is stored before anything is deleted, and a replaced writer is refused.
            self._servers.run([self._header.advancing({}, epoch, horizon=reached)])
            horizon = later(state.horizon, reached)
            if horizon is None:
                return 0
            deleted = self._expiry.delete_before(horizon, most=most)
            return deleted + self._newest.forget(horizon, most=most - deleted)

    def _attempted(self, take: Callable[[StagedBatch], AppliedBatch], epoch: int) -> AppliedBatch:
        for _ in range(_ATTEMPTS):
            self._number += 1
            try:
                return take(self._batch(epoch))
            except GroupChangedError:
                continue
        raise TransientError(
            f"another writer changed groups of index `{self.name}` while each of {_ATTEMPTS} "
            "attempts read them; repeat the call"
        )

    def _batch(self, epoch: int | None) -> StagedBatch:
        return StagedBatch(
            layout=self._layout,
            folding=self._folding,
            keys=self._keys,
            servers=self._servers,
            identity=WriterIdentity(epoch=epoch, writer=self._writer, number=self._number),
            before=() if epoch is None else [self._header.raising(epoch)],
        )

    def preview_invalidations(self, facts: Sequence[Fact]) -> tuple[Invalidation, ...]:
        """Return at least the spans that `apply` would change; none for a log without keys."""
        return self._batch(None).preview(facts) if self._layout.keyed else ()

    def raise_epoch(self, epoch: int) -> None:
        """Refuse writers of earlier epochs from now on."""
        with self._noticing():
            self._servers.run([self._header.raising(epoch)])

    def offsets(self) -> Offsets:
        """Return the log offsets that the index contains.

        Raises:
            IndexPartLostError: A server has lost its part of the index.
        """
        with self._noticing():
            return self._state().offsets

    def _state(self) -> HeaderState:
        calls = self._header.reading(self._servers)
        return self._header.read(self._servers, calls, self._servers.run(calls))

    @contextmanager
    def read(self) -> Iterator[RedisReader]:
        """Open a snapshot: its answers contain all facts below its offsets, and possibly more.

        Raises:
            IndexMissingError: The index was removed, or replaced by another one.
            IndexPartLostError: A server has lost its part of the index.
        """
        with self._noticing():
            state = self._state()
        yield RedisReader(
            layout=self._layout,
            folding=self._folding,
            newest_rows=self._newest_rows,
            keys=self._keys,
            servers=self._servers,
            header=self._header,
            offsets=state.offsets,
            newest=state.newest,
            horizon=state.horizon,
        )

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except IndexMissingError:
            self._is_gone = True
            raise

    def is_replaced(self) -> bool:
        """Whether a call found that the index was removed, or replaced by another one."""
        return self._is_gone

    def sync(self) -> None:
        """Do nothing: the servers' persistence decides how durable a batch is."""

    def close(self) -> None:
        """Do nothing: connections are shared."""

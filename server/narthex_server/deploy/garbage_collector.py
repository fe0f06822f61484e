"""The garbage collector: destroys unpinned assets, one at a time, dependants first.

An order is recorded before the store is called; the call waits until no creation can still be in
flight; the store must report the absence twice before the ledger records it.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol
from uuid import UUID

import attrs
import structlog

from narthex._ir import (
    AssetKind,
    AssetSpec,
    CheckpointSpec,
    HistorySpec,
    IndexSpec,
    LogShape,
    LogSpec,
    TopicRole,
    TopicSpec,
)
from narthex_ledger import ROW_KINDS, AssetState, DestroyOrder, Ledger, LedgerRefused, NotNow
from narthex_stores import Absent, Adapter, StoreError, divided_index

log = structlog.get_logger()

CALL_TIMEOUT_S = 10.0
SECOND_PROBE_S = 5.0
"""Kafka deletes topics asynchronously: absence is probed twice, this far apart."""

_NO_LOG = LogSpec(shape=LogShape.ROWS, keys=(), values=(), time_field="")
ANY_SPEC: dict[AssetKind, AssetSpec] = {
    AssetKind.KAFKA_TOPIC: TopicSpec(role=TopicRole.DATASET, partitions=1),
    AssetKind.INDEX: IndexSpec(log=_NO_LOG),
    AssetKind.HISTORY: HistorySpec(log=_NO_LOG),
    AssetKind.CHECKPOINT: CheckpointSpec(job=""),
}
"""A spec for probes of mere existence: match and mismatch both mean that the asset exists."""


_COPIED: Final = (AssetKind.INDEX, AssetKind.CHECKPOINT)
"""The kinds of assets that have snapshots."""


class KeptSnapshots(Protocol):
    """The snapshots of indexes, or of their shards, and of job states."""

    def names(self) -> Collection[str]:
        """List the names that have snapshots.

        Raises:
            TransientError: The store did not answer.
        """
        ...

    def delete(self, name: str) -> None:
        """Delete all snapshots of a name.

        Raises:
            TransientError: The store did not answer.
        """
        ...


@attrs.define(kw_only=True)
class Collector:
    """Carries out the destructions that are due.

    Attributes:
        snapshots: The snapshots of indexes and job states; None for an installation without any.
        owner: The owner of the orders of this process; a restarted process is another.
        clock: A monotonic clock, in seconds, for the pause between two probes of a store.
    """

    ledger: Ledger
    adapters: Mapping[AssetKind, Adapter]
    owner: str
    snapshots: KeptSnapshots | None = None
    clock: Callable[[], float] = time.monotonic
    _begun: set[int] = attrs.field(factory=set)
    _absent_since: dict[int, float] = attrs.field(factory=dict)
    _collecting: threading.Lock = attrs.field(factory=threading.Lock)

    def sweep(self) -> tuple[int, ...]:
        """Expire pins, pause cold jobs, and retire unpinned assets; return the assets retired.

        Nothing is destroyed here: within its grace period, a retired asset may be used again.
        """
        self.ledger.gc.expire_pins(actor=self.owner)
        self.ledger.jobs.pause_cold()
        unpinned = self.ledger.gc.unpinned()
        return tuple(a for a in unpinned if self.ledger.gc.mark(a, actor=self.owner))

    def collect(self, commit_id: UUID | None) -> None:
        """Advance each due destruction as far as possible now; `commit_id` is only logged.

        Does nothing while another thread is collecting.
        """
        if not self._collecting.acquire(blocking=False):
            return
        try:
            self._collect(commit_id)
        finally:
            self._collecting.release()

    def delete_snapshots(self) -> tuple[str, ...]:
        """Delete the snapshots of destroyed indexes and job states; return their names.

        A copy that was begun before the destruction may be stored after it, so this is repeated.
        Names that the ledger does not know stay: another installation may have the same directory.

        Raises:
            TransientError: The store did not answer.
        """
        names = frozenset[str]() if self.snapshots is None else frozenset(self.snapshots.names())
        if self.snapshots is None or not names:
            return ()
        assets = frozenset(map(divided_index, names))
        destroyed = {
            row.physical_name
            for kind in _COPIED
            for row in self.ledger.gc.inventory(kind, assets).values()
            # The name of a destroyed asset is never used again.
            if row.state is AssetState.DESTROYED
        }
        expired = tuple(sorted(name for name in names if divided_index(name) in destroyed))
        for name in expired:
            self.snapshots.delete(name)
            log.info("snapshots_deleted", name=name)
        return expired

    def _collect(self, commit_id: UUID | None) -> None:
        # The ledger does not list as due what this process holds; continue with it anyway.
        for asset_id in sorted({*self.ledger.gc.due_destroys(), *self._begun}, reverse=True):
            try:
                self._destroy(asset_id)
            except (LedgerRefused, StoreError) as error:
                self._begun.discard(asset_id)
                log.info(
                    "destruction_deferred",
                    asset_id=asset_id,
                    commit_id=str(commit_id) if commit_id else None,
                    why=str(error),
                )

    def _destroy(self, asset_id: int) -> None:
        order = self.ledger.gc.destroy_intent(asset_id, self.owner)
        if isinstance(order, NotNow):
            self._begun.discard(asset_id)
            return
        self._begun.add(asset_id)
        if order.kind in ROW_KINDS:
            self._destroyed(order)
            return
        call = self.ledger.gc.destroy_call(asset_id, order.fence, call_timeout_s=CALL_TIMEOUT_S)
        if isinstance(call, NotNow):
            return
        self._call(call)

    def _call(self, order: DestroyOrder) -> None:
        adapter = self.adapters[order.kind]
        try:
            adapter.destroy(
                order.physical_name, external_id=order.external_id, timeout_s=CALL_TIMEOUT_S
            )
        except StoreError as error:
            self.ledger.gc.destroy_failed(order.asset_id, order.fence, error=str(error))
            raise
        found = adapter.probe(order.physical_name, ANY_SPEC[order.kind], timeout_s=CALL_TIMEOUT_S)
        match found:
            case Absent():
                since = self._absent_since.setdefault(order.asset_id, self.clock())
                if self.clock() - since < self._patience(order):
                    return
                self._destroyed(order)
            case _:
                self._absent_since.pop(order.asset_id, None)

    def _destroyed(self, order: DestroyOrder) -> None:
        self.ledger.gc.destroyed(order.asset_id, order.fence)
        self._begun.discard(order.asset_id)
        self._absent_since.pop(order.asset_id, None)

    @staticmethod
    def _patience(order: DestroyOrder) -> float:
        return SECOND_PROBE_S if order.kind is AssetKind.KAFKA_TOPIC else 0.0

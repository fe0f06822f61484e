"""The part of the ledger for the collector: destroy unpinned assets."""

from collections.abc import Collection, Sequence
from uuid import UUID

import attrs

from narthex._base import Json
from narthex._ir import AssetKind
from narthex_ledger.db.statements import assets as on_assets
from narthex_ledger.db.statements import pins as on_pins
from narthex_ledger.gc import auditing, destruction
from narthex_ledger.model.audit_views import Finding, InventoryRow
from narthex_ledger.model.views import DestroyOrder, Fence, NotNow
from narthex_ledger.session import LedgerDatabase


@attrs.frozen
class GarbageCollection:
    """Destruction of unpinned assets, by any number of collectors.

    Each method is one transaction and may be called again with the same arguments.
    """

    _db: LedgerDatabase

    def expire_pins(self, *, actor: str = "collector") -> tuple[UUID, ...]:
        """Delete expired pins; return the manifests that lost one."""
        return self._db.run("expire_pins", lambda c: destruction.expire_pins(c, actor))

    def unpinned(self, limit: int = 100) -> tuple[int, ...]:
        """List live assets that no pin reaches: candidates for `mark`."""
        return self._db.run("unpinned", lambda c: on_pins.unpinned_assets(c, limit))

    def mark(self, asset_id: int, *, actor: str = "collector") -> bool:
        """T_mark: move a live asset to retiring if no pin reaches it; false otherwise."""
        return self._db.run("mark", lambda c: destruction.mark(c, asset_id, actor, self._db.rules))

    def due_destroys(self, limit: int = 100) -> tuple[int, ...]:
        """List assets whose destruction may begin or continue, even if others still need them."""
        return self._db.run("due_destroys", lambda c: on_assets.due_destroys(c, limit))

    def destroy_intent(self, asset_id: int, owner: str) -> DestroyOrder | NotNow:
        """D1: move retiring to destroying, if no pin or asset needs it and its job has stopped.

        Assets of `states.ROW_KINDS` move directly to `destroyed`.
        """
        return self._db.run(
            "destroy_intent",
            lambda c: destruction.destroy_intent(c, asset_id, owner, self._db.rules),
        )

    def destroy_call(
        self, asset_id: int, fence: Fence, *, call_timeout_s: float
    ) -> DestroyOrder | NotNow:
        """D2: allow one call of a store's `destroy`, with the order's `external_id`.

        It returns NotNow while a create call may still be in flight.

        Raises:
            Fenced: Another collector took over.
        """
        return self._db.run(
            "destroy_call",
            lambda c: destruction.destroy_call(c, asset_id, fence, call_timeout_s, self._db.rules),
        )

    def destroy_failed(self, asset_id: int, fence: Fence, *, error: Json) -> None:
        """Store the store's error, and let any collector try again."""
        self._db.run(
            "destroy_failed", lambda c: destruction.destroy_failed(c, asset_id, fence, error)
        )

    def destroyed(self, asset_id: int, fence: Fence) -> None:
        """D4: record the destruction, only after probes found nothing; delete database rows.

        Raises:
            Fenced: Another collector took over.
        """
        self._db.run(
            "destroyed", lambda c: destruction.destroyed(c, asset_id, fence, self._db.rules)
        )

    def force_destroy(self, asset_id: int, *, actor: str) -> None:
        """Destroy a quarantined asset by its id, on an operator's decision.

        Raises:
            LedgerRefused: A pin reaches it.
        """
        self._db.run("force_destroy", lambda c: destruction.force_destroy(c, asset_id, actor))

    def inventory(
        self, kind: AssetKind, names: Collection[str] = frozenset()
    ) -> dict[str, InventoryRow]:
        """Read all assets of a kind that may exist, and those of these physical names, by name."""
        return self._db.run("inventory", lambda c: auditing.inventory(c, kind, names))

    def note_findings(self, system: str, findings: Sequence[Finding]) -> frozenset[Finding]:
        """Store the findings of a complete scan; return those that an earlier scan confirms."""
        return self._db.run(
            "note_findings", lambda c: auditing.note(c, system, findings, self._db.rules)
        )

    def set_aside(self, asset_id: int, *, difference: Json, actor: str) -> bool:
        """Quarantine an asset that is gone or different in its store; false if it is not in use."""
        return self._db.run(
            "set_aside", lambda c: auditing.set_aside(c, asset_id, difference, actor)
        )

    def orphan(self, finding: Finding, *, actor: str) -> bool:
        """Record a stray before it is destroyed; false when the ledger has its asset by now."""
        return self._db.run("orphan", lambda c: auditing.orphan(c, finding, actor))

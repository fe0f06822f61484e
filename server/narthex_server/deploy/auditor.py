"""The auditor, which compares the ledger with the contents of the stores.

An incomplete scan is discarded. Objects that the ledger does not own are destroyed by their own
ids once two scans, far enough apart, have found them. Assets that are missing from a store are
quarantined, never silently created again.
"""

from collections.abc import Mapping, Sequence

import attrs
import structlog
from typing_extensions import TypedDict

from narthex._ir import AssetKind
from narthex_ledger import AssetState, Finding, InventoryRow, Ledger
from narthex_stores import Absent, Adapter, Listed, Match, Mismatch, StoreError, Unknown

log = structlog.get_logger()

LIST_TIMEOUT_S = 30.0
CALL_TIMEOUT_S = 10.0
FEW, SHARE = 10, 20
"""The circuit breaker: a round acts on at most ten objects, or a twentieth of all.

If more are due, it acts on none: rather the store shows another place, as after a failed mount."""

_STANDING = frozenset({AssetState.LIVE, AssetState.RETIRING})
_STRAYS = frozenset({"B", "C"})


StoreDifference = TypedDict(
    "StoreDifference",
    {
        "class": str,
        "name": str,
        "external_id": str,
        "asset_id": int | None,
        "what": str,
        "confirmed": bool,
    },
)
"""A difference between the ledger and a store; confirmed if an earlier scan saw it too."""


class StoreAudit(TypedDict):
    """The result of a scan of one store.

    Attributes:
        listed: How many objects of the ledger the store has.
        destroyed: Names of objects that the ledger does not own and that were destroyed.
        tripped: Why nothing was destroyed or quarantined although it was due; empty otherwise.
        error: Why the scan is incomplete; empty otherwise.
    """

    kind: str
    listed: int
    findings: list[StoreDifference]
    destroyed: list[str]
    tripped: str
    error: str


@attrs.frozen(kw_only=True)
class SystemAudit:
    """The result of a scan of one store.

    Attributes:
        listed: How many of our objects the store has.
        findings: The deviations that this scan saw.
        confirmed: Those findings that an earlier scan saw too.
        destroyed: Names of strays that were destroyed.
        tripped: Why nothing was destroyed or quarantined although it was due; empty otherwise.
        error: Why the scan is incomplete; empty otherwise.
    """

    kind: AssetKind
    listed: int = 0
    findings: tuple[Finding, ...] = ()
    confirmed: frozenset[Finding] = frozenset()
    destroyed: tuple[str, ...] = ()
    tripped: str = ""
    error: str = ""

    def plain(self) -> StoreAudit:
        """Render as JSON."""
        return {
            "kind": self.kind.value,
            "listed": self.listed,
            "findings": [
                {
                    "class": finding.klass,
                    "name": finding.name,
                    "external_id": finding.external_id,
                    "asset_id": finding.asset_id,
                    "what": finding.what,
                    "confirmed": finding in self.confirmed,
                }
                for finding in self.findings
            ],
            "destroyed": list(self.destroyed),
            "tripped": self.tripped,
            "error": self.error,
        }


@attrs.frozen(kw_only=True)
class Auditor:
    """Scans each store; any number of auditors may run at the same time."""

    ledger: Ledger
    adapters: Mapping[AssetKind, Adapter]
    install_id: str
    owner: str

    def audit(self) -> tuple[SystemAudit, ...]:
        """Scan every store once, and act on confirmed findings."""
        return tuple(self._audit(kind, self.adapters[kind]) for kind in self.adapters)

    def _audit(self, kind: AssetKind, adapter: Adapter) -> SystemAudit:
        # The ledger is read before and after; assets that changed in between are skipped.
        before = self.ledger.gc.inventory(kind)
        try:
            listed = adapter.list(f"nx_{self.install_id}_", timeout_s=LIST_TIMEOUT_S)
            after = self.ledger.gc.inventory(kind, {one.name for one in listed})
            findings = (
                *strays(kind, listed, after),
                *self._missing(adapter, before, after, listed),
            )
        except StoreError as error:
            log.warning("audit_incomplete", kind=kind.value, error=str(error))
            return SystemAudit(kind=kind, error=str(error))
        confirmed = self.ledger.gc.note_findings(kind.value, findings)
        tripped = trips(len(confirmed), len(listed))
        destroyed = () if tripped else self._act(adapter, confirmed)
        if findings:
            log.warning("audit_found", kind=kind.value, findings=len(findings), tripped=tripped)
        return SystemAudit(
            kind=kind,
            listed=len(listed),
            findings=findings,
            confirmed=confirmed,
            destroyed=destroyed,
            tripped=tripped,
        )

    def _missing(
        self,
        adapter: Adapter,
        before: Mapping[str, InventoryRow],
        after: Mapping[str, InventoryRow],
        listed: Sequence[Listed],
    ) -> tuple[Finding, ...]:
        there = {one.name: one.external_id for one in listed}
        found = []
        for name, row in sorted(after.items()):
            was = before.get(name)
            if was is None or not {was.state, row.state} <= _STANDING:
                continue
            # A listing may be stale: each deviation from the ledger is verified by name.
            match adapter.probe(name, row.spec, timeout_s=CALL_TIMEOUT_S):
                case Absent() if name not in there:
                    found.append(_finding("A", row, "it does not exist"))
                case Match(external_id=now) if now != row.external_id:
                    found.append(_finding("D", row, f"another asset has its name: {now}"))
                case Mismatch(difference=difference):
                    found.append(_finding("D", row, difference))
                case Unknown(error=error):
                    raise StoreError(error)
                case _:
                    continue
        return tuple(found)

    def _act(self, adapter: Adapter, confirmed: frozenset[Finding]) -> tuple[str, ...]:
        found = sorted(confirmed, key=lambda f: f.name)
        for finding in found:
            if finding.asset_id is not None and finding.klass not in _STRAYS:
                self.ledger.gc.set_aside(
                    finding.asset_id, difference=finding.what, actor=self.owner
                )
        return self._destroy(adapter, [f for f in found if f.klass in _STRAYS])

    def _destroy(self, adapter: Adapter, doomed: Sequence[Finding]) -> tuple[str, ...]:
        done = []
        for finding in doomed:
            if not self.ledger.gc.orphan(finding, actor=self.owner):
                continue
            try:
                adapter.destroy(
                    finding.name, external_id=finding.external_id, timeout_s=CALL_TIMEOUT_S
                )
            except StoreError as error:
                log.warning("stray_not_destroyed", name=finding.name, error=str(error))
                continue
            done.append(finding.name)
        return tuple(done)


def strays(
    kind: AssetKind, listed: Sequence[Listed], rows: Mapping[str, InventoryRow]
) -> tuple[Finding, ...]:
    """Return the objects in a store that were never in the ledger, or are destroyed there."""
    found = []
    for one in listed:
        row = rows.get(one.name)
        if row is None or row.state is AssetState.DESTROYED:
            found.append(
                Finding(
                    klass="B" if row is None else "C",
                    kind=kind,
                    name=one.name,
                    external_id=one.external_id,
                    what="it is not in the ledger" if row is None else "it was destroyed before",
                )
            )
    return tuple(found)


def trips(wrong: int, listed: int) -> str:
    """Return why a round must not act on so many findings; empty when it may."""
    most = max(FEW, listed // SHARE)
    if wrong <= most:
        return ""
    return f"{wrong} of {listed} assets differ, more than {most}; an operator must check"


def _finding(klass: str, row: InventoryRow, what: str) -> Finding:
    return Finding(
        klass=klass,
        kind=row.kind,
        name=row.physical_name,
        external_id=row.external_id or "",
        asset_id=row.asset_id,
        what=what,
    )

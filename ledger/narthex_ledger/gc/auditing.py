"""Compare the ledger with the stores: expected assets, findings of scans, and quarantine."""

import datetime as dt
from collections.abc import Collection, Sequence

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex._ir import AssetKind
from narthex_ledger.db.statements import assets as on_assets
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import erasures as on_erasures
from narthex_ledger.db.statements import inventory as on_inventory
from narthex_ledger.model.audit_views import Finding, InventoryRow
from narthex_ledger.model.rows import AssetRow
from narthex_ledger.model.states import AssetState
from narthex_ledger.model.views import Rules
from narthex_ledger.reading.resolved_assets import spec_of

_STANDING = frozenset({AssetState.LIVE.value, AssetState.RETIRING.value})


def inventory(
    connection: Connection, kind: AssetKind, names: Collection[str]
) -> dict[str, InventoryRow]:
    """Read all assets of a kind that may exist, and those of these names, by name."""
    rows = on_inventory.asset_rows(connection, kind, names)
    return {row.physical_name: _row(row) for row in rows}


def note(
    connection: Connection, system: str, findings: Sequence[Finding], rules: Rules
) -> frozenset[Finding]:
    """Store the findings of a complete scan; return those that earlier scans confirm.

    One scan proves nothing, because a call may have been in flight. Findings that a scan does not
    repeat are deleted.
    """
    for finding in sorted(findings, key=lambda f: (f.name, f.external_id)):
        on_inventory.put_finding(connection, system, finding)
    on_inventory.forget_others(connection, system, findings)
    apart = max(rules.grace, dt.timedelta(seconds=rules.audit_apart_s))
    confirmed = on_inventory.confirmed(connection, system, apart)
    return frozenset(f for f in findings if (f.name, f.external_id) in confirmed)


def set_aside(connection: Connection, asset_id: int, difference: Json, actor: str) -> bool:
    """Quarantine an asset that differs in its store; false when it is no longer in use."""
    asset = on_assets.lock_asset(connection, asset_id)
    # The topic of an endpoint whose rows are being erased accepts no records: it differs.
    if asset.state not in _STANDING or on_erasures.is_obsolete(connection, asset_id):
        return False
    on_assets.set_asset_state(connection, asset_id, AssetState.QUARANTINED)
    on_assets.note_error(connection, asset_id, difference)
    on_commits.insert_event(
        connection,
        AssetState.QUARANTINED.value,
        actor=actor,
        asset_id=asset_id,
        detail={"difference": difference},
    )
    return True


def orphan(connection: Connection, finding: Finding, actor: str) -> bool:
    """Record that a stray is about to be destroyed; false when the ledger has its asset by now."""
    found = on_inventory.state_of(connection, finding.name)
    if found is not None and found is not AssetState.DESTROYED:
        return False
    on_commits.insert_event(
        connection,
        "orphan_destroyed",
        actor=actor,
        detail={"name": finding.name, "external_id": finding.external_id},
    )
    return True


def identity(connection: Connection) -> str:
    """Return the id of this database's history; a restore, a copy or a failover changes it."""
    return on_inventory.cluster_identity(connection)


def _row(row: AssetRow) -> InventoryRow:
    return InventoryRow(
        asset_id=row.asset_id,
        kind=AssetKind(row.kind),
        physical_name=row.physical_name,
        state=AssetState(row.state),
        external_id=row.external_id,
        spec=spec_of(row.spec),
    )

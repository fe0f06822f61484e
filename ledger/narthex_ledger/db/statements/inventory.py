"""Statements of the auditor: expected assets, and the findings of scans."""

import datetime as dt
import hashlib
from collections.abc import Collection, Sequence

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from narthex._ir import AssetKind
from narthex_ledger.db.mapper import rows_of
from narthex_ledger.db.schema import ASSET, EXTERNAL_INVENTORY
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.model.audit_views import Finding
from narthex_ledger.model.rows import AssetRow
from narthex_ledger.model.states import AssetState

_IDENTITY = sa.text(
    "SELECT system_identifier::text || '/' || timeline_id::text"
    " FROM pg_control_system(), pg_control_checkpoint()"
)


def asset_rows(
    connection: Connection, kind: AssetKind, names: Collection[str]
) -> tuple[AssetRow, ...]:
    """Read the assets of a kind that are not destroyed, and those of the names; locks nothing."""
    statement = sa.select(ASSET).where(
        ASSET.c.kind == kind.value,
        sa.or_(
            ASSET.c.state != AssetState.DESTROYED.value,
            ASSET.c.physical_name.in_(sorted(names)),
        ),
    )
    return rows_of(AssetRow, connection.execute(statement))


def state_of(connection: Connection, name: str) -> AssetState | None:
    """Find the state of the asset of that physical name."""
    statement = sa.select(ASSET.c.state).where(ASSET.c.physical_name == name)
    state = connection.execute(statement).scalar_one_or_none()
    return None if state is None else AssetState(state)


def put_finding(connection: Connection, system: str, finding: Finding) -> None:
    """Count a finding; another class under the same id restarts the count."""
    row = insert(EXTERNAL_INVENTORY).values(
        {
            "system": system,
            "physical_name": finding.name,
            "external_id": finding.external_id,
            "class": finding.klass,
            "first_seen": NOW,
            "last_seen": NOW,
            "scans": 1,
        }
    )
    same = EXTERNAL_INVENTORY.c["class"] == row.excluded["class"]
    connection.execute(
        row.on_conflict_do_update(
            index_elements=["system", "physical_name", "external_id"],
            set_={
                "class": row.excluded["class"],
                "first_seen": sa.case((same, EXTERNAL_INVENTORY.c.first_seen), else_=NOW),
                "scans": sa.case((same, EXTERNAL_INVENTORY.c.scans + 1), else_=1),
                "last_seen": NOW,
            },
        )
    )


def forget_others(connection: Connection, system: str, findings: Sequence[Finding]) -> None:
    """Delete findings that the newest complete scan of a system did not repeat."""
    seen = [(finding.name, finding.external_id) for finding in findings]
    gone = sa.delete(EXTERNAL_INVENTORY).where(EXTERNAL_INVENTORY.c.system == system)
    if seen:
        key = sa.tuple_(EXTERNAL_INVENTORY.c.physical_name, EXTERNAL_INVENTORY.c.external_id)
        gone = gone.where(key.not_in(seen))
    connection.execute(gone)


def confirmed(
    connection: Connection, system: str, apart: dt.timedelta
) -> frozenset[tuple[str, str]]:
    """Read findings of at least two scans, the first long enough before the last."""
    statement = sa.select(
        EXTERNAL_INVENTORY.c.physical_name, EXTERNAL_INVENTORY.c.external_id
    ).where(
        EXTERNAL_INVENTORY.c.system == system,
        EXTERNAL_INVENTORY.c.scans > 1,
        EXTERNAL_INVENTORY.c.last_seen - EXTERNAL_INVENTORY.c.first_seen >= apart,
    )
    return frozenset((row.physical_name, row.external_id) for row in connection.execute(statement))


def cluster_identity(connection: Connection) -> str:
    """Hash the identity of the cluster and its timeline."""
    cluster = str(connection.execute(_IDENTITY).scalar_one())
    return hashlib.sha256(cluster.encode()).hexdigest()[:12]

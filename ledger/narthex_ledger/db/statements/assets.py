"""Statements on assets and their two ledgers."""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex._ir import AssetKind
from narthex_ledger.db.mapper import find_row, row_of, rows_of
from narthex_ledger.db.schema import (
    ASSET,
    ASSET_DEP,
    BIG,
    BINDING,
    BYTES,
    CREATE_LEDGER,
    DESTROY_LEDGER,
    TEXT,
)
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.errors import NotFound
from narthex_ledger.model.rows import AssetRow, CreationRow, DestructionRow, NeededAssetRow
from narthex_ledger.model.states import RETAINED, AssetState

_RETAINED = [state.value for state in RETAINED]


class AssetKey(NamedTuple):
    """The identity of an asset, without its incarnations."""

    kind: AssetKind
    fp_version: int
    fingerprint: bytes


class Incarnations(NamedTuple):
    """The newest incarnation of a fingerprint, and whether one of them is retained."""

    newest: int
    is_retained: bool


_KEY = (ASSET.c.kind, ASSET.c.fp_version, ASSET.c.fingerprint)
# Arrays, because a list of a hundred thousand triples would be a condition of that length.
_WANTED = (
    sa.func.unnest(
        sa.cast(sa.bindparam("kinds"), ARRAY(TEXT)),
        sa.cast(sa.bindparam("fp_versions"), ARRAY(sa.SmallInteger())),
        sa.cast(sa.bindparam("fingerprints"), ARRAY(BYTES)),
    )
    .table_valued("kind", "fp_version", "fingerprint", name="wanted")
    .render_derived()
)
_IS_WANTED = sa.and_(
    ASSET.c.kind == _WANTED.c.kind,
    ASSET.c.fp_version == _WANTED.c.fp_version,
    ASSET.c.fingerprint == _WANTED.c.fingerprint,
)

# An obsolete asset is being erased: it is no representation of its fingerprint any more.
_IS_RETAINED = sa.and_(ASSET.c.state.in_(_RETAINED), ASSET.c.obsolete_by.is_(None))

_ASSET_IDS = sa.cast(sa.bindparam("asset_ids"), ARRAY(BIG))

# This query runs so often that it is built once.
_NEEDED = ASSET.alias()
_NEEDS = (
    sa.select(
        ASSET_DEP.c.asset_id,
        ASSET_DEP.c.role,
        _NEEDED.c.asset_id.label("needs_asset_id"),
        _NEEDED.c.tenant_id,
        _NEEDED.c.kind,
        _NEEDED.c.fingerprint,
        _NEEDED.c.physical_name,
        _NEEDED.c.spec,
        _NEEDED.c.signature,
        _NEEDED.c.state,
    )
    .join(_NEEDED, _NEEDED.c.asset_id == ASSET_DEP.c.needs_asset_id)
    .where(ASSET_DEP.c.asset_id == sa.any_(_ASSET_IDS))
    .order_by(ASSET_DEP.c.asset_id, ASSET_DEP.c.role)
)
_NEED_IDS = sa.select(ASSET_DEP.c.asset_id, ASSET_DEP.c.needs_asset_id).where(
    ASSET_DEP.c.asset_id == sa.any_(_ASSET_IDS)
)


def known_incarnations(
    connection: Connection, tenant_id: int, keys: Sequence[AssetKey]
) -> dict[AssetKey, Incarnations]:
    """Read which of these fingerprints assets have or had; locks nothing."""
    is_retained = sa.func.bool_or(_IS_RETAINED)
    statement = (
        sa.select(*_KEY, sa.func.max(ASSET.c.incarnation).label("newest"), is_retained.label("now"))
        .join(_WANTED, _IS_WANTED)
        .where(ASSET.c.tenant_id == tenant_id)
        .group_by(*_KEY)
    )
    return {
        AssetKey(AssetKind(row.kind), row.fp_version, bytes(row.fingerprint)): Incarnations(
            newest=row.newest, is_retained=row.now
        )
        for row in connection.execute(statement, _wanted(keys))
    }


def insert_assets(connection: Connection, rows: Sequence[dict[str, object]]) -> frozenset[int]:
    """Insert planned assets, in order, except those whose fingerprints exist; return their ids.

    A second caller waits for the first's transaction, then finds the rows.
    """
    if not rows:
        return frozenset()
    statement = (
        insert(ASSET)
        .values(state=AssetState.PLANNED.value)
        .on_conflict_do_nothing(
            index_elements=["tenant_id", "kind", "fp_version", "fingerprint"],
            index_where=sa.text(
                "state IN ('planned','creating','live','retiring','quarantined')"
                " AND obsolete_by IS NULL"
            ),
        )
        .returning(ASSET.c.asset_id)
    )
    return frozenset(connection.execute(statement, list(rows)).scalars())


def lock_retained(
    connection: Connection, tenant_id: int, keys: Sequence[AssetKey]
) -> tuple[AssetRow, ...]:
    """Lock the asset rows of these fingerprints FOR NO KEY UPDATE, by (kind, fingerprint).

    The collector, which locks FOR UPDATE, waits; then its later statement sees our pin.
    """
    statement = (
        sa.select(ASSET)
        .join(_WANTED, _IS_WANTED)
        .where(ASSET.c.tenant_id == tenant_id, _IS_RETAINED)
        .order_by(ASSET.c.kind, ASSET.c.fingerprint)
        .with_for_update(key_share=True, of=ASSET)
    )
    return rows_of(AssetRow, connection.execute(statement, _wanted(keys)))


def lock_bound(connection: Connection, manifest_id: UUID) -> tuple[AssetRow, ...]:
    """Lock all assets of a manifest FOR UPDATE, by (kind, fingerprint)."""
    bound = sa.select(BINDING.c.asset_id).where(BINDING.c.manifest_id == manifest_id)
    statement = (
        sa.select(ASSET)
        .where(ASSET.c.asset_id.in_(bound))
        .order_by(ASSET.c.kind, ASSET.c.fingerprint)
        .with_for_update()
    )
    return rows_of(AssetRow, connection.execute(statement))


def lock_asset(connection: Connection, asset_id: int) -> AssetRow:
    """Lock one asset FOR UPDATE: plans that would share it, and collectors, wait."""
    statement = sa.select(ASSET).where(ASSET.c.asset_id == asset_id).with_for_update()
    row = find_row(AssetRow, connection.execute(statement))
    if row is None:
        raise NotFound(f"there is no asset {asset_id}")
    return row


def try_lock_asset(connection: Connection, asset_id: int) -> AssetRow | None:
    """Lock one asset FOR UPDATE, or return None when it is locked already."""
    statement = (
        sa.select(ASSET).where(ASSET.c.asset_id == asset_id).with_for_update(skip_locked=True)
    )
    return find_row(AssetRow, connection.execute(statement))


def states_bound(connection: Connection, manifest_id: UUID) -> dict[int, AssetState]:
    """Read the state of each asset of a manifest; a statement of its own, after a lock."""
    statement = (
        sa.select(ASSET.c.asset_id, ASSET.c.state)
        .join(BINDING, BINDING.c.asset_id == ASSET.c.asset_id)
        .where(BINDING.c.manifest_id == manifest_id)
    )
    return {row.asset_id: AssetState(row.state) for row in connection.execute(statement)}


def is_bound(connection: Connection, manifest_id: UUID, asset_id: int) -> bool:
    """Whether the manifest binds the asset; bindings never change."""
    statement = sa.select(sa.literal(1)).where(
        BINDING.c.manifest_id == manifest_id, BINDING.c.asset_id == asset_id
    )
    return connection.execute(statement.limit(1)).first() is not None


def set_asset_state(
    connection: Connection, asset_id: int, state: AssetState, **values: object
) -> None:
    """Move a locked asset to a state; a trigger refuses a move that the state machine lacks."""
    connection.execute(
        sa.update(ASSET).where(ASSET.c.asset_id == asset_id).values(state=state.value, **values)
    )


def insert_needs(connection: Connection, rows: Iterable[tuple[int, int, str]]) -> None:
    """Insert the needs of new assets, with their roles."""
    values = [{"asset_id": a, "needs_asset_id": n, "role": role} for a, n, role in rows]
    if values:
        connection.execute(sa.insert(ASSET_DEP), values)


def needs_of(connection: Connection, asset_ids: list[int]) -> tuple[NeededAssetRow, ...]:
    """Read the needs of assets, with the state of each."""
    return rows_of(NeededAssetRow, connection.execute(_NEEDS, {"asset_ids": asset_ids}))


def need_ids(connection: Connection, asset_ids: list[int]) -> tuple[tuple[int, int], ...]:
    """Read the needs of assets as pairs of ids: of an asset, and of one that it needs."""
    result = connection.execute(_NEED_IDS, {"asset_ids": asset_ids})
    return tuple((row.asset_id, row.needs_asset_id) for row in result)


def undestroyed_dependants(connection: Connection, asset_id: int) -> tuple[int, ...]:
    """List assets that need this one and are not destroyed; the asset is locked."""
    statement = (
        sa.select(ASSET.c.asset_id)
        .join(ASSET_DEP, ASSET_DEP.c.asset_id == ASSET.c.asset_id)
        .where(
            ASSET_DEP.c.needs_asset_id == asset_id,
            ASSET.c.state != AssetState.DESTROYED.value,
        )
    )
    return tuple(connection.execute(statement).scalars())


def insert_reservations(
    connection: Connection, commit_id: UUID, backfills: dict[int, bool]
) -> None:
    """Open the ledger of creations for new assets: RESERVED, owned by the commit."""
    values = [
        {
            "asset_id": asset_id,
            "introduced_by": commit_id,
            "owner_commit_id": commit_id,
            "status": "RESERVED",
            "needs_backfill": needs_backfill,
        }
        for asset_id, needs_backfill in backfills.items()
    ]
    if values:
        connection.execute(sa.insert(CREATE_LEDGER), values)


def lock_creation(connection: Connection, asset_id: int) -> CreationRow:
    """Lock an asset's entry in the ledger of creations FOR UPDATE."""
    statement = (
        sa.select(CREATE_LEDGER).where(CREATE_LEDGER.c.asset_id == asset_id).with_for_update()
    )
    return row_of(CreationRow, connection.execute(statement))


def creations(connection: Connection, asset_ids: list[int]) -> dict[int, CreationRow]:
    """Lock entries of the ledger of creations FOR UPDATE, by asset."""
    statement = (
        sa.select(CREATE_LEDGER)
        .where(CREATE_LEDGER.c.asset_id.in_(asset_ids))
        .order_by(CREATE_LEDGER.c.asset_id)
        .with_for_update()
    )
    return {row.asset_id: row for row in rows_of(CreationRow, connection.execute(statement))}


def change_creation(connection: Connection, asset_id: int, **values: object) -> None:
    """Change an entry of the ledger of creations that is locked."""
    connection.execute(
        sa.update(CREATE_LEDGER).where(CREATE_LEDGER.c.asset_id == asset_id).values(**values)
    )


def introduced_by(connection: Connection, commit_id: UUID) -> dict[int, AssetState]:
    """Read the states of the assets that a commit introduced or took over."""
    statement = (
        sa.select(ASSET.c.asset_id, ASSET.c.state)
        .join(CREATE_LEDGER, CREATE_LEDGER.c.asset_id == ASSET.c.asset_id)
        .where(
            sa.or_(
                CREATE_LEDGER.c.introduced_by == commit_id,
                CREATE_LEDGER.c.owner_commit_id == commit_id,
            )
        )
    )
    return {row.asset_id: AssetState(row.state) for row in connection.execute(statement)}


def schedule_destroy(
    connection: Connection,
    asset_id: int,
    *,
    reason: str,
    cause: UUID | None,
    grace: dt.timedelta,
) -> None:
    """Open or reopen the entry of a locked asset in the ledger of destructions."""
    values = {
        "reason": reason,
        "cause_commit_id": cause,
        "not_before": NOW + grace,
        "status": "SCHEDULED",
    }
    row = insert(DESTROY_LEDGER).values(asset_id=asset_id, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["asset_id"], set_=values))


def cancel_destroy(connection: Connection, asset_id: int) -> None:
    """Cancel the scheduled destruction of a locked, resurrected asset."""
    connection.execute(
        sa.update(DESTROY_LEDGER)
        .where(DESTROY_LEDGER.c.asset_id == asset_id, DESTROY_LEDGER.c.status == "SCHEDULED")
        .values(status="CANCELLED")
    )


def lock_destruction(connection: Connection, asset_id: int) -> DestructionRow | None:
    """Lock an asset's entry in the ledger of destructions, and compare its times to the clock."""
    statement = (
        sa.select(
            DESTROY_LEDGER,
            (DESTROY_LEDGER.c.not_before <= NOW).label("due"),
            sa.func.coalesce(DESTROY_LEDGER.c.lease_expires_at > NOW, sa.false()).label("held"),
        )
        .where(DESTROY_LEDGER.c.asset_id == asset_id)
        .with_for_update()
    )
    return find_row(DestructionRow, connection.execute(statement))


def change_destruction(connection: Connection, asset_id: int, **values: object) -> None:
    """Change an entry of the ledger of destructions that is locked."""
    connection.execute(
        sa.update(DESTROY_LEDGER).where(DESTROY_LEDGER.c.asset_id == asset_id).values(**values)
    )


def quiet_since_create(connection: Connection, asset_id: int, margin: dt.timedelta) -> bool:
    """Whether no create call of the asset can still be in flight, by the database's clock."""
    late = sa.func.coalesce(CREATE_LEDGER.c.last_call_deadline + margin < NOW, sa.true())
    statement = sa.select(late).where(CREATE_LEDGER.c.asset_id == asset_id)
    return bool(connection.execute(statement).scalar_one())


def due_destroys(connection: Connection, limit: int) -> tuple[int, ...]:
    """List destructions that may begin or continue; locks nothing."""
    held = sa.func.coalesce(DESTROY_LEDGER.c.lease_expires_at > NOW, sa.false())
    statement = (
        sa.select(DESTROY_LEDGER.c.asset_id)
        .where(
            DESTROY_LEDGER.c.status.in_(["SCHEDULED", "INTENT"]),
            DESTROY_LEDGER.c.not_before <= NOW,
            ~held,
        )
        .order_by(DESTROY_LEDGER.c.asset_id.desc())
        .limit(limit)
    )
    return tuple(connection.execute(statement).scalars())


def note_error(connection: Connection, asset_id: int, error: Json) -> None:
    """Store the error of the last call to the store, for people."""
    connection.execute(
        sa.update(CREATE_LEDGER)
        .where(CREATE_LEDGER.c.asset_id == asset_id)
        .values(last_error=error)
    )


def _wanted(keys: Sequence[AssetKey]) -> dict[str, object]:
    return {
        "kinds": [key.kind.value for key in keys],
        "fp_versions": [key.fp_version for key in keys],
        "fingerprints": [key.fingerprint for key in keys],
    }

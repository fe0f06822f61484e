"""Statements on pins, which keep a manifest's assets from being destroyed.

A pin is created in a plan, with all assets locked, or derived from a pin that is locked in the same
transaction. It ends by a DELETE or an UPDATE, never by time alone.
"""

import datetime as dt
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from narthex_ledger.db.mapper import rows_of
from narthex_ledger.db.schema import ASSET, BINDING, BRANCH, DEPLOY_COMMIT, JOB, PIN
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.db.statements.erased_sinks import DELETES_ROWS
from narthex_ledger.model.rows import PinRow
from narthex_ledger.model.states import IN_FLIGHT
from narthex_ledger.model.views import BranchId


def insert_pin(
    connection: Connection, *, manifest_id: UUID, branch_id: BranchId, commit_id: UUID, holder: str
) -> int:
    """Insert a pin; the assets, or a pin of the same manifest, are locked by this transaction."""
    row = (
        sa.insert(PIN)
        .values(manifest_id=manifest_id, branch_id=branch_id, commit_id=commit_id, holder=holder)
        .returning(PIN.c.pin_id)
    )
    return int(connection.execute(row).scalar_one())


def lock_pins(connection: Connection, manifest_id: UUID) -> tuple[PinRow, ...]:
    """Lock all pins of a manifest FOR UPDATE, by id: expiry waits, so they can be derived from."""
    statement = (
        sa.select(PIN)
        .where(PIN.c.manifest_id == manifest_id)
        .order_by(PIN.c.pin_id)
        .with_for_update()
    )
    return rows_of(PinRow, connection.execute(statement))


def retire_pin(
    connection: Connection,
    branch_id: BranchId,
    holder: str,
    *,
    hot: dt.timedelta,
    cold: dt.timedelta,
) -> None:
    """Turn the branch's head or serving pin into history that expires. Branch locked."""
    connection.execute(
        sa.update(PIN)
        .where(PIN.c.branch_id == branch_id, PIN.c.holder == holder)
        .values(holder="history", expires_at=NOW + cold, hot_until=NOW + hot)
    )


def turn_pin(connection: Connection, commit_id: UUID, *, old: str, new: str) -> int:
    """Change the holder kind of a commit's pin; return how many matched. Branch locked."""
    turned = (
        sa.update(PIN).where(PIN.c.commit_id == commit_id, PIN.c.holder == old).values(holder=new)
    )
    return connection.execute(turned).rowcount


def delete_inflight_pin(connection: Connection, commit_id: UUID) -> None:
    """Delete a commit's in-flight pin; the assets that it reached are locked."""
    connection.execute(
        sa.delete(PIN).where(PIN.c.commit_id == commit_id, PIN.c.holder == "inflight")
    )


def pinned_manifests(connection: Connection) -> frozenset[UUID]:
    """Read the ids of all manifests that have a pin."""
    return frozenset(connection.execute(sa.select(PIN.c.manifest_id).distinct()).scalars())


def delete_pin(connection: Connection, pin_id: int) -> None:
    """Delete one pin by id."""
    connection.execute(sa.delete(PIN).where(PIN.c.pin_id == pin_id))


def delete_expired(connection: Connection) -> tuple[UUID, ...]:
    """Delete expired pins, skipping those that another transaction derives from."""
    due = (
        sa.select(PIN.c.pin_id)
        .where(PIN.c.expires_at < NOW)
        .order_by(PIN.c.pin_id)
        .with_for_update(skip_locked=True)
    )
    ids = list(connection.execute(due).scalars())
    gone = sa.delete(PIN).where(PIN.c.pin_id.in_(ids)).returning(PIN.c.manifest_id)
    return tuple(connection.execute(gone).scalars())


def cool(connection: Connection) -> int:
    """Turn history past its hot window cold, which keeps assets but no jobs; skips locked pins."""
    due = (
        sa.select(PIN.c.pin_id)
        .where(PIN.c.hot, PIN.c.hot_until < NOW)
        .order_by(PIN.c.pin_id)
        .with_for_update(skip_locked=True)
    )
    ids = list(connection.execute(due).scalars())
    cooled = sa.update(PIN).where(PIN.c.pin_id.in_(ids)).values(hot=False)
    return connection.execute(cooled).rowcount


def pinned_assets(connection: Connection, asset_ids: list[int]) -> frozenset[int]:
    """Return which of these assets any pin reaches; exact for assets that are locked."""
    statement = (
        sa.select(BINDING.c.asset_id)
        .join(PIN, PIN.c.manifest_id == BINDING.c.manifest_id)
        .where(BINDING.c.asset_id.in_(asset_ids))
        .distinct()
    )
    return frozenset(connection.execute(statement).scalars())


def other_holders(
    connection: Connection, asset_ids: list[int], *, except_commit: UUID
) -> dict[int, UUID]:
    """Return, for each asset, the oldest other commit in flight that pins it."""
    statement = (
        sa.select(BINDING.c.asset_id, PIN.c.commit_id)
        .join(PIN, PIN.c.manifest_id == BINDING.c.manifest_id)
        .join(DEPLOY_COMMIT, DEPLOY_COMMIT.c.commit_id == PIN.c.commit_id)
        .where(
            BINDING.c.asset_id.in_(asset_ids),
            PIN.c.holder == "inflight",
            PIN.c.commit_id != except_commit,
            DEPLOY_COMMIT.c.state.in_([state.value for state in IN_FLIGHT]),
        )
        .order_by(DEPLOY_COMMIT.c.accepted_at.desc(), PIN.c.commit_id.desc())
    )
    return {row.asset_id: row.commit_id for row in connection.execute(statement)}


def users_of(
    connection: Connection, asset_ids: list[int], *, except_commit: UUID
) -> dict[int, tuple[tuple[BranchId, str], ...]]:
    """Return, for each asset, the branches whose pins reach it, apart from one commit's."""
    statement = (
        sa.select(BINDING.c.asset_id, BRANCH.c.branch_id, BRANCH.c.name)
        .join(PIN, PIN.c.manifest_id == BINDING.c.manifest_id)
        .join(BRANCH, BRANCH.c.branch_id == PIN.c.branch_id)
        .where(BINDING.c.asset_id.in_(asset_ids), PIN.c.commit_id != except_commit)
        .distinct()
        .order_by(BINDING.c.asset_id, BRANCH.c.branch_id)
    )
    users: dict[int, tuple[tuple[BranchId, str], ...]] = {}
    for row in connection.execute(statement):
        users[row.asset_id] = (*users.get(row.asset_id, ()), (row.branch_id, row.name))
    return users


def unpinned_assets(connection: Connection, limit: int) -> tuple[int, ...]:
    """List live assets that no pin reaches, as candidates and without locks."""
    pinned = (
        sa.select(sa.literal(1))
        .select_from(BINDING.join(PIN, PIN.c.manifest_id == BINDING.c.manifest_id))
        .where(BINDING.c.asset_id == ASSET.c.asset_id)
    )
    statement = (
        sa.select(ASSET.c.asset_id)
        .where(ASSET.c.state == "live", ~pinned.exists())
        .order_by(ASSET.c.asset_id.desc())
        .limit(limit)
    )
    return tuple(connection.execute(statement).scalars())


def cold_jobs(connection: Connection) -> tuple[int, ...]:
    """List running jobs that only cold pins, or none, reach, as candidates and without locks.

    Sinks that delete rows for an erasure run without pins.
    """
    warm = (
        sa.select(sa.literal(1))
        .select_from(BINDING.join(PIN, PIN.c.manifest_id == BINDING.c.manifest_id))
        .where(BINDING.c.asset_id == JOB.c.asset_id, PIN.c.hot, PIN.c.holder != "undelete")
    )
    statement = sa.select(JOB.c.asset_id).where(
        JOB.c.desired == "running", ~warm.exists(), ~DELETES_ROWS
    )
    return tuple(connection.execute(statement.order_by(JOB.c.asset_id)).scalars())


def is_warm(connection: Connection, asset_id: int) -> bool:
    """Whether a pin that keeps jobs running reaches the asset; exact while it is locked."""
    statement = (
        sa.select(sa.literal(1))
        .select_from(BINDING.join(PIN, PIN.c.manifest_id == BINDING.c.manifest_id))
        .where(BINDING.c.asset_id == asset_id, PIN.c.hot, PIN.c.holder != "undelete")
        .limit(1)
    )
    return connection.execute(statement).first() is not None

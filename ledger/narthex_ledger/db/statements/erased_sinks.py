"""Statements on the sinks that have written rows of obsolete assets, and on their successors."""

from collections.abc import Collection
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from narthex._ir import SinkJobSpec
from narthex_ledger.db.mapper import rows_of
from narthex_ledger.db.schema import ASSET, BINDING, BRANCH, DEPLOY_COMMIT, ERASURE, JOB
from narthex_ledger.db.statements.erasures import FOLLOWS, OLD
from narthex_ledger.model.rows import AssetRow
from narthex_ledger.model.states import ErasureState

_IS_SINK = ASSET.c.spec["$"].astext == SinkJobSpec.__name__
_BEFORE_RELEASE = [
    state.value
    for state in (
        ErasureState.REQUESTED,
        ErasureState.REBUILDING,
        ErasureState.HOLDING,
        ErasureState.WITHDRAWING,
    )
]
_DEPLOYED = (
    sa.select(BINDING.c.asset_id)
    .join(DEPLOY_COMMIT, DEPLOY_COMMIT.c.manifest_id == BINDING.c.manifest_id)
    .join(BRANCH, BRANCH.c.head_commit_id == DEPLOY_COMMIT.c.commit_id)
    .where(BRANCH.c.state == "active")
)

DELETES_ROWS = (
    sa.select(sa.literal(1))
    .select_from(ASSET.join(ERASURE, ERASURE.c.erasure_id == ASSET.c.obsolete_by))
    .where(
        ASSET.c.asset_id == JOB.c.asset_id,
        _IS_SINK,
        ERASURE.c.state == ErasureState.WITHDRAWING.value,
    )
    .exists()
)
"""Whether a job is a sink that deletes rows from its target for an erasure."""


def obsolete_sinks(connection: Connection, erasure_id: UUID) -> tuple[AssetRow, ...]:
    """Read the sinks that an erasure has made obsolete, also those that are destroyed."""
    statement = sa.select(ASSET).where(ASSET.c.obsolete_by == erasure_id, _IS_SINK)
    return rows_of(AssetRow, connection.execute(statement.order_by(ASSET.c.asset_id)))


def obsolete_jobs(
    connection: Connection, erasure_id: UUID, *, are_sinks: bool
) -> tuple[AssetRow, ...]:
    """Read the obsolete assets that have a job: the sinks, or all others."""
    statement = (
        sa.select(ASSET)
        .join(JOB, JOB.c.asset_id == ASSET.c.asset_id)
        .where(ASSET.c.obsolete_by == erasure_id, _IS_SINK if are_sinks else sa.not_(_IS_SINK))
    )
    return rows_of(AssetRow, connection.execute(statement.order_by(ASSET.c.asset_id)))


def waiting_sinks(
    connection: Connection, manifest_id: UUID, *, lock: bool = False
) -> frozenset[int]:
    """Return the sinks of a manifest that may not write yet: obsolete ones write to their targets.

    Locks the erasures FOR SHARE if asked: an erasure that lets them write is waited for.
    """
    bound = sa.select(BINDING.c.asset_id).where(BINDING.c.manifest_id == manifest_id)
    statement = (
        sa.select(ASSET.c.asset_id)
        .join(OLD, FOLLOWS)
        .join(ERASURE, ERASURE.c.erasure_id == OLD.c.obsolete_by)
        .where(ASSET.c.asset_id.in_(bound), _IS_SINK, ERASURE.c.state.in_(_BEFORE_RELEASE))
    )
    if lock:
        statement = statement.with_for_update(read=True, of=ERASURE)
    return frozenset(connection.execute(statement).scalars())


def deployed(connection: Connection, assets: Collection[int]) -> frozenset[int]:
    """Return which of these assets the head of an active branch binds."""
    statement = _DEPLOYED.where(BINDING.c.asset_id.in_(list(assets)))
    return frozenset(connection.execute(statement).scalars())


def replaced_sinks(connection: Connection, tenant_id: int) -> tuple[AssetRow, ...]:
    """Read the sinks that have existed, and of which no active branch deploys an incarnation."""
    current = sa.select(ASSET.c.fingerprint).where(ASSET.c.asset_id.in_(_DEPLOYED), _IS_SINK)
    statement = sa.select(ASSET).where(
        ASSET.c.tenant_id == tenant_id,
        _IS_SINK,
        ASSET.c.live_at.isnot(None),
        ASSET.c.fingerprint.notin_(current),
    )
    return rows_of(AssetRow, connection.execute(statement.order_by(ASSET.c.asset_id)))

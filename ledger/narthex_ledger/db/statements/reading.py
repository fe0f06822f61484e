"""Statements that only read; none of them locks."""

from collections.abc import Collection, Sequence
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from narthex._ir import AssetRef
from narthex_ledger.db.schema import (
    ASSET,
    BINDING,
    BRANCH,
    BUNDLE,
    CREATE_LEDGER,
    DEPLOY_COMMIT,
    INSTALL,
    JOB,
    LEDGER_EVENT,
    MANIFEST,
    PIN,
    PROMOTION,
    REFCOUNT,
    REGISTRY_VERSION,
)
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.db.statements.jobs import SHARDS
from narthex_ledger.model.states import AssetState
from narthex_ledger.model.views import BranchId, TenantId

# The most frequent queries are built once: building one costs more than running it.
_COMMITS = sa.select(
    DEPLOY_COMMIT,
    (DEPLOY_COMMIT.c.deadline < NOW).label("past_deadline"),
    PROMOTION.c.state.label("promotion_state"),
).outerjoin(PROMOTION, PROMOTION.c.commit_id == DEPLOY_COMMIT.c.commit_id)
_COMMIT = _COMMITS.where(DEPLOY_COMMIT.c.commit_id == sa.bindparam("commit_id"))
_BOUND = (
    sa.select(
        BINDING.c.asset_id, sa.func.array_agg(sa.distinct(BINDING.c.logical_path)).label("paths")
    )
    .where(BINDING.c.manifest_id == sa.bindparam("manifest_id"))
    .group_by(BINDING.c.asset_id)
    .subquery()
)
_BOUND_ASSETS = (
    sa.select(
        ASSET,
        _BOUND.c.paths,
        CREATE_LEDGER.c.owner_commit_id,
        CREATE_LEDGER.c.status,
        CREATE_LEDGER.c.attempt,
        CREATE_LEDGER.c.last_error,
        REFCOUNT.c.refs,
    )
    .join(_BOUND, _BOUND.c.asset_id == ASSET.c.asset_id)
    .join(CREATE_LEDGER, CREATE_LEDGER.c.asset_id == ASSET.c.asset_id)
    .join(REFCOUNT, REFCOUNT.c.asset_id == ASSET.c.asset_id)
    .order_by(ASSET.c.asset_id)
)
_JOBS = (
    sa.select(
        ASSET,
        *(c for c in JOB.c if c.name not in {"asset_id", "tenant_id", "spec_sha256"}),
    )
    .join(JOB, JOB.c.asset_id == ASSET.c.asset_id)
    .where(ASSET.c.state.in_(["live", "retiring"]))
    .order_by(ASSET.c.asset_id)
)


def commit_row(connection: Connection, commit_id: UUID) -> RowMapping | None:
    """Find a commit with its promotion."""
    return connection.execute(_COMMIT, {"commit_id": commit_id}).mappings().one_or_none()


def commit_rows(
    connection: Connection, limit: int, branch_id: BranchId | None
) -> tuple[RowMapping, ...]:
    """List commits with their promotions, the newest first."""
    found = _COMMITS.order_by(DEPLOY_COMMIT.c.accepted_at.desc()).limit(limit)
    if branch_id is not None:
        found = found.where(DEPLOY_COMMIT.c.branch_id == branch_id)
    return tuple(connection.execute(found).mappings())


def manifest_row(connection: Connection, manifest_id: UUID) -> RowMapping | None:
    """Find a manifest."""
    found = sa.select(MANIFEST).where(MANIFEST.c.manifest_id == manifest_id)
    return connection.execute(found).mappings().one_or_none()


def binding_rows(connection: Connection, manifest_id: UUID) -> tuple[RowMapping, ...]:
    """Read a manifest's bindings with their assets, by path."""
    found = (
        sa.select(BINDING.c.logical_path, ASSET)
        .join(ASSET, ASSET.c.asset_id == BINDING.c.asset_id)
        .where(BINDING.c.manifest_id == manifest_id)
        .order_by(BINDING.c.logical_path)
    )
    return tuple(connection.execute(found).mappings())


def asset_rows(connection: Connection, manifest_id: UUID) -> tuple[RowMapping, ...]:
    """Read a manifest's assets with their paths, creations and references."""
    return tuple(connection.execute(_BOUND_ASSETS, {"manifest_id": manifest_id}).mappings())


def retained_rows(
    connection: Connection,
    tenant_id: TenantId,
    *,
    after: int,
    limit: int,
    branches: Collection[str] | None,
) -> tuple[RowMapping, ...]:
    """List the assets that are not destroyed, by id, with their paths and references.

    With `branches`, only the assets that these branches hold, by their paths there.
    """
    bound = BINDING if branches is None else held(tenant_id, branches).subquery()
    paths = (
        sa.select(sa.func.array_agg(sa.distinct(bound.c.logical_path)))
        .where(bound.c.asset_id == ASSET.c.asset_id)
        .correlate(ASSET)
        .scalar_subquery()
    )
    is_shown = sa.true() if branches is None else ASSET.c.asset_id.in_(sa.select(bound.c.asset_id))
    found = (
        sa.select(ASSET, paths.label("paths"), REFCOUNT.c.refs)
        .join(REFCOUNT, REFCOUNT.c.asset_id == ASSET.c.asset_id)
        .where(
            ASSET.c.tenant_id == tenant_id,
            ASSET.c.state != AssetState.DESTROYED.value,
            ASSET.c.asset_id > after,
            is_shown,
        )
        .order_by(ASSET.c.asset_id)
        .limit(limit)
    )
    return tuple(connection.execute(found).mappings())


def held(tenant_id: TenantId, branches: Collection[str]) -> sa.Select[tuple[int, str]]:
    """Select the bindings of the manifests that these branches hold, by any kind of pin."""
    return (
        sa.select(BINDING.c.asset_id, BINDING.c.logical_path)
        .distinct()
        .join(PIN, PIN.c.manifest_id == BINDING.c.manifest_id)
        .join(BRANCH, BRANCH.c.branch_id == PIN.c.branch_id)
        .where(BRANCH.c.tenant_id == tenant_id, BRANCH.c.name.in_(branches))
    )


def held_rows(
    connection: Connection, tenant_id: TenantId, branches: Collection[str]
) -> tuple[RowMapping, ...]:
    """Read which assets branches hold, one row per asset and path; locks nothing."""
    return tuple(connection.execute(held(tenant_id, branches)).mappings())


def first_binder_rows(connection: Connection, tenant_id: TenantId) -> tuple[RowMapping, ...]:
    """Read which active branches bind or have bound endpoints, the earliest commit first."""
    first = sa.func.min(DEPLOY_COMMIT.c.committed_at)
    found = (
        sa.select(BINDING.c.logical_path, BRANCH.c.name)
        .join(DEPLOY_COMMIT, DEPLOY_COMMIT.c.manifest_id == BINDING.c.manifest_id)
        .join(BRANCH, BRANCH.c.branch_id == DEPLOY_COMMIT.c.branch_id)
        .where(
            BRANCH.c.tenant_id == tenant_id,
            BRANCH.c.state == "active",
            DEPLOY_COMMIT.c.committed_at.is_not(None),
            BINDING.c.logical_path.like("webhook/%/ingest"),
        )
        .group_by(BINDING.c.logical_path, BRANCH.c.branch_id, BRANCH.c.name)
        .order_by(first, BRANCH.c.branch_id)
    )
    return tuple(connection.execute(found).mappings())


def holder_rows(
    connection: Connection, asset_ids: Sequence[int], *, branches: Collection[str] | None
) -> tuple[RowMapping, ...]:
    """Read which commits of which branches hold these assets, and why; of some branches only."""
    is_shown = sa.true() if branches is None else BRANCH.c.name.in_(branches)
    found = (
        sa.select(
            BINDING.c.asset_id, BRANCH.c.name, PIN.c.holder, PIN.c.commit_id, PIN.c.expires_at
        )
        .distinct()
        .join(PIN, PIN.c.manifest_id == BINDING.c.manifest_id)
        .outerjoin(BRANCH, BRANCH.c.branch_id == PIN.c.branch_id)
        .where(BINDING.c.asset_id.in_(asset_ids), is_shown)
        .order_by(BINDING.c.asset_id, BRANCH.c.name, PIN.c.holder, PIN.c.commit_id)
    )
    return tuple(connection.execute(found).mappings())


def unfilled(connection: Connection, asset_ids: list[int]) -> frozenset[int]:
    """Return which of these assets are jobs that still need a backfill."""
    found = (
        sa.select(CREATE_LEDGER.c.asset_id)
        .outerjoin(JOB, JOB.c.asset_id == CREATE_LEDGER.c.asset_id)
        .where(
            CREATE_LEDGER.c.asset_id.in_(asset_ids),
            CREATE_LEDGER.c.needs_backfill,
            JOB.c.backfilled_at.is_(None),
        )
    )
    return frozenset(connection.execute(found).scalars())


def job_rows(connection: Connection) -> tuple[RowMapping, ...]:
    """Read all jobs whose assets exist."""
    return tuple(connection.execute(_JOBS).mappings())


def shard_rows(connection: Connection) -> tuple[RowMapping, ...]:
    """Read all shards with their slots."""
    return tuple(connection.execute(SHARDS).mappings())


def retained_names(
    connection: Connection, tenant_id: TenantId, refs: Sequence[AssetRef]
) -> tuple[RowMapping, ...]:
    """Read the names of those of these assets that are live or retiring."""
    if not refs:
        return ()
    found = sa.select(ASSET.c.kind, ASSET.c.fingerprint, ASSET.c.physical_name).where(
        ASSET.c.tenant_id == tenant_id,
        ASSET.c.state.in_(["live", "retiring"]),
        sa.tuple_(ASSET.c.kind, ASSET.c.fingerprint).in_(
            [(ref.kind.value, ref.fingerprint) for ref in refs]
        ),
    )
    return tuple(connection.execute(found).mappings())


def backfill_pace(connection: Connection) -> float | None:
    """Return the median of the newest backfills' rows per second, by their events."""
    claimed, filled = LEDGER_EVENT.alias(), LEDGER_EVENT.alias()
    rows = filled.c.detail["rows"].as_float()
    seconds = sa.func.extract("epoch", filled.c.at - claimed.c.at)
    paces = (
        sa.select((rows / sa.func.greatest(seconds, 0.001)).label("pace"))
        .join(
            claimed,
            sa.and_(
                claimed.c.asset_id == filled.c.asset_id,
                claimed.c.fence == filled.c.fence,
                claimed.c.transition == "backfill_claimed",
            ),
        )
        .where(filled.c.transition == "backfilled", rows > 0)
        .order_by(filled.c.event_id.desc())
        .limit(20)
        .subquery()
    )
    median = sa.func.percentile_cont(0.5).within_group(paces.c.pace)
    found = connection.execute(sa.select(median)).scalar_one_or_none()
    return None if found is None else float(found)


def event_rows(connection: Connection, commit_id: UUID) -> tuple[RowMapping, ...]:
    """Read the events of a commit, in order."""
    found = (
        sa.select(LEDGER_EVENT)
        .where(LEDGER_EVENT.c.commit_id == commit_id)
        .order_by(LEDGER_EVENT.c.event_id)
    )
    return tuple(connection.execute(found).mappings())


def bundle_content(connection: Connection, sha256: bytes) -> bytes | None:
    """Find a bundle by content."""
    found = sa.select(BUNDLE.c.content).where(BUNDLE.c.sha256 == sha256)
    content = connection.execute(found).scalar_one_or_none()
    return None if content is None else bytes(content)


def registry_version(connection: Connection) -> int:
    """Read the registry's version."""
    return int(connection.execute(sa.select(REGISTRY_VERSION.c.version)).scalar_one())


def install_row(connection: Connection) -> RowMapping | None:
    """Find the installation's identity."""
    return connection.execute(sa.select(INSTALL)).mappings().one_or_none()


def head_rows(
    connection: Connection, commit_ids: Collection[UUID | None]
) -> tuple[RowMapping, ...]:
    """Read the signatures of commits from when they became heads of their branches."""
    wanted = [one for one in commit_ids if one is not None]
    columns = (DEPLOY_COMMIT.c.commit_id, DEPLOY_COMMIT.c.manifest_id)
    found = sa.select(*columns, DEPLOY_COMMIT.c.head_signature).where(
        DEPLOY_COMMIT.c.commit_id.in_(wanted)
    )
    return tuple(connection.execute(found).mappings()) if wanted else ()


def serving_row(connection: Connection, branch_id: BranchId) -> RowMapping | None:
    """Find the commit that a branch serves, in one statement."""
    found = (
        sa.select(DEPLOY_COMMIT.c.commit_id, DEPLOY_COMMIT.c.manifest_id, BRANCH.c.serving_seq)
        .join(DEPLOY_COMMIT, DEPLOY_COMMIT.c.commit_id == BRANCH.c.serving_commit_id)
        .where(BRANCH.c.branch_id == branch_id)
    )
    return connection.execute(found).mappings().one_or_none()

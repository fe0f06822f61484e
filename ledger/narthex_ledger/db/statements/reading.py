"""Statements that only read; none of them locks."""

from collections.abc import Collection, Sequence
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.engine import Connection

from narthex._ir import AssetRef
from narthex_ledger.db.mapper import find_row, rows_of
from narthex_ledger.db.schema import (
    ASSET,
    BIG,
    BINDING,
    BRANCH,
    BUNDLE,
    CREATE_LEDGER,
    DEPLOY_COMMIT,
    INSTALL,
    JOB,
    JOB_SHARD,
    LEDGER_EVENT,
    MANIFEST,
    PIN,
    PROMOTION,
    REFCOUNT,
    REGISTRY_VERSION,
)
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.db.statements.jobs import SHARDS
from narthex_ledger.model.audit_views import InstallView
from narthex_ledger.model.rows import (
    BinderRow,
    BoundAssetRow,
    BoundNameRow,
    BundleRow,
    CreatedAssetRow,
    HeadRow,
    HolderRow,
    JobAssetRow,
    ListedCommitRow,
    ManifestRow,
    NamedAssetRow,
    PathRow,
    RetainedAssetRow,
    ServingRow,
    ShardRow,
)
from narthex_ledger.model.states import AssetState
from narthex_ledger.model.views import BranchId, EventView, TenantId

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


_SHARDS_OF = SHARDS.where(
    JOB_SHARD.c.asset_id == sa.any_(sa.cast(sa.bindparam("asset_ids"), ARRAY(BIG)))
)
_RUNNING_SHARDS = _SHARDS_OF.join(JOB, JOB.c.asset_id == JOB_SHARD.c.asset_id).where(
    JOB.c.desired == "running"
)


def commit_row(connection: Connection, commit_id: UUID) -> ListedCommitRow | None:
    """Find a commit with its promotion."""
    return find_row(ListedCommitRow, connection.execute(_COMMIT, {"commit_id": commit_id}))


def commit_rows(
    connection: Connection, limit: int, branch_id: BranchId | None, *, only_unended: bool
) -> tuple[ListedCommitRow, ...]:
    """List commits with their promotions, the newest first."""
    statement = _COMMITS.order_by(DEPLOY_COMMIT.c.accepted_at.desc()).limit(limit)
    if branch_id is not None:
        statement = statement.where(DEPLOY_COMMIT.c.branch_id == branch_id)
    if only_unended:
        statement = statement.where(DEPLOY_COMMIT.c.finished_at.is_(None))
    return rows_of(ListedCommitRow, connection.execute(statement))


def manifest_row(connection: Connection, manifest_id: UUID) -> ManifestRow | None:
    """Find a manifest."""
    statement = sa.select(MANIFEST).where(MANIFEST.c.manifest_id == manifest_id)
    return find_row(ManifestRow, connection.execute(statement))


def binding_rows(connection: Connection, manifest_id: UUID) -> tuple[BoundAssetRow, ...]:
    """Read a manifest's bindings with their assets, by path."""
    statement = (
        sa.select(BINDING.c.logical_path, ASSET)
        .join(ASSET, ASSET.c.asset_id == BINDING.c.asset_id)
        .where(BINDING.c.manifest_id == manifest_id)
        .order_by(BINDING.c.logical_path)
    )
    return rows_of(BoundAssetRow, connection.execute(statement))


def bound_name_rows(connection: Connection, manifest_id: UUID) -> tuple[BoundNameRow, ...]:
    """Read which assets a manifest binds, by path, without their specs."""
    statement = (
        sa.select(
            BINDING.c.logical_path,
            ASSET.c.asset_id,
            ASSET.c.kind,
            ASSET.c.fingerprint,
            ASSET.c.physical_name,
        )
        .join(ASSET, ASSET.c.asset_id == BINDING.c.asset_id)
        .where(BINDING.c.manifest_id == manifest_id)
        .order_by(BINDING.c.logical_path)
    )
    return rows_of(BoundNameRow, connection.execute(statement))


def asset_rows(connection: Connection, manifest_id: UUID) -> tuple[CreatedAssetRow, ...]:
    """Read a manifest's assets with their paths, creations and references."""
    return rows_of(CreatedAssetRow, connection.execute(_BOUND_ASSETS, {"manifest_id": manifest_id}))


def retained_rows(
    connection: Connection,
    tenant_id: TenantId,
    *,
    after: int,
    limit: int,
    branches: Collection[str] | None,
) -> tuple[RetainedAssetRow, ...]:
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
    statement = (
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
    return rows_of(RetainedAssetRow, connection.execute(statement))


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
) -> tuple[PathRow, ...]:
    """Read which assets branches hold, one row per asset and path; locks nothing."""
    return rows_of(PathRow, connection.execute(held(tenant_id, branches)))


def first_binder_rows(connection: Connection, tenant_id: TenantId) -> tuple[BinderRow, ...]:
    """Read which active branches bind or have bound endpoints, the earliest commit first."""
    first = sa.func.min(DEPLOY_COMMIT.c.committed_at)
    statement = (
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
    return rows_of(BinderRow, connection.execute(statement))


def holder_rows(
    connection: Connection, asset_ids: Sequence[int], *, branches: Collection[str] | None
) -> tuple[HolderRow, ...]:
    """Read which commits of which branches hold these assets, and why; of some branches only."""
    is_shown = sa.true() if branches is None else BRANCH.c.name.in_(branches)
    statement = (
        sa.select(
            BINDING.c.asset_id, BRANCH.c.name, PIN.c.holder, PIN.c.commit_id, PIN.c.expires_at
        )
        .distinct()
        .join(PIN, PIN.c.manifest_id == BINDING.c.manifest_id)
        .outerjoin(BRANCH, BRANCH.c.branch_id == PIN.c.branch_id)
        .where(BINDING.c.asset_id.in_(asset_ids), is_shown)
        .order_by(BINDING.c.asset_id, BRANCH.c.name, PIN.c.holder, PIN.c.commit_id)
    )
    return rows_of(HolderRow, connection.execute(statement))


def unfilled(connection: Connection, asset_ids: list[int]) -> frozenset[int]:
    """Return which of these assets are jobs that still need a backfill."""
    statement = (
        sa.select(CREATE_LEDGER.c.asset_id)
        .outerjoin(JOB, JOB.c.asset_id == CREATE_LEDGER.c.asset_id)
        .where(
            CREATE_LEDGER.c.asset_id.in_(asset_ids),
            CREATE_LEDGER.c.needs_backfill,
            JOB.c.backfilled_at.is_(None),
        )
    )
    return frozenset(connection.execute(statement).scalars())


def job_rows(connection: Connection) -> tuple[JobAssetRow, ...]:
    """Read all jobs whose assets exist."""
    return rows_of(JobAssetRow, connection.execute(_JOBS))


def changed_job_rows(
    connection: Connection, slot_space: str, slots: Sequence[int], *, since: int
) -> tuple[JobAssetRow, ...]:
    """Read the jobs with a shard in these slots that changed after a registry version."""
    statement = _JOBS.where(
        JOB.c.changed_in > since, JOB.c.asset_id.in_(_in_slots(slot_space, slots))
    )
    return rows_of(JobAssetRow, connection.execute(statement))


def job_ids(connection: Connection, slot_space: str, slots: Sequence[int]) -> frozenset[int]:
    """Read the ids of all jobs with a shard in these slots, whose assets exist."""
    statement = _JOBS.with_only_columns(JOB.c.asset_id).order_by(None)
    found = statement.where(JOB.c.asset_id.in_(_in_slots(slot_space, slots)))
    return frozenset(connection.execute(found).scalars())


def _in_slots(slot_space: str, slots: Sequence[int]) -> sa.Select[tuple[int]]:
    return sa.select(JOB_SHARD.c.asset_id).where(
        JOB_SHARD.c.slot_space == slot_space, JOB_SHARD.c.slot.in_(slots)
    )


def unfilled_job_rows(connection: Connection, manifest_id: UUID) -> tuple[JobAssetRow, ...]:
    """Read the jobs of a manifest that owe a backfill."""
    bound = sa.select(BINDING.c.asset_id).where(BINDING.c.manifest_id == manifest_id)
    statement = _JOBS.where(
        JOB.c.needs_backfill, JOB.c.backfilled_at.is_(None), JOB.c.asset_id.in_(bound)
    )
    return rows_of(JobAssetRow, connection.execute(statement))


def shard_rows(connection: Connection, asset_ids: list[int]) -> tuple[ShardRow, ...]:
    """Read the shards of jobs with their slots."""
    return rows_of(ShardRow, connection.execute(_SHARDS_OF, {"asset_ids": asset_ids}))


def running_shard_rows(connection: Connection, asset_ids: list[int]) -> tuple[ShardRow, ...]:
    """Read the shards of those of the jobs that ought to run, with their slots."""
    return rows_of(ShardRow, connection.execute(_RUNNING_SHARDS, {"asset_ids": asset_ids}))


def retained_names(
    connection: Connection, tenant_id: TenantId, refs: Sequence[AssetRef]
) -> tuple[NamedAssetRow, ...]:
    """Read the names of those of these assets that are live or retiring."""
    if not refs:
        return ()
    statement = sa.select(ASSET.c.kind, ASSET.c.fingerprint, ASSET.c.physical_name).where(
        ASSET.c.tenant_id == tenant_id,
        ASSET.c.state.in_(["live", "retiring"]),
        sa.tuple_(ASSET.c.kind, ASSET.c.fingerprint).in_(
            [(ref.kind.value, ref.fingerprint) for ref in refs]
        ),
    )
    return rows_of(NamedAssetRow, connection.execute(statement))


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
    pace = connection.execute(sa.select(median)).scalar_one_or_none()
    return None if pace is None else float(pace)


def event_rows(connection: Connection, commit_id: UUID) -> tuple[EventView, ...]:
    """Read the events of a commit, in order."""
    statement = (
        sa.select(LEDGER_EVENT)
        .where(LEDGER_EVENT.c.commit_id == commit_id)
        .order_by(LEDGER_EVENT.c.event_id)
    )
    return rows_of(EventView, connection.execute(statement))


def bundle_row(connection: Connection, sha256: bytes) -> BundleRow | None:
    """Find a bundle by the hash of its content."""
    statement = sa.select(BUNDLE).where(BUNDLE.c.sha256 == sha256)
    return find_row(BundleRow, connection.execute(statement))


def registry_version(connection: Connection) -> int:
    """Read the registry's version."""
    return int(connection.execute(sa.select(REGISTRY_VERSION.c.version)).scalar_one())


def install_row(connection: Connection) -> InstallView | None:
    """Find the installation's identity."""
    return find_row(InstallView, connection.execute(sa.select(INSTALL)))


def head_rows(connection: Connection, commit_ids: Collection[UUID | None]) -> tuple[HeadRow, ...]:
    """Read the signatures of commits from when they became heads of their branches."""
    wanted = [one for one in commit_ids if one is not None]
    columns = (DEPLOY_COMMIT.c.commit_id, DEPLOY_COMMIT.c.manifest_id)
    statement = sa.select(*columns, DEPLOY_COMMIT.c.head_signature).where(
        DEPLOY_COMMIT.c.commit_id.in_(wanted)
    )
    return rows_of(HeadRow, connection.execute(statement)) if wanted else ()


def serving_row(connection: Connection, branch_id: BranchId) -> ServingRow | None:
    """Find the commit that a branch serves, in one statement."""
    statement = (
        sa.select(DEPLOY_COMMIT.c.commit_id, DEPLOY_COMMIT.c.manifest_id, BRANCH.c.serving_seq)
        .join(DEPLOY_COMMIT, DEPLOY_COMMIT.c.commit_id == BRANCH.c.serving_commit_id)
        .where(BRANCH.c.branch_id == branch_id)
    )
    return find_row(ServingRow, connection.execute(statement))

"""Read the ledger for people, readers and engines, without locks."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import TypeAlias, TypeVar
from uuid import UUID

from sqlalchemy.engine import Connection

from narthex._ir import AssetKind, AssetRef, ResolvedAsset
from narthex_ledger.db.statements import assets as on_assets
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import reading as on_reading
from narthex_ledger.errors import NotFound
from narthex_ledger.model.rows import (
    BoundAssetRow,
    BoundNameRow,
    BranchRow,
    CreatedAssetRow,
    JobAssetRow,
    ListedBranchRow,
    ListedCommitRow,
    ManifestRow,
    ShardRow,
)
from narthex_ledger.model.states import (
    AssetState,
    BackfillPolicy,
    CommitState,
    CreateStatus,
    Desired,
    Phase,
    PromotionPolicy,
    PromotionState,
)
from narthex_ledger.model.views import (
    NEVER_READ,
    AssetView,
    BranchId,
    BranchView,
    CommitView,
    Epoch,
    Fence,
    HolderView,
    JobChanges,
    JobView,
    ManifestView,
    RetainedAssetView,
    ShardView,
    TenantId,
)
from narthex_ledger.reading.resolved_assets import AssetRows, KnownAssets, plans_of, resolve
from narthex_ledger.signing.row_checks import Checker

_T = TypeVar("_T")

Conversion: TypeAlias = Callable[[], _T]
"""Converts rows to values; call it after the transaction, which may not be idle for long.

It raises NotSigned if a row does not match its signature.
"""


def commit(connection: Connection, commit_id: UUID) -> Conversion[CommitView]:
    """Read a commit with its assets in dependency order."""
    row = on_reading.commit_row(connection, commit_id)
    if row is None:
        raise NotFound(f"there is no commit {commit_id}")
    if row.manifest_id is None:
        return lambda: _commit_view(row, ())
    assets = on_reading.asset_rows(connection, row.manifest_id)
    needs = on_assets.need_ids(connection, [asset.asset_id for asset in assets])
    return lambda: _commit_view(row, _in_dependency_order(assets, needs))


def commits(
    connection: Connection, limit: int, branch_id: BranchId | None, *, only_unended: bool
) -> tuple[CommitView, ...]:
    """List commits, the newest first, without their assets."""
    rows = on_reading.commit_rows(connection, limit, branch_id, only_unended=only_unended)
    return tuple(_commit_view(row, ()) for row in rows)


def branch_view(row: BranchRow) -> BranchView:
    """Read a branch."""
    return BranchView(
        branch_id=row.branch_id,
        tenant_id=row.tenant_id,
        name=row.name,
        is_main=row.is_main,
        state=row.state,
        head_commit_id=row.head_commit_id,
        serving_commit_id=row.serving_commit_id,
        head_seq=row.head_seq,
        serving_seq=row.serving_seq,
        is_protected=row.is_protected,
        undelete_until=row.undelete_until if isinstance(row, ListedBranchRow) else None,
    )


def branch(connection: Connection, tenant_id: TenantId, name: str, checker: Checker) -> BranchView:
    """Read an active branch by name, and check that its commits were committed to it."""
    row = on_commits.find_branch(connection, tenant_id, name)
    if row is None:
        raise NotFound(f"there is no branch `{name}`")
    found = branch_view(row)
    for head in on_reading.head_rows(connection, {found.head_commit_id, found.serving_commit_id}):
        checker.head(found, head)
    return found


def manifest(
    connection: Connection, manifest_id: UUID, checker: Checker, known: KnownAssets
) -> Conversion[ManifestView]:
    """Read a manifest with every asset resolved, and checked unless it is known."""
    row = on_reading.manifest_row(connection, manifest_id)
    if row is None:
        raise NotFound(f"there is no manifest {manifest_id}")
    bound = on_reading.binding_rows(connection, manifest_id)
    assets = AssetRows.read(connection, {asset.asset_id: asset for asset in bound}.values())
    return lambda: _manifest_view(row, bound, assets, checker, known)


def _manifest_view(
    row: ManifestRow,
    bound: Sequence[BoundAssetRow],
    assets: AssetRows,
    checker: Checker,
    known: KnownAssets,
) -> ManifestView:
    resolved = resolve(assets, checker=checker, known=known)
    bindings = {one.logical_path: resolved[one.asset_id] for one in bound}
    checker.manifest(row, [(path, asset.physical_name) for path, asset in bindings.items()])
    return ManifestView(
        manifest_id=row.manifest_id,
        tenant_id=row.tenant_id,
        bundle_sha256=row.bundle_sha256,
        content_sha256=row.content_sha256,
        plans=plans_of(row.content["datasets"]),
        content=row.content["content"],
        bindings=bindings,
    )


def bound_assets_of(connection: Connection, commit_id: UUID | None) -> dict[str, BoundNameRow]:
    """Read by path which assets a commit binds, without their specs; empty without a commit."""
    if commit_id is None:
        return {}
    manifest_id = on_commits.read_commit(connection, commit_id).manifest_id
    rows = () if manifest_id is None else on_reading.bound_name_rows(connection, manifest_id)
    return {row.logical_path: row for row in rows}


def pending_backfills(connection: Connection, asset_ids: list[int]) -> frozenset[int]:
    """Return which of these jobs need a backfill, whether their rows exist yet or not."""
    return on_reading.unfilled(connection, asset_ids)


def physical_names(
    connection: Connection, tenant: TenantId, refs: Sequence[AssetRef]
) -> dict[AssetRef, str]:
    """Return the names of those assets that represent their fingerprints now."""
    rows = on_reading.retained_names(connection, tenant, refs)
    return {AssetRef(AssetKind(row.kind), row.fingerprint): row.physical_name for row in rows}


def retained_assets(
    connection: Connection,
    tenant: TenantId,
    *,
    after: int,
    limit: int,
    branches: Collection[str] | None,
) -> tuple[RetainedAssetView, ...]:
    """List the assets that are not destroyed, by id, each with all its holders.

    With `branches`, only the assets that these branches hold, and only these branches' names.
    """
    rows = on_reading.retained_rows(connection, tenant, after=after, limit=limit, branches=branches)
    ids = [row.asset_id for row in rows]
    held: dict[int, tuple[HolderView, ...]] = {}
    for row in on_reading.holder_rows(connection, ids, branches=branches):
        holder = HolderView(
            branch=row.name or "",
            holder=row.holder,
            commit_id=row.commit_id,
            expires_at=row.expires_at,
        )
        held[row.asset_id] = (*held.get(row.asset_id, ()), holder)
    return tuple(
        RetainedAssetView(
            asset_id=row.asset_id,
            kind=AssetKind(row.kind),
            fingerprint=row.fingerprint,
            incarnation=row.incarnation,
            physical_name=row.physical_name,
            state=AssetState(row.state),
            paths=tuple(row.paths or ()),
            refs=row.refs,
            live_at=row.live_at,
            held_by=held.get(row.asset_id, ()),
        )
        for row in rows
    )


def jobs(
    connection: Connection, checker: Checker, known: KnownAssets | None = None
) -> Conversion[tuple[JobView, ...]]:
    """Read every job of a live or retiring asset, with its shards."""
    return _job_views(connection, on_reading.job_rows(connection), checker, known)


def _job_views(
    connection: Connection,
    rows: Sequence[JobAssetRow],
    checker: Checker,
    known: KnownAssets | None = None,
) -> Conversion[tuple[JobView, ...]]:
    assets = AssetRows.read(connection, rows)
    shards = on_reading.shard_rows(connection, [row.asset_id for row in rows])
    return lambda: _jobs_of(rows, resolve(assets, checker=checker, known=known), shards)


def _jobs_of(
    rows: Sequence[JobAssetRow],
    resolved: Mapping[int, ResolvedAsset],
    shard_rows: Sequence[ShardRow],
) -> tuple[JobView, ...]:
    shards = _by_asset(shard_rows)
    return tuple(
        JobView(
            asset=resolved[row.asset_id],
            slot_space=row.slot_space,
            desired=Desired(row.desired),
            generation=row.generation,
            spec_sha256=row.spec_sha256,
            checkpoint_incarnation=row.checkpoint_incarnation,
            needs_backfill=row.needs_backfill,
            backfilled_at=row.backfilled_at,
            backfill_owner=row.backfill_owner,
            backfill_epoch=Epoch(row.backfill_epoch),
            shards=shards.get(row.asset_id, ()),
        )
        for row in rows
    )


def _by_asset(rows: Iterable[ShardRow]) -> dict[int, tuple[ShardView, ...]]:
    shards: dict[int, tuple[ShardView, ...]] = {}
    for row in rows:
        shards[row.asset_id] = (*shards.get(row.asset_id, ()), _shard_view(row))
    return shards


def running(connection: Connection, asset_ids: list[int]) -> dict[int, tuple[ShardView, ...]]:
    """Read the shards of those of the jobs that ought to run, by the job."""
    return _by_asset(on_reading.running_shard_rows(connection, asset_ids))


def job_changes(
    connection: Connection, checker: Checker, slot_space: str, slots: Sequence[int], *, since: int
) -> Conversion[JobChanges]:
    """Read the jobs of these slots that changed after a registry version, and which exist."""
    version = on_reading.registry_version(connection)
    # A restored database may be older than what the reader knows.
    after = since if since <= version else NEVER_READ
    rows = on_reading.changed_job_rows(connection, slot_space, slots, since=after)
    changed = _job_views(connection, rows, checker)
    existing = on_reading.job_ids(connection, slot_space, slots)
    return lambda: JobChanges(version=version, changed=changed(), existing=existing)


def due_backfills(
    connection: Connection, commit_id: UUID, checker: Checker
) -> Conversion[tuple[JobView, ...]]:
    """Read the jobs of a commit that owe a backfill."""
    row = on_commits.read_commit(connection, commit_id)
    if row.manifest_id is None:
        return tuple
    rows = on_reading.unfilled_job_rows(connection, row.manifest_id)
    return _job_views(connection, rows, checker)


def _in_dependency_order(
    rows: Sequence[CreatedAssetRow], need_ids: Iterable[tuple[int, int]]
) -> tuple[AssetView, ...]:
    needs: dict[int, set[int]] = {row.asset_id: set() for row in rows}
    for asset_id, needed in need_ids:
        needs[asset_id].add(needed)
    views = {row.asset_id: _asset_view(row, needs[row.asset_id]) for row in rows}
    order = TopologicalSorter({asset_id: view.needs for asset_id, view in views.items()})
    return tuple(views[asset_id] for asset_id in order.static_order())


def _asset_view(row: CreatedAssetRow, needs: Iterable[int]) -> AssetView:
    return AssetView(
        asset_id=row.asset_id,
        kind=AssetKind(row.kind),
        fingerprint=row.fingerprint,
        incarnation=row.incarnation,
        physical_name=row.physical_name,
        state=AssetState(row.state),
        external_id=row.external_id,
        paths=tuple(row.paths or ()),
        needs=tuple(sorted(needs)),
        owner_commit_id=row.owner_commit_id,
        create_status=CreateStatus(row.status),
        attempt=row.attempt,
        last_error=row.last_error,
        refs=row.refs,
    )


def _shard_view(row: ShardRow) -> ShardView:
    return ShardView(
        shard=row.shard,
        slot=row.slot,
        slot_owner=row.slot_owner if row.slot_held else None,
        slot_epoch=Epoch(row.slot_epoch),
        seen_epoch=Epoch(row.seen_epoch),
        seen_generation=row.seen_generation,
        phase=Phase(row.phase),
        lag_ms=row.lag_ms,
        caught_up_reports=row.caught_up_reports,
        progress=row.progress,
        backfill=row.backfill,
        reported_at=row.reported_at,
    )


def _commit_view(row: ListedCommitRow, assets: tuple[AssetView, ...]) -> CommitView:
    return CommitView(
        commit_id=row.commit_id,
        tenant_id=row.tenant_id,
        branch_id=row.branch_id,
        kind=row.kind,
        idempotency_key=row.idempotency_key,
        state=CommitState(row.state),
        actor=row.actor,
        message=row.message,
        base_seq=row.base_seq,
        parent_commit_id=row.parent_commit_id,
        manifest_id=row.manifest_id,
        bundle_sha256=row.bundle_sha256,
        signature=row.signature,
        plan=row.plan,
        plan_sha256=row.plan_sha256,
        expected_plan_sha256=row.expected_plan_sha256,
        backfill=BackfillPolicy(row.backfill_policy),
        promotion_policy=PromotionPolicy(row.promotion_policy),
        promotion=PromotionState(row.promotion_state) if row.promotion_state else None,
        request=row.request,
        fence=Fence(row.fence),
        owner=row.owner,
        lease_expires_at=row.lease_expires_at,
        deadline=row.deadline,
        past_deadline=row.past_deadline,
        cancel_requested_at=row.cancel_requested_at,
        seq=row.seq,
        error=row.error,
        accepted_at=row.accepted_at,
        committed_at=row.committed_at,
        finished_at=row.finished_at,
        assets=assets,
    )

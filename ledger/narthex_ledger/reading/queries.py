"""Read the ledger for people, readers and engines, without locks."""

from collections.abc import Collection, Iterable, Sequence
from graphlib import TopologicalSorter
from uuid import UUID

from sqlalchemy.engine import Connection

from narthex._ir import AssetKind, AssetRef, ResolvedAsset
from narthex_ledger.db.statements import assets as on_assets
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import reading as on_reading
from narthex_ledger.errors import NotFound
from narthex_ledger.model.rows import (
    BranchRow,
    CreatedAssetRow,
    ListedBranchRow,
    ListedCommitRow,
    NeededAssetRow,
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
    AssetView,
    BranchId,
    BranchView,
    CommitView,
    Epoch,
    Fence,
    HolderView,
    JobView,
    ManifestView,
    RetainedAssetView,
    ShardView,
    TenantId,
)
from narthex_ledger.reading.resolved_assets import plans_of, resolve
from narthex_ledger.signing.row_checks import UNCHECKED, Checker


def commit(connection: Connection, commit_id: UUID) -> CommitView:
    """Read a commit with its assets in dependency order."""
    row = on_reading.commit_row(connection, commit_id)
    if row is None:
        raise NotFound(f"there is no commit {commit_id}")
    assets = _assets(connection, row.manifest_id) if row.manifest_id else ()
    return _commit_view(row, assets)


def commits(
    connection: Connection, limit: int, branch_id: BranchId | None
) -> tuple[CommitView, ...]:
    """List commits, the newest first, without their assets."""
    rows = on_reading.commit_rows(connection, limit, branch_id)
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


def manifest(connection: Connection, manifest_id: UUID, checker: Checker) -> ManifestView:
    """Read a manifest with every asset resolved, and checked."""
    row = on_reading.manifest_row(connection, manifest_id)
    if row is None:
        raise NotFound(f"there is no manifest {manifest_id}")
    bindings = _bindings(connection, manifest_id, checker)
    checker.manifest(row, [(path, asset.physical_name) for path, asset in bindings.items()])
    return ManifestView(
        manifest_id=manifest_id,
        tenant_id=row.tenant_id,
        bundle_sha256=row.bundle_sha256,
        content_sha256=row.content_sha256,
        plans=plans_of(row.content["datasets"]),
        content=row.content["content"],
        bindings=bindings,
    )


def bindings_of(connection: Connection, commit_id: UUID | None) -> dict[str, ResolvedAsset]:
    """Read a commit's bindings by path, for display; empty without a commit."""
    if commit_id is None:
        return {}
    manifest_id = on_commits.read_commit(connection, commit_id).manifest_id
    return {} if manifest_id is None else _bindings(connection, manifest_id, UNCHECKED)


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


def jobs(connection: Connection, checker: Checker) -> tuple[JobView, ...]:
    """Read every job of a live or retiring asset, with its shards."""
    rows = on_reading.job_rows(connection)
    resolved = resolve(connection, rows, checker=checker)
    shards: dict[int, tuple[ShardView, ...]] = {}
    for row in on_reading.shard_rows(connection):
        shards[row.asset_id] = (*shards.get(row.asset_id, ()), _shard_view(row))
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


def due_backfills(connection: Connection, commit_id: UUID, checker: Checker) -> tuple[JobView, ...]:
    """Read the jobs of a commit that owe a backfill."""
    bound = {asset.asset_id for asset in commit(connection, commit_id).assets}
    return tuple(
        job
        for job in jobs(connection, checker)
        if job.asset.asset_id in bound and job.owes_backfill
    )


def _bindings(
    connection: Connection, manifest_id: UUID, checker: Checker
) -> dict[str, ResolvedAsset]:
    rows = on_reading.binding_rows(connection, manifest_id)
    unique = {row.asset_id: row for row in rows}.values()
    resolved = resolve(connection, unique, checker=checker)
    return {row.logical_path: resolved[row.asset_id] for row in rows}


def _assets(connection: Connection, manifest_id: UUID) -> tuple[AssetView, ...]:
    rows = on_reading.asset_rows(connection, manifest_id)
    needs = on_assets.needs_of(connection, [row.asset_id for row in rows])
    views = {row.asset_id: _asset_view(row, needs) for row in rows}
    order = TopologicalSorter({asset_id: view.needs for asset_id, view in views.items()})
    return tuple(views[asset_id] for asset_id in order.static_order())


def _asset_view(row: CreatedAssetRow, needs: Iterable[NeededAssetRow]) -> AssetView:
    mine = {need.needs_asset_id for need in needs if need.asset_id == row.asset_id}
    return AssetView(
        asset_id=row.asset_id,
        kind=AssetKind(row.kind),
        fingerprint=row.fingerprint,
        incarnation=row.incarnation,
        physical_name=row.physical_name,
        state=AssetState(row.state),
        external_id=row.external_id,
        paths=tuple(row.paths or ()),
        needs=tuple(sorted(mine)),
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

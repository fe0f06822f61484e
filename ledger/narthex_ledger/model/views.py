"""The ledger's input and output values: frozen values, never rows."""

import datetime as dt
from typing import NewType, TypeAlias
from uuid import UUID

import attrs

from narthex._base import Json
from narthex._ir import AssetKind, DatasetPlan, ResolvedAsset
from narthex_ledger.model.states import (
    AssetState,
    BackfillPolicy,
    CommitKind,
    CommitState,
    CreateStatus,
    Desired,
    Phase,
    PromotionPolicy,
    PromotionState,
)

TenantId = NewType("TenantId", int)
"""A customer of an installation; currently there is one."""

BranchId = NewType("BranchId", int)
"""A branch of a tenant; a deleted branch keeps its id permanently."""

Fence = NewType("Fence", int)
"""Grows whenever a commit or a destruction changes its owner; a smaller fence is refused."""

Epoch = NewType("Epoch", int)
"""The fence token of a slot, of a job's backfill or of an offline query."""


@attrs.frozen(kw_only=True)
class Rules:
    """The configurable time spans and limits of an installation, with the documented defaults."""

    commit_lease_s: float = 30.0
    slot_lease_s: float = 15.0
    backfill_lease_s: float = 60.0
    driver_wait_s: float = 30.0
    destroy_lease_s: float = 60.0
    offline_lease_s: float = 60.0
    alert_lease_s: float = 60.0
    lineage_lease_s: float = 60.0
    offline_kept: dt.timedelta = dt.timedelta(days=7)
    engine_alive_s: float = 15.0
    history_hot: dt.timedelta = dt.timedelta(hours=1)
    history_cold: dt.timedelta = dt.timedelta(days=7)
    grace: dt.timedelta = dt.timedelta(seconds=30)
    quiesce_margin: dt.timedelta = dt.timedelta(seconds=5)
    registry_settle: dt.timedelta = dt.timedelta(seconds=30)
    undelete_window: dt.timedelta = dt.timedelta(hours=24)
    audit_apart_s: float = 50.0
    slot_space: str = "default"
    caught_up_reports: int = 2
    most_branches_each: int = 500
    most_queued_each: int = 100


@attrs.frozen(kw_only=True)
class CommitRequest:
    """A requested change of a branch.

    Attributes:
        request_sha256: Hash of the whole request; the same key with another hash is refused.
        bundle: The definitions' source and lock, stored by content.
        deadline_s: How long to keep trying before the commit point.
        expected_plan_sha256: The plan that was previewed; another one is rejected.
        base_seq: The head that the author saw; None plans on the current head.
        request: The data that the server needs to resume after a crash; opaque to the ledger.
    """

    commit_id: UUID
    tenant: TenantId
    branch: BranchId
    idempotency_key: str
    request_sha256: bytes
    actor: str
    bundle: bytes
    message: str = ""
    deadline_s: float = 300.0
    expected_plan_sha256: bytes | None = None
    base_seq: int | None = None
    backfill: BackfillPolicy = BackfillPolicy.ALLOWED
    promotion: PromotionPolicy = PromotionPolicy.WHEN_READY
    request: Json = None
    kind: CommitKind = CommitKind.DEPLOY


@attrs.frozen(kw_only=True)
class BranchRequest:
    """A change of a branch as a whole: created, cloned, deleted, restored or rolled back.

    Attributes:
        commit_id: The commit that records it.
        request_sha256: Hash of the whole request; the same key with another hash is refused.
        promotion: When readers flip to its bindings, if they do not read them already.
        request: The data that the server needs to resume after a crash; opaque to the ledger.
    """

    commit_id: UUID
    tenant: TenantId
    name: str
    idempotency_key: str
    request_sha256: bytes
    actor: str
    message: str = ""
    promotion: PromotionPolicy = PromotionPolicy.WHEN_READY
    request: Json = None


@attrs.frozen(kw_only=True)
class Accepted:
    """The request is queued as this commit."""

    commit_id: UUID


@attrs.frozen(kw_only=True)
class Replayed:
    """The same request arrived before; this is its commit."""

    commit_id: UUID
    state: CommitState


@attrs.frozen(kw_only=True)
class Go:
    """The intent is recorded: call the store, probe it, then call `created`."""

    asset: ResolvedAsset
    attempt: int


@attrs.frozen(kw_only=True)
class AlreadyLive:
    """Nothing to do: the asset exists."""

    asset_id: int
    external_id: str


@attrs.frozen(kw_only=True)
class Waiting:
    """Not now: its needs are not live, or another commit is creating it; retry later."""

    asset_id: int
    needs: tuple[int, ...] = ()
    owner_commit_id: UUID | None = None


IntentOutcome: TypeAlias = Go | AlreadyLive | Waiting


@attrs.frozen(kw_only=True)
class AssetView:
    """An asset of a commit, with its states."""

    asset_id: int
    kind: AssetKind
    fingerprint: bytes
    incarnation: int
    physical_name: str
    state: AssetState
    external_id: str | None
    paths: tuple[str, ...]
    needs: tuple[int, ...]
    owner_commit_id: UUID
    create_status: CreateStatus
    attempt: int
    last_error: Json
    refs: int

    @property
    def label(self) -> str:
        """A short name for people: its first logical path."""
        return self.paths[0] if self.paths else self.physical_name


@attrs.frozen(kw_only=True)
class HolderView:
    """A commit, branch or query that retains an asset.

    Attributes:
        branch: Empty if no branch retains it but, for example, an offline query.
        holder: The role of the commit on the branch: `head`, `serving`, `inflight`, `history` …
        expires_at: When this holder expires; None without an expiry.
    """

    branch: str
    holder: str
    commit_id: UUID | None
    expires_at: dt.datetime | None


@attrs.frozen(kw_only=True)
class RetainedAssetView:
    """An asset and all its holders.

    Attributes:
        paths: The names that manifests bind to it.
        refs: The number of pins that hold it.
    """

    asset_id: int
    kind: AssetKind
    fingerprint: bytes
    incarnation: int
    physical_name: str
    state: AssetState
    paths: tuple[str, ...]
    refs: int
    live_at: dt.datetime | None
    held_by: tuple[HolderView, ...]


@attrs.frozen(kw_only=True)
class CommitView:
    """The current state of a commit; `plan` is a plain `CommitPlan`, `assets` is empty in lists."""

    commit_id: UUID
    tenant_id: TenantId
    branch_id: BranchId
    kind: str
    idempotency_key: str
    state: CommitState
    actor: str
    message: str
    base_seq: int
    parent_commit_id: UUID | None
    manifest_id: UUID | None
    bundle_sha256: bytes
    signature: bytes | None
    plan: Json
    plan_sha256: bytes | None
    expected_plan_sha256: bytes | None
    backfill: BackfillPolicy
    promotion_policy: PromotionPolicy
    promotion: PromotionState | None
    request: Json
    fence: Fence
    owner: str | None
    lease_expires_at: dt.datetime | None
    deadline: dt.datetime
    past_deadline: bool
    cancel_requested_at: dt.datetime | None
    seq: int | None
    error: Json
    accepted_at: dt.datetime
    committed_at: dt.datetime | None
    finished_at: dt.datetime | None
    assets: tuple[AssetView, ...] = ()


@attrs.frozen(kw_only=True)
class BranchView:
    """A branch and its two pointers.

    Attributes:
        is_protected: Whether a person must approve each promotion.
        undelete_until: Until when a deleted branch can be restored; None for an active one.
    """

    branch_id: BranchId
    tenant_id: TenantId
    name: str
    is_main: bool
    state: str
    head_commit_id: UUID | None
    serving_commit_id: UUID | None
    head_seq: int
    serving_seq: int
    is_protected: bool = False
    undelete_until: dt.datetime | None = None


@attrs.frozen(kw_only=True)
class ManifestView:
    """The assets that one commit binds to its paths; it never changes, so it can be cached.

    Attributes:
        content: The content that the server passed to `plan`.
        bindings: Logical path to asset.
    """

    manifest_id: UUID
    tenant_id: TenantId
    bundle_sha256: bytes
    content_sha256: bytes
    plans: tuple[DatasetPlan, ...]
    content: Json
    bindings: dict[str, ResolvedAsset]


@attrs.frozen(kw_only=True)
class RolledBack:
    """The result of a rollback.

    Attributes:
        manifest_id: The redeployed manifest; None for a branch that deploys nothing any more.
        is_served: Whether readers read it already; if not, its jobs have to catch up first.
    """

    commit_id: UUID
    seq: int
    manifest_id: UUID | None
    is_served: bool


@attrs.frozen(kw_only=True)
class ApprovalView:
    """Whether a commit's promotion requires approval, who approved or rejected it, and when.

    Attributes:
        rejection: The event of a person's rejection; its detail has the `reason`.
    """

    is_needed: bool
    approved_by: str | None
    approved_at: dt.datetime | None
    rejection: "EventView | None" = None


@attrs.frozen(kw_only=True)
class ServingView:
    """The commit that readers of a branch see now."""

    commit_id: UUID
    serving_seq: int
    manifest: ManifestView


@attrs.frozen(kw_only=True)
class ShardView:
    """A shard of a job as last reported, and the slot that it belongs to.

    Attributes:
        slot_epoch: The slot's current epoch; `seen_epoch` is the reporter's.
        progress: The progress that the live run reported.
        backfill: The progress that the bounded run reported, and its end offsets once it is done.
    """

    shard: int
    slot: int
    slot_owner: str | None
    slot_epoch: Epoch
    seen_epoch: Epoch
    seen_generation: int
    phase: Phase
    lag_ms: int | None
    caught_up_reports: int
    progress: Json
    backfill: Json
    reported_at: dt.datetime | None


@attrs.frozen(kw_only=True)
class JobView:
    """A job with its desired state.

    Attributes:
        generation: Grows with each change of the desired state.
        needs_backfill: Whether a bounded run is due before the live one.
    """

    asset: ResolvedAsset
    slot_space: str
    desired: Desired
    generation: int
    spec_sha256: bytes
    checkpoint_incarnation: int
    needs_backfill: bool
    backfilled_at: dt.datetime | None
    backfill_owner: str | None
    backfill_epoch: Epoch
    shards: tuple[ShardView, ...]

    @property
    def owes_backfill(self) -> bool:
        """Whether a bounded run is due now."""
        return self.needs_backfill and self.backfilled_at is None


@attrs.frozen(kw_only=True)
class SlotLease:
    """A leased slot, with the epoch that proves the lease."""

    slot: int
    epoch: Epoch


@attrs.frozen(kw_only=True)
class SlotView:
    """The current state of a slot; `owner` is None when it is free."""

    slot: int
    epoch: Epoch
    owner: str | None


NEVER_READ = -1
"""A registry version before all others: every job changed since."""


@attrs.frozen(kw_only=True)
class JobChanges:
    """The jobs of some slots that changed after a registry version.

    Attributes:
        version: The registry version that includes these changes; ask for later ones with it.
        changed: The jobs that changed, as they are now.
        existing: The ids of all jobs of the slots: others no longer exist.
    """

    version: int
    changed: tuple[JobView, ...]
    existing: frozenset[int]


@attrs.frozen(kw_only=True)
class ShardReport:
    """A supervisor's report on one shard; `epoch` is that of its slot."""

    asset_id: int
    generation: int
    epoch: Epoch
    phase: Phase
    shard: int = 0
    lag_ms: int | None = None
    progress: Json = None


@attrs.frozen(kw_only=True)
class JobEvidence:
    """The evidence that one job is ready; stale as soon as any of it changes."""

    asset_id: int
    generation: int
    spec_sha256: bytes
    epochs: tuple[Epoch, ...]
    backfilled: bool


@attrs.frozen(kw_only=True)
class WaitingJob:
    """A job that is not ready yet, and why.

    Attributes:
        error: Why its last backfill failed; the backfill is retried.
    """

    asset_id: int
    kind: AssetKind
    label: str
    phase: Phase
    lag_ms: int | None
    why: str
    error: str | None = None


@attrs.frozen(kw_only=True)
class Readiness:
    """Whether all jobs of a commit have caught up; pass `evidence` to `promote`."""

    waiting_for: tuple[WaitingJob, ...]
    evidence: tuple[JobEvidence, ...]

    @property
    def ready(self) -> bool:
        """Whether no job is pending."""
        return not self.waiting_for


@attrs.frozen(kw_only=True)
class DestroyOrder:
    """The asset is `destroying` and this caller holds the destruction, with its fence."""

    asset_id: int
    kind: AssetKind
    physical_name: str
    external_id: str | None
    fence: Fence


@attrs.frozen(kw_only=True)
class NotNow:
    """Why the asset may not be destroyed now; retry later, unless it was resurrected."""

    asset_id: int
    why: str


@attrs.frozen(kw_only=True)
class EventView:
    """A transition that happened; events are never changed."""

    event_id: int
    at: dt.datetime
    commit_id: UUID | None
    asset_id: int | None
    actor: str
    fence: int | None
    transition: str
    detail: Json

"""What callers give the ledger and get from it: frozen values, never rows."""

import datetime as dt
from typing import NewType, TypeAlias
from uuid import UUID

import attrs

from narthex._base import Json
from narthex._ir import AssetKind, DatasetPlan, ResolvedAsset
from narthex_ledger.model.states import (
    AssetState,
    BackfillPolicy,
    CommitState,
    CreateStatus,
    Desired,
    OfflineState,
    Phase,
    PromotionPolicy,
    PromotionState,
)

TenantId = NewType("TenantId", int)
"""A customer of an installation; there is one at first."""

BranchId = NewType("BranchId", int)
"""A branch of a tenant; a deleted branch keeps its id for ever."""

Fence = NewType("Fence", int)
"""Grows each time a commit (or a destruction) changes hands; a smaller one is refused."""

Epoch = NewType("Epoch", int)
"""The fence token of a slot, of a job's backfill or of an offline query."""


@attrs.frozen(kw_only=True)
class Rules:
    """The spans and numbers of an installation; the defaults are the documented ones."""

    commit_lease_s: float = 30.0
    slot_lease_s: float = 15.0
    backfill_lease_s: float = 60.0
    destroy_lease_s: float = 60.0
    offline_lease_s: float = 60.0
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


@attrs.frozen(kw_only=True)
class CommitRequest:
    """A change of a branch that somebody asks for.

    Attributes:
        request_sha256: Of all that was asked; the same key with another hash is refused.
        bundle: The definitions' source and lock, stored by content.
        deadline_s: Before the commit point, how long to go on trying.
        expected_plan_sha256: The plan that was previewed; another one is rejected.
        base_seq: The head that the author saw; None plans on whatever head there is.
        request: What the server needs to go on after a crash; the ledger never reads it.
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


@attrs.frozen(kw_only=True)
class BranchRequest:
    """A change of a branch as a whole: made, cloned, deleted, brought back or rolled back.

    Attributes:
        commit_id: The commit that records it.
        request_sha256: Of all that was asked; the same key with another hash is refused.
        promotion: When readers flip to what it binds, if they do not read it already.
        request: What the server needs to go on after a crash; the ledger never reads it.
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
    """The same request came before; this is its commit."""

    commit_id: UUID
    state: CommitState


@attrs.frozen(kw_only=True)
class Go:
    """The intent is written: call the store, probe it, then tell `created`."""

    asset: ResolvedAsset
    attempt: int


@attrs.frozen(kw_only=True)
class AlreadyLive:
    """Nothing to do: the asset is there."""

    asset_id: int
    external_id: str


@attrs.frozen(kw_only=True)
class Waiting:
    """Not now: its needs are not live, or another commit is creating it. Ask again."""

    asset_id: int
    needs: tuple[int, ...] = ()
    owner_commit_id: UUID | None = None


IntentOutcome: TypeAlias = Go | AlreadyLive | Waiting


@attrs.frozen(kw_only=True)
class AssetView:
    """An asset of a commit, with where it is."""

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
    """Why an asset is kept.

    Attributes:
        branch: Empty where no branch holds it, but for instance an offline query.
        holder: What the commit is to the branch: `head`, `serving`, `inflight`, `history` …
        expires_at: Until when it is kept for this; None while nothing ends it.
    """

    branch: str
    holder: str
    commit_id: UUID | None
    expires_at: dt.datetime | None


@attrs.frozen(kw_only=True)
class RetainedAssetView:
    """An asset and all that retain it.

    Attributes:
        paths: The names that manifests bind to it.
        refs: How many pins hold it.
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
    """A commit as it is now. `plan` is a plain `CommitPlan`; `assets` is empty in lists."""

    commit_id: UUID
    tenant_id: TenantId
    branch_id: BranchId
    kind: str
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
        is_protected: A person approves each promotion.
        undelete_until: Until when a deleted branch can be brought back; None for an active one.
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
    """What one commit binds to its names; never changes, so keep it as long as you like.

    Attributes:
        content: What the server gave when it planned.
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
    """What a rollback came to.

    Attributes:
        manifest_id: What is deployed again; None for a branch that deploys nothing any more.
        is_served: Whether readers read it already; if not, its jobs have to catch up first.
    """

    commit_id: UUID
    seq: int
    manifest_id: UUID | None
    is_served: bool


@attrs.frozen(kw_only=True)
class ApprovalView:
    """Whether a person has to let a commit's readers flip, and who did, and when."""

    is_needed: bool
    approved_by: str | None
    approved_at: dt.datetime | None


@attrs.frozen(kw_only=True)
class ServingView:
    """What readers of a branch see now."""

    commit_id: UUID
    serving_seq: int
    manifest: ManifestView


@attrs.frozen(kw_only=True)
class ShardView:
    """A shard of a job as last reported, and the slot that it belongs to.

    Attributes:
        slot_epoch: The slot's epoch now; `seen_epoch` is the reporter's.
        progress: The live run's own words.
        backfill: The bounded run's own words, and its end offsets once it is done.
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
    """A job that should be in some state.

    Attributes:
        generation: Grows with each change of what is desired.
        needs_backfill: A bounded run is due before the live one.
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


@attrs.frozen(kw_only=True)
class SlotLease:
    """A slot that is held, with the epoch that proves it."""

    slot: int
    epoch: Epoch


@attrs.frozen(kw_only=True)
class SlotView:
    """A slot as it stands; `owner` is None when nobody holds it now."""

    slot: int
    epoch: Epoch
    owner: str | None


@attrs.frozen(kw_only=True)
class ShardReport:
    """What a supervisor saw of one shard. `epoch` is that of its slot."""

    asset_id: int
    generation: int
    epoch: Epoch
    phase: Phase
    shard: int = 0
    lag_ms: int | None = None
    progress: Json = None


@attrs.frozen(kw_only=True)
class JobEvidence:
    """Why one job counts as ready; stale as soon as any of it changes."""

    asset_id: int
    generation: int
    spec_sha256: bytes
    epochs: tuple[Epoch, ...]
    backfilled: bool


@attrs.frozen(kw_only=True)
class WaitingJob:
    """A job that is not ready yet, and why.

    Attributes:
        error: Why its backfill failed the last time; it is tried again.
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
    """Whether all jobs of a commit have caught up; give `evidence` to `promote`."""

    waiting_for: tuple[WaitingJob, ...]
    evidence: tuple[JobEvidence, ...]

    @property
    def ready(self) -> bool:
        """Nothing is waited for."""
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
    """The asset may not be destroyed now, and why; ask again later, or never if resurrected."""

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


@attrs.frozen(kw_only=True)
class OfflineView:
    """An offline query; `epoch` is the fence of the engine that runs it."""

    request_id: UUID
    state: OfflineState
    manifest_id: UUID
    actor: str
    request: Json
    progress: Json
    result: Json
    error: Json
    owner: str | None
    epoch: Epoch
    submitted_at: dt.datetime
    finished_at: dt.datetime | None

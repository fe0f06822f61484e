"""Rows of the database as values; each class has the columns that code reads."""

import datetime as dt
from uuid import UUID

import attrs

from narthex._base import Json
from narthex_ledger.errors import WrongState
from narthex_ledger.model.views import BranchId, TenantId


@attrs.frozen(kw_only=True)
class BranchRow:
    """A branch."""

    branch_id: BranchId
    tenant_id: TenantId
    name: str
    is_main: bool
    state: str
    head_commit_id: UUID | None
    serving_commit_id: UUID | None
    head_seq: int
    serving_seq: int
    is_protected: bool


@attrs.frozen(kw_only=True)
class ListedBranchRow(BranchRow):
    """A branch, and the time until which it can be restored if it is deleted."""

    undelete_until: dt.datetime | None


@attrs.frozen(kw_only=True)
class BundleRow:
    """A bundle.

    Attributes:
        content: Begins with the signature of the key that it was made with.
        signature: That of a later key, if the signing key was rotated.
    """

    sha256: bytes
    content: bytes = attrs.field(converter=bytes)
    signature: bytes | None


@attrs.frozen(kw_only=True)
class ManifestRow:
    """A manifest, without its bindings."""

    manifest_id: UUID
    tenant_id: TenantId
    content_sha256: bytes
    bundle_sha256: bytes
    signature: bytes | None
    content: dict[str, Json]


@attrs.frozen(kw_only=True)
class CommitRow:
    """A commit without its plan and request, which grow with the commit's assets."""

    commit_id: UUID
    tenant_id: TenantId
    branch_id: BranchId
    kind: str
    idempotency_key: str
    request_sha256: bytes
    bundle_sha256: bytes
    signature: bytes | None
    actor: str
    message: str
    base_seq: int
    base_pinned: bool
    backfill_policy: str
    promotion_policy: str
    parent_commit_id: UUID | None
    manifest_id: UUID | None
    plan_sha256: bytes | None
    expected_plan_sha256: bytes | None
    state: str
    fence: int
    owner: str | None
    lease_expires_at: dt.datetime | None
    deadline: dt.datetime
    cancel_requested_at: dt.datetime | None
    seq: int | None
    error: Json
    accepted_at: dt.datetime
    committed_at: dt.datetime | None
    finished_at: dt.datetime | None

    @property
    def planned_manifest_id(self) -> UUID:
        """The manifest of a commit that has been planned."""
        if self.manifest_id is None:
            raise WrongState(f"commit `{self.commit_id}` has no manifest; it is {self.state}")
        return self.manifest_id

    @property
    def committed_seq(self) -> int:
        """The number on its branch of a commit that has passed its commit point."""
        if self.seq is None:
            raise WrongState(f"commit `{self.commit_id}` is not committed; it is {self.state}")
        return self.seq


@attrs.frozen(kw_only=True)
class ListedCommitRow(CommitRow):
    """A commit with its plan, its request and its promotion."""

    request: Json
    plan: Json
    past_deadline: bool
    promotion_state: str | None


@attrs.frozen(kw_only=True)
class HeadRow:
    """A commit's signature as the head of its branch."""

    commit_id: UUID
    manifest_id: UUID
    head_signature: bytes | None


@attrs.frozen(kw_only=True)
class ServingRow:
    """The commit that a branch serves."""

    commit_id: UUID
    manifest_id: UUID
    serving_seq: int


@attrs.frozen(kw_only=True)
class NamedAssetRow:
    """An asset's fingerprint and physical name."""

    kind: str
    fingerprint: bytes
    physical_name: str


@attrs.frozen(kw_only=True)
class BoundNameRow(NamedAssetRow):
    """An asset at a path of a manifest, without its spec."""

    asset_id: int
    logical_path: str


@attrs.frozen(kw_only=True)
class SignedAssetRow(NamedAssetRow):
    """An asset with its signed spec."""

    asset_id: int
    tenant_id: TenantId
    spec: dict[str, Json]
    signature: bytes | None
    state: str


@attrs.frozen(kw_only=True)
class NeededAssetRow(SignedAssetRow):
    """An asset that the asset `asset_id` needs."""

    needs_asset_id: int
    role: str


@attrs.frozen(kw_only=True)
class AssetRow(SignedAssetRow):
    """An asset."""

    incarnation: int
    spec_sha256: bytes
    needs_signature: bytes | None
    external_id: str | None
    live_at: dt.datetime | None


@attrs.frozen(kw_only=True)
class SuccessorRow(AssetRow):
    """An asset that takes the place of the obsolete asset `old_id`."""

    old_id: int
    filled_from: int | None


@attrs.frozen(kw_only=True)
class BoundAssetRow(AssetRow):
    """An asset at a path of a manifest."""

    logical_path: str


@attrs.frozen(kw_only=True)
class RetainedAssetRow(AssetRow):
    """An asset with its paths and the number of pins that reach it."""

    paths: list[str] | None
    refs: int


@attrs.frozen(kw_only=True)
class CreatedAssetRow(RetainedAssetRow):
    """An asset with its entry in the ledger of creations."""

    owner_commit_id: UUID
    status: str
    attempt: int
    last_error: Json


@attrs.frozen(kw_only=True)
class JobAssetRow(AssetRow):
    """An asset that is a job, with the job."""

    slot_space: str
    desired: str
    generation: int
    checkpoint_incarnation: int
    needs_backfill: bool
    backfilled_at: dt.datetime | None
    backfill_owner: str | None
    backfill_epoch: int


@attrs.frozen(kw_only=True)
class PathRow:
    """An asset's path."""

    asset_id: int
    logical_path: str


@attrs.frozen(kw_only=True)
class BinderRow:
    """A branch that has bound a path."""

    logical_path: str
    name: str


@attrs.frozen(kw_only=True)
class HolderRow:
    """A pin that reaches an asset."""

    asset_id: int
    name: str | None
    holder: str
    commit_id: UUID
    expires_at: dt.datetime | None


@attrs.frozen(kw_only=True)
class PinRow:
    """A pin."""

    pin_id: int
    manifest_id: UUID
    branch_id: BranchId
    holder: str
    commit_id: UUID


@attrs.frozen(kw_only=True)
class CreationRow:
    """An entry in the ledger of creations."""

    asset_id: int
    owner_commit_id: UUID
    status: str
    attempt: int


@attrs.frozen(kw_only=True)
class DestructionRow:
    """An entry in the ledger of destructions, compared to the clock."""

    attempt: int
    fence: int
    owner: str | None
    due: bool
    held: bool


@attrs.frozen(kw_only=True)
class JobRow:
    """A job, and whether a bounded run holds it."""

    asset_id: int
    shard_count: int
    desired: str
    generation: int
    spec_sha256: bytes
    needs_backfill: bool
    backfilled_at: dt.datetime | None
    backfill_owner: str | None
    backfill_epoch: int
    backfill_held: bool


@attrs.frozen(kw_only=True)
class DriverBackfillRow:
    """A backfill that a running driver should carry out, compared to the clock."""

    commit_id: UUID
    state: str
    owner: str | None
    error: str | None
    is_current: bool


@attrs.frozen(kw_only=True)
class BoundJobRow(JobRow):
    """A job of a manifest, with its asset."""

    kind: str
    physical_name: str
    spec: dict[str, Json]


@attrs.frozen(kw_only=True)
class ShardRow:
    """A shard of a job with its slot."""

    asset_id: int
    shard: int
    slot: int
    seen_generation: int
    seen_epoch: int
    phase: str
    caught_up_reports: int
    lag_ms: int | None
    progress: Json
    backfill: dict[str, Json] | None
    reported_at: dt.datetime | None
    slot_owner: str | None
    slot_epoch: int
    slot_held: bool


@attrs.frozen(kw_only=True)
class PromotionRow:
    """A commit's promotion."""

    policy: str
    state: str
    approved_by: str | None
    approved_at: dt.datetime | None


@attrs.frozen(kw_only=True)
class TokenRow:
    """A token's hash and rights."""

    token_sha256: bytes
    token_id: str
    name: str
    scopes: list[str]
    branches: list[str]
    tags: list[str]
    expires_at: dt.datetime | None
    created_by: str
    created_at: dt.datetime
    last_used_at: dt.datetime | None
    revoked_at: dt.datetime | None
    signature: bytes | None


@attrs.frozen(kw_only=True)
class LockedTokenRow(TokenRow):
    """A token that the transaction has locked, and the time."""

    now: dt.datetime


@attrs.frozen(kw_only=True)
class ChainEndRow:
    """The end of the control log, and the time."""

    number: int
    sha256: bytes
    now: dt.datetime


@attrs.frozen(kw_only=True)
class EntryRow:
    """An entry of the control log."""

    number: int
    at: dt.datetime
    entry: Json
    sha256: bytes
    signature: bytes | None


@attrs.frozen(kw_only=True)
class CallRow:
    """A webhook call."""

    digest: bytes
    from_offset: int
    at_partition: int | None
    at_offset: int | None
    is_appending: bool


@attrs.frozen(kw_only=True)
class OfflineQueryRow:
    """An offline query."""

    request_id: UUID
    state: str
    manifest_id: UUID
    pin_id: int | None
    actor: str
    request: Json
    signature: bytes | None
    progress: Json
    result: Json
    error: Json
    owner: str | None
    epoch: int
    submitted_at: dt.datetime
    finished_at: dt.datetime | None

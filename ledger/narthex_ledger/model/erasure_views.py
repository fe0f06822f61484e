"""Erasures as the ledger returns them."""

import datetime as dt
from collections.abc import Iterable
from uuid import UUID

import attrs

from narthex._base import Json
from narthex._ir import AssetKind, AssetSpec, SinkJobSpec
from narthex_ledger.model.states import AssetState, ErasureState
from narthex_ledger.model.views import BranchId, TenantId


@attrs.frozen(kw_only=True)
class BlockedSource:
    """How a row of an endpoint becomes a row of a dataset with blocked keys.

    Attributes:
        endpoint: The webhook and its endpoint, `webhook/endpoint`.
        form: What the server needs to find the keys of a row; opaque to the ledger.
    """

    endpoint: str
    dataset: str
    form: Json


@attrs.frozen(kw_only=True)
class ErasureRequest:
    """A requested erasure.

    Attributes:
        branch: The branch whose definitions named the keys.
        fields: The names of the erase keys, in the order of the dataset's fields.
        request_sha256: The keyed hash of the whole request; the same id with another is refused.
        digests: The keyed digests of the keys, which are blocked from now on.
        sealed: The values of the keys, sealed with a key outside the database.
        sources: How rows of endpoints become rows of the dataset, on all branches.
        leave_sinks: The targets of sinks from which nothing is deleted.
    """

    erasure_id: UUID
    tenant: TenantId
    branch: str
    dataset: str
    fields: tuple[str, ...]
    actor: str
    request_sha256: bytes
    digests: tuple[bytes, ...]
    sealed: Json
    sources: tuple[BlockedSource, ...]
    leave_sinks: tuple[str, ...] = ()


def _digests(found: Iterable[bytes]) -> tuple[bytes, ...]:
    return tuple(map(bytes, found))


@attrs.frozen(kw_only=True)
class ErasureView:
    """An erasure.

    Attributes:
        waits_for: What the next step waits for, for people; empty if it waits for nothing.
        sealed: The sealed values of the keys; None once the certificate exists.
        leave_sinks: The targets of sinks from which nothing is deleted.
        sinks: What was seen of the deletions in the other targets; None before.
        certificate: The certificate; None before the end.
        signature: The installation's signature of the certificate.
    """

    erasure_id: UUID
    tenant_id: TenantId
    branch: str
    dataset: str
    fields: tuple[str, ...] = attrs.field(converter=tuple)
    actor: str
    state: ErasureState = attrs.field(converter=ErasureState)
    sealed: Json
    digests: tuple[bytes, ...] = attrs.field(converter=_digests)
    leave_sinks: tuple[str, ...] = attrs.field(converter=tuple)
    sinks: Json
    waits_for: str
    certificate: Json
    signature: bytes | None
    requested_at: dt.datetime
    finished_at: dt.datetime | None


@attrs.frozen(kw_only=True)
class ReachedAsset:
    """An asset with rows that are derived from those of a dataset.

    Attributes:
        dataset: The dataset that a job or a feed reads or writes; None for others.
        input: The physical name of the ingest topic that a source job reads; None for others, and
            for a source that reads no endpoint.
    """

    asset_id: int
    kind: AssetKind
    physical_name: str
    state: AssetState
    spec: AssetSpec
    external_id: str | None
    dataset: str | None = None
    input: str | None = None


@attrs.frozen(kw_only=True)
class ObsoleteSink:
    """A sink that wrote rows of obsolete assets.

    Attributes:
        physical_name: The name of its job.
        log: The name of the log that it reads; empty once the job is destroyed.
        new_log: The log that its successor reads; None if it is destroyed, or no branch deploys a
            successor.
    """

    asset_id: int
    physical_name: str
    spec: SinkJobSpec
    log: str
    new_log: str | None


@attrs.frozen(kw_only=True)
class OwedBranch:
    """A branch that deploys obsolete assets.

    Attributes:
        in_flight: A commit in flight on the branch, which will deploy others; None without one.
        is_at_gate: Whether all assets of that commit exist.
    """

    branch_id: BranchId
    name: str
    head_commit_id: UUID
    head_seq: int
    in_flight: UUID | None
    is_at_gate: bool


@attrs.frozen(kw_only=True)
class Successor:
    """An obsolete ingest topic, and the topic that takes its place.

    Attributes:
        new_id: None while no commit has created the topic.
    """

    old_id: int
    old_name: str
    new_id: int | None
    new_name: str | None
    is_filled: bool

"""The inputs and findings of audits: frozen values, never rows."""

import datetime as dt
from uuid import UUID

import attrs

from narthex._base import Json
from narthex._ir import AssetKind, AssetSpec
from narthex_ledger.model.states import AssetState


@attrs.frozen(kw_only=True)
class AuditView:
    """The outcome of one quality audit of a dataset over a span of event time.

    Attributes:
        branch: The branch of the dataset; empty where it was not recorded.
        commit_id: The commit whose quality gate it is; None for an audit of what readers read.
        is_critical: Whether a critical expectation was broken.
        examples: The keys of some rows that break each expectation; None after a while.
    """

    audit_id: UUID
    dataset: str
    from_us: int | None
    to_us: int | None
    result: Json
    success: bool
    branch: str = ""
    at: dt.datetime | None = None
    commit_id: UUID | None = None
    is_critical: bool = False
    examples: Json = None


@attrs.frozen(kw_only=True)
class ValueDiffView:
    """The difference between the values of a dataset that readers read, and those of a commit.

    Attributes:
        result: Counts and causes, or why there are none; no value of a row.
        examples: Some differing values with their keys; None after a while.
    """

    commit_id: UUID
    dataset: str
    result: Json
    examples: Json = None
    at: dt.datetime | None = None


@attrs.frozen(kw_only=True)
class InstallView:
    """The identity of this installation."""

    install_id: str
    timeline: int


@attrs.frozen(kw_only=True)
class InventoryRow:
    """An asset with its expected state in the store."""

    asset_id: int
    kind: AssetKind
    physical_name: str
    state: AssetState
    external_id: str | None
    spec: AssetSpec


@attrs.frozen(kw_only=True)
class Finding:
    """A difference between a store and the ledger, found by a scan.

    Attributes:
        klass: A: an expected asset is missing. B: the ledger has no such asset. C: the asset was
            destroyed. D: the thing under the name is not the expected one.
        external_id: The store's own id of the existing thing; for A, of the expected one.
        what: A description for people.
    """

    klass: str
    kind: AssetKind
    name: str
    external_id: str
    asset_id: int | None = None
    what: str = attrs.field(default="", eq=False)

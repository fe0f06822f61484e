"""What an audit compares, and what it found: frozen values, never rows."""

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
        branch: Whose dataset it is; empty where that was not kept.
    """

    audit_id: UUID
    dataset: str
    from_us: int | None
    to_us: int | None
    result: Json
    success: bool
    branch: str = ""
    at: dt.datetime | None = None


@attrs.frozen(kw_only=True)
class InstallView:
    """The identity of this installation."""

    install_id: str
    timeline: int


@attrs.frozen(kw_only=True)
class InventoryRow:
    """An asset as the ledger thinks that it is outside."""

    asset_id: int
    kind: AssetKind
    physical_name: str
    state: AssetState
    external_id: str | None
    spec: AssetSpec


@attrs.frozen(kw_only=True)
class Finding:
    """What a scan found to be other than the ledger says.

    Attributes:
        klass: A: it should be there and is not. B: nobody knows it. C: it was destroyed.
            D: it is another than it should be.
        external_id: The store's own name of what stands there; what should stand there for A.
        what: For people.
    """

    klass: str
    kind: AssetKind
    name: str
    external_id: str
    asset_id: int | None = None
    what: str = attrs.field(default="", eq=False)

"""How the platform creates, finds and removes physical things: one adapter per kind of asset.

An adapter handles names and specs and never reads the ledger. Each call may be repeated, by two
callers, after a crash; each ends within its timeout, and none retries without bound.
"""

from typing import Protocol, TypeAlias

import attrs

from narthex._ir import AssetKind, AssetSpec


@attrs.frozen
class Absent:
    """Nothing exists under the name.

    A single `Absent` may be stale; callers that act on absence probe twice.
    """


@attrs.frozen
class Match:
    """The existing thing matches the spec."""

    external_id: str


@attrs.frozen
class Mismatch:
    """The existing thing does not match the spec; `difference` describes how, for people."""

    difference: str


@attrs.frozen
class Unknown:
    """The store did not answer; `error` describes why, for people."""

    error: str


Probe: TypeAlias = Absent | Match | Mismatch | Unknown


@attrs.frozen(kw_only=True)
class Listed:
    """One thing found by an inventory.

    Attributes:
        external_id: The store's own id of it; a recreated thing has another one.
        asset_id: The owning asset, where the store can carry the mark.
    """

    name: str
    external_id: str
    asset_id: int | None


class Adapter(Protocol):
    """Creates, finds and removes the physical things of one kind."""

    @property
    def kind(self) -> AssetKind:
        """The kind of asset that the adapter handles."""

    def probe(self, name: str, spec: AssetSpec, *, timeout_s: float) -> Probe:
        """Probe the asset of that name; never change it, and never raise the store's errors."""

    def create(self, name: str, spec: AssetSpec, *, asset_id: int, timeout_s: float) -> None:
        """Create the asset, unless the name is taken; `probe` then shows what is there.

        Something that exists already is never changed.

        Raises:
            TransientError: The asset may or may not exist now.
            PermanentError: The asset cannot be created so.
        """

    def destroy(self, name: str, *, external_id: str | None, timeout_s: float) -> None:
        """Remove the asset; when it is gone already, do nothing.

        With `external_id=None`, anything of ours under the name is removed.

        Raises:
            TransientError: The asset may or may not exist now.
            ForeignAssetError: The name belongs to another thing; it is not destroyed.
        """

    def list(self, prefix: str, *, timeout_s: float) -> tuple[Listed, ...]:
        """List all assets whose names have the prefix, by name; the list is complete.

        Raises:
            TransientError: The store gave no complete list.
        """

"""How the platform makes, finds and removes physical things: one adapter a kind of asset.

An adapter knows names and specs, never the ledger. Each call may come twice, from two callers,
after a crash; each ends within its timeout, and none retries without bound.
"""

from typing import Protocol, TypeAlias

import attrs

from narthex._ir import AssetKind, AssetSpec


@attrs.frozen
class Absent:
    """Nothing stands under the name.

    One `Absent` may be stale; who acts on absence asks twice.
    """


@attrs.frozen
class Match:
    """What stands there is what the spec asks for."""

    external_id: str


@attrs.frozen
class Mismatch:
    """Something else stands there; `difference` says for people in what."""

    difference: str


@attrs.frozen
class Unknown:
    """The store did not say; `error` says for people why."""

    error: str


Probe: TypeAlias = Absent | Match | Mismatch | Unknown


@attrs.frozen(kw_only=True)
class Listed:
    """One thing that an inventory found.

    Attributes:
        external_id: What the store itself calls it; a thing made anew has another.
        asset_id: Whose it is, where the store can carry the mark.
    """

    name: str
    external_id: str
    asset_id: int | None


class Adapter(Protocol):
    """Makes, finds and removes the things of one kind."""

    @property
    def kind(self) -> AssetKind:
        """The kind of asset that it is for."""

    def probe(self, name: str, spec: AssetSpec, *, timeout_s: float) -> Probe:
        """Say what stands under the name; change nothing, raise nothing of the store's."""

    def create(self, name: str, spec: AssetSpec, *, asset_id: int, timeout_s: float) -> None:
        """Make it, unless something stands there already, which is never changed: probe it.

        Raises:
            TransientError: It may or may not stand there now.
            PermanentError: It cannot be made so.
        """

    def destroy(self, name: str, *, external_id: str | None, timeout_s: float) -> None:
        """Remove it; when it is gone already, do nothing.

        With `external_id=None` any thing of ours under the name goes.

        Raises:
            TransientError: It may or may not stand there now.
            ForeignAssetError: Another thing stands there; it is left alone.
        """

    def list(self, prefix: str, *, timeout_s: float) -> tuple[Listed, ...]:
        """List all things whose names begin so, by name; the list is complete.

        Raises:
            TransientError: A complete list could not be had.
        """

"""Store ownership: each store bears the mark of the one ledger that may destroy assets in it.

A ledger that was restored, copied or failed over to is not the one that wrote the mark. Objects
that it does not contain may belong to another ledger: it lists and destroys nothing until a
person adopts the stores.
"""

from collections.abc import Callable

import attrs

from narthex._ir import AssetKind, AssetSpec
from narthex_server.deploy.garbage_collector import ANY_SPEC
from narthex_stores import Adapter, ForeignAssetError, Listed, Match, Probe

_TIMEOUT_S = 10.0


@attrs.define(kw_only=True)
class OwnedStoreAdapter:
    """An adapter that lists and destroys only in stores with its ledger's mark.

    The mark is an object of the store's own kind, whose name contains the ledger's identity.

    Attributes:
        identity: Returns the identity of the ledger database's history.
    """

    inner: Adapter
    install_id: str
    identity: Callable[[], str]
    _is_ours: bool = False

    @property
    def kind(self) -> AssetKind:
        """The kind of asset that the adapter is for."""
        return self.inner.kind

    def probe(self, name: str, spec: AssetSpec, *, timeout_s: float) -> Probe:
        """Return what the store has under the name."""
        return self.inner.probe(name, spec, timeout_s=timeout_s)

    def create(self, name: str, spec: AssetSpec, *, asset_id: int, timeout_s: float) -> None:
        """Create the asset, unless the name is taken."""
        self.inner.create(name, spec, asset_id=asset_id, timeout_s=timeout_s)

    def destroy(self, name: str, *, external_id: str | None, timeout_s: float) -> None:
        """Destroy the asset.

        Raises:
            ForeignAssetError: The store bears another ledger's mark.
        """
        self.check()
        self.inner.destroy(name, external_id=external_id, timeout_s=timeout_s)

    def list(self, prefix: str, *, timeout_s: float) -> tuple[Listed, ...]:
        """List the objects with this prefix, without marks.

        Raises:
            ForeignAssetError: The store bears another ledger's mark.
        """
        self.check()
        found = self.inner.list(prefix, timeout_s=timeout_s)
        return tuple(one for one in found if not one.name.startswith(self._marks))

    def check(self) -> None:
        """Check the mark; create it if the store has none.

        Raises:
            ForeignAssetError: The store bears another ledger's mark.
        """
        if self._is_ours:
            return
        mine = self._mark()
        found = {one.name for one in self.inner.list(self._marks, timeout_s=_TIMEOUT_S)}
        if found - {mine}:
            raise ForeignAssetError(
                f"the {self.kind.value} store bears the mark of another ledger, as after a"
                " restore: nothing is destroyed until `narthex audit --adopt`"
            )
        if not found:
            self._put(mine)
        self._is_ours = True

    def adopt(self) -> None:
        """Replace the marks by this ledger's own; a person decides so."""
        mine = self._mark()
        self._put(mine)
        for one in self.inner.list(self._marks, timeout_s=_TIMEOUT_S):
            if one.name != mine:
                self.inner.destroy(one.name, external_id=one.external_id, timeout_s=_TIMEOUT_S)
        self._is_ours = True

    @property
    def _marks(self) -> str:
        return f"nx_{self.install_id}_mark_"

    def _mark(self) -> str:
        return f"{self._marks}{self.identity()}"

    def _put(self, name: str) -> None:
        spec = ANY_SPEC[self.kind]
        self.inner.create(name, spec, asset_id=0, timeout_s=_TIMEOUT_S)
        found = self.inner.probe(name, spec, timeout_s=_TIMEOUT_S)
        if not isinstance(found, Match):
            raise ForeignAssetError(f"the owner mark `{name}` could not be created: {found}")

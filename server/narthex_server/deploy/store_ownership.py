"""Whose stores these are: each bears the mark of the one ledger whose word may destroy in it.

A ledger that was restored, copied or failed over to is not the one that wrote the mark. What it
does not know of may be somebody's: nothing is listed and nothing destroyed on its word until a
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
    """An adapter that lists and destroys only where its ledger's mark stands.

    The mark is a thing of the store's own kind, whose name holds the ledger's identity.

    Attributes:
        identity: Which history the ledger's database has.
    """

    inner: Adapter
    install_id: str
    identity: Callable[[], str]
    _is_ours: bool = False

    @property
    def kind(self) -> AssetKind:
        """The kind of asset that it is for."""
        return self.inner.kind

    def probe(self, name: str, spec: AssetSpec, *, timeout_s: float) -> Probe:
        """Say what stands under the name."""
        return self.inner.probe(name, spec, timeout_s=timeout_s)

    def create(self, name: str, spec: AssetSpec, *, asset_id: int, timeout_s: float) -> None:
        """Make it, unless something stands there already."""
        self.inner.create(name, spec, asset_id=asset_id, timeout_s=timeout_s)

    def destroy(self, name: str, *, external_id: str | None, timeout_s: float) -> None:
        """Remove it.

        Raises:
            ForeignAssetError: The store bears another ledger's mark.
        """
        self.check()
        self.inner.destroy(name, external_id=external_id, timeout_s=timeout_s)

    def list(self, prefix: str, *, timeout_s: float) -> tuple[Listed, ...]:
        """List what has such a name, without marks.

        Raises:
            ForeignAssetError: The store bears another ledger's mark.
        """
        self.check()
        found = self.inner.list(prefix, timeout_s=timeout_s)
        return tuple(one for one in found if not one.name.startswith(self._marks))

    def check(self) -> None:
        """Find the mark, or make the first one.

        Raises:
            ForeignAssetError: There is one, of another ledger.
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
        """Let this ledger's word count from now on; a person decides so."""
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
            raise ForeignAssetError(f"the mark `{name}` could not be made: {found}")

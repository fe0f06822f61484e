"""The builder of a commit's assets, which lists each asset once."""

import attrs

from narthex._ir.assets import (
    FP_VERSION,
    AssetBlueprint,
    AssetKind,
    AssetRef,
    AssetSpec,
    Fingerprint,
    Need,
)


class BlueprintBuilder:
    """Lists assets in the order in which they are added; an asset's needs are added before it."""

    def __init__(self) -> None:
        self._assets: dict[AssetRef, AssetBlueprint] = {}

    @property
    def assets(self) -> tuple[AssetBlueprint, ...]:
        """All assets added so far."""
        return tuple(self._assets.values())

    def add(
        self,
        kind: AssetKind,
        fingerprint: Fingerprint,
        spec: AssetSpec,
        *,
        path: str,
        label: str,
        needs: tuple[Need, ...] = (),
    ) -> AssetRef:
        """Add an asset, or another path to it if it is already listed."""
        ref = AssetRef(kind, fingerprint)
        known = self._assets.get(ref)
        if known is None:
            self._assets[ref] = AssetBlueprint(
                kind=kind,
                fp_version=FP_VERSION,
                fingerprint=fingerprint,
                spec=spec,
                needs=needs,
                paths=(path,),
                label=label,
            )
        elif path not in known.paths:
            self._assets[ref] = attrs.evolve(known, paths=(*known.paths, path))
        return ref

"""Convert rows to the assets and plans that engines and readers use."""

from collections.abc import Hashable, Iterable, MutableMapping, Sequence
from typing import Self, TypeAlias, TypeVar

import attrs
from sqlalchemy.engine import Connection

from narthex._base import Json, UnknownRecordError, from_plain
from narthex._ir import (
    AssetKind,
    AssetSpec,
    CheckpointSpec,
    DatasetPlan,
    FeedSpec,
    HistorySpec,
    IndexSpec,
    PipelineJobSpec,
    ResolvedAsset,
    ResolvedNeed,
    SinkJobSpec,
    SourceJobSpec,
    TopicSpec,
)
from narthex_ledger.db.statements import assets as on_assets
from narthex_ledger.model.rows import AssetRow, NeededAssetRow
from narthex_ledger.signing.row_checks import Checker

_T = TypeVar("_T")


def spec_of(plain: Json) -> AssetSpec:
    """Read an asset's spec.

    Raises:
        UnknownRecordError: A newer version wrote it.
    """
    match from_plain(plain):
        case (
            TopicSpec()
            | IndexSpec()
            | HistorySpec()
            | CheckpointSpec()
            | SourceJobSpec()
            | PipelineJobSpec()
            | SinkJobSpec()
            | FeedSpec() as spec
        ):
            return spec
        case other:
            raise UnknownRecordError(f"{type(other).__name__} is not a spec of an asset")


def plans_of(plain: Json) -> tuple[DatasetPlan, ...]:
    """Read a manifest's dataset plans."""
    found = from_plain(plain)
    if not isinstance(found, tuple):
        raise UnknownRecordError("dataset plans are a list")
    return tuple(_instance(item, DatasetPlan) for item in found)


@attrs.frozen
class AssetRows:
    """Assets with what they need, as rows: resolving many takes longer than a transaction may."""

    assets: tuple[AssetRow, ...]
    needs: tuple[NeededAssetRow, ...]

    @classmethod
    def read(cls, connection: Connection, assets: Iterable[AssetRow]) -> Self:
        """Read what assets need."""
        rows = tuple(assets)
        return cls(rows, on_assets.needs_of(connection, [row.asset_id for row in rows]))


KnownAssets: TypeAlias = MutableMapping[Hashable, ResolvedAsset]
"""Assets that were resolved and checked before, by all of their rows that identify them."""


def resolve(
    rows: AssetRows, *, checker: Checker, known: KnownAssets | None = None
) -> dict[int, ResolvedAsset]:
    """Return assets with the physical names of their needs; the result never changes.

    Args:
        rows: The assets.
        checker: Checks their signatures.
        known: Assets that need not be read and checked again; new ones are added.

    Raises:
        NotSigned: One of them does not match its signature.
    """
    needed: dict[int, list[NeededAssetRow]] = {asset.asset_id: [] for asset in rows.assets}
    for row in rows.needs:
        needed[row.asset_id].append(row)
    resolved: dict[int, ResolvedAsset] = {}
    for asset in rows.assets:
        needs = needed[asset.asset_id]
        key = _key(asset, needs)
        found = None if known is None else known.get(key)
        if found is None:
            found = _resolved(asset, needs, checker)
            if known is not None:
                known[key] = found
        resolved[asset.asset_id] = found
    return resolved


def _key(asset: AssetRow, needed: Sequence[NeededAssetRow]) -> Hashable:
    return (
        asset.asset_id,
        asset.physical_name,
        asset.fingerprint,
        asset.signature,
        asset.needs_signature,
        *((one.role, one.needs_asset_id, one.physical_name, one.signature) for one in needed),
    )


def _resolved(asset: AssetRow, needed: Sequence[NeededAssetRow], checker: Checker) -> ResolvedAsset:
    for row in needed:
        checker.asset(row)
    checker.asset(asset)
    checker.needs(asset, needed)
    return ResolvedAsset(
        asset_id=asset.asset_id,
        kind=AssetKind(asset.kind),
        physical_name=asset.physical_name,
        fingerprint=asset.fingerprint,
        spec=spec_of(asset.spec),
        needs=tuple(map(_need, needed)),
    )


def _need(row: NeededAssetRow) -> ResolvedNeed:
    return ResolvedNeed(
        role=row.role,
        kind=AssetKind(row.kind),
        asset_id=row.needs_asset_id,
        physical_name=row.physical_name,
        spec=spec_of(row.spec),
    )


def _instance(value: object, cls: type[_T]) -> _T:
    if not isinstance(value, cls):
        raise UnknownRecordError(f"{type(value).__name__} is not a {cls.__name__}")
    return value

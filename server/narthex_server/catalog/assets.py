"""The route that lists all assets, with the branches and commits that retain them."""

import attrs
from fastapi import APIRouter

from narthex_ledger import HolderView, RetainedAssetView
from narthex_server.catalog.responses import Holder, RetainedAsset, RetainedAssets
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import LedgerDep, TenantDep
from narthex_server.web.plain_routes import Number, PlainRoute

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DEFINITIONS)])

GREATEST_PAGE = 1_000


@router.get("/assets")
def assets(
    ledger: LedgerDep, tenant: TenantDep, access: AccessDep, after: Number = 0, limit: Number = 200
) -> RetainedAssets:
    """List the assets that are not destroyed, by id, starting after a given id.

    A principal that is restricted to some branches sees only what these retain. `next` is the
    value of `after` for the next page; null at the end.
    """
    limit = max(1, min(limit, GREATEST_PAGE))
    retained = ledger.assets.retained(
        tenant, after=after, limit=limit + 1, branches=access.branches
    )
    shown, seen = retained[:limit], access.visible_assets()
    return {
        "assets": [
            _plain(
                asset if seen is None else attrs.evolve(asset, paths=tuple(seen[asset.asset_id]))
            )
            for asset in shown
            if seen is None or asset.asset_id in seen
        ],
        "next": shown[-1].asset_id if len(retained) > limit else None,
    }


def _plain(asset: RetainedAssetView) -> RetainedAsset:
    return {
        "asset_id": asset.asset_id,
        "label": asset.paths[0] if asset.paths else asset.physical_name,
        "kind": asset.kind.value,
        "state": asset.state.value,
        "physical_name": asset.physical_name,
        "fingerprint": asset.fingerprint.hex(),
        "incarnation": asset.incarnation,
        "paths": list(asset.paths),
        "refs": asset.refs,
        "live_at": asset.live_at.isoformat() if asset.live_at else None,
        "held_by": [_holder(holder) for holder in asset.held_by],
    }


def _holder(holder: HolderView) -> Holder:
    return {
        "branch": holder.branch,
        "holder": holder.holder,
        "commit_id": str(holder.commit_id) if holder.commit_id else None,
        "expires_at": holder.expires_at.isoformat() if holder.expires_at else None,
    }

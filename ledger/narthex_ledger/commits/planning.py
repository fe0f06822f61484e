"""T1: decide which assets a commit creates and shares, and reserve them, in one transaction."""

import hashlib
from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID

import attrs
from sqlalchemy.engine import Connection

from narthex._base import Json, UnknownRecordError, from_plain, to_plain
from narthex._ir import AssetBlueprint, AssetKind, AssetRef, Blueprint
from narthex_ledger.db.statements import assets as on_assets
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import pins as on_pins
from narthex_ledger.db.transactions import LostRace
from narthex_ledger.errors import CommitInProgress, CommitRejected, LedgerRefused
from narthex_ledger.model.plans import CommitPlan, PlannedAsset, jobs_to_backfill, sha256_of
from narthex_ledger.model.rows import AssetRow, BranchRow, CommitRow
from narthex_ledger.model.states import DRIVABLE, AssetState, BackfillPolicy, CommitState
from narthex_ledger.model.views import CommitRequest, Fence
from narthex_ledger.reading.queries import bound_assets_of, pending_backfills
from narthex_ledger.requests.commit_requests import hold_fence, reject
from narthex_ledger.signing.signatures import asset_statement, manifest_statement, needs_statement

_NEVER = on_assets.Incarnations(newest=0, is_retained=False)
_AT_ONCE = 1_000
"""How many assets are signed between two statements."""

NameOf: TypeAlias = Callable[[AssetBlueprint, int], str]
"""Returns the physical name of a blueprint's incarnation; pure."""


@attrs.frozen(kw_only=True)
class PlanRequest:
    """The assets that a commit binds, and the content that the server keeps with them."""

    blueprint: Blueprint
    content: Json
    name_of: NameOf
    attest: Callable[[Json], bytes | None]


@attrs.frozen(kw_only=True)
class _Reserved:
    rows: dict[AssetRef, AssetRow]
    created: frozenset[AssetRef]


def plan(
    connection: Connection, commit_id: UUID, fence: Fence, plan_request: PlanRequest
) -> CommitPlan | CommitRejected:
    """Reserve all assets of the request; a refusal rolls that back and ends the commit.

    A second call with the fence returns the plan of the first one.
    """
    branch_id = on_commits.read_commit(connection, commit_id).branch_id
    branch = on_commits.lock_branch(connection, branch_id)
    commit = hold_fence(connection, commit_id, fence, *DRIVABLE)
    stored = None if commit.plan_sha256 is None else on_commits.read_plan(connection, commit_id)
    if stored is not None:
        return stored_plan(stored)
    busy = on_commits.in_flight(connection, branch_id)
    if busy is not None:
        raise CommitInProgress(busy)
    savepoint = connection.begin_nested()
    try:
        made = reserve(connection, branch, commit, plan_request)
    except CommitRejected as refused:
        savepoint.rollback()
        reject(connection, commit, reason=refused.reason, actor=commit.actor, detail=refused.detail)
        return refused
    savepoint.commit()
    on_commits.change_commit(
        connection,
        commit_id,
        state=CommitState.PLANNED.value,
        manifest_id=commit_id,
        base_seq=branch.head_seq,
        parent_commit_id=on_commits.commit_before(branch_id, branch.head_seq + 1),
        plan=made.plain(),
        plan_sha256=made.sha256,
    )
    on_commits.insert_event(
        connection,
        "PLANNED",
        actor=commit.actor,
        commit_id=commit_id,
        fence=fence,
        detail={"plan_sha256": made.sha256.hex()},
    )
    return made


def preview(
    connection: Connection, request: CommitRequest, plan_request: PlanRequest
) -> CommitPlan:
    """Plan as `plan` would; the caller rolls the transaction back."""
    branch = on_commits.lock_branch(connection, request.branch)
    bundle_sha256 = hashlib.sha256(request.bundle).digest()
    on_commits.put_bundle(connection, bundle_sha256, request.bundle)
    base_seq = branch.head_seq if request.base_seq is None else request.base_seq
    on_commits.insert_commit(connection, request, bundle_sha256, base_seq, signature=None)
    commit = on_commits.lock_commit(connection, request.commit_id)
    return reserve(connection, branch, commit, plan_request)


def stored_plan(plain: Json) -> CommitPlan:
    """Read a plan back.

    Raises:
        UnknownRecordError: A newer version wrote it.
    """
    found = from_plain(plain)
    if not isinstance(found, CommitPlan):
        raise UnknownRecordError(f"{type(found).__name__} is not a plan")
    return found


def reserve(
    connection: Connection, branch: BranchRow, commit: CommitRow, plan_request: PlanRequest
) -> CommitPlan:
    """Insert or adopt every asset, bind and pin them, and return the plan."""
    if branch.state != "active":
        raise CommitRejected("branch_deleted")
    if commit.base_pinned and commit.base_seq != branch.head_seq:
        raise CommitRejected(
            "stale_base",
            detail={"base_seq": commit.base_seq, "head_seq": branch.head_seq},
            hint="another commit changed the branch first; commit again",
        )
    reserved = _reserve_assets(connection, commit, plan_request)
    due = _backfills(plan_request.blueprint, reserved)
    _open_ledger(connection, commit, plan_request.blueprint, reserved, due)
    _bind(connection, commit, plan_request, reserved)
    made = _describe(connection, branch, commit, plan_request.blueprint, reserved, due)
    _judge(commit, made)
    return made


def _reserve_assets(
    connection: Connection, commit: CommitRow, plan_request: PlanRequest
) -> _Reserved:
    blueprints = sorted(plan_request.blueprint.assets, key=lambda a: (a.kind.value, a.fingerprint))
    keys = [_key(blueprint) for blueprint in blueprints]
    known = on_assets.known_incarnations(connection, commit.tenant_id, keys)
    missing = [
        (blueprint, known.get(key, _NEVER).newest + 1)
        for blueprint, key in zip(blueprints, keys, strict=True)
        if not known.get(key, _NEVER).is_retained
    ]
    new: set[int] = set()
    # Signing takes time, in which the database sees an idle transaction: it must be short.
    for start in range(0, len(missing), _AT_ONCE):
        rows_of_assets = [
            _row(commit.tenant_id, blueprint, incarnation, plan_request)
            for blueprint, incarnation in missing[start : start + _AT_ONCE]
        ]
        new |= on_assets.insert_assets(connection, rows_of_assets)
    locked = on_assets.lock_retained(connection, commit.tenant_id, keys)
    rows = {AssetRef(AssetKind(r.kind), r.fingerprint): r for r in locked}
    if set(rows) != {blueprint.ref for blueprint in blueprints}:
        raise LostRace
    for row in rows.values():
        _adopt(connection, commit, row)
    created = frozenset(ref for ref, row in rows.items() if row.asset_id in new)
    return _Reserved(rows=rows, created=created)


def _key(blueprint: AssetBlueprint) -> on_assets.AssetKey:
    return on_assets.AssetKey(blueprint.kind, blueprint.fp_version, blueprint.fingerprint)


def _row(
    tenant_id: int, blueprint: AssetBlueprint, incarnation: int, plan_request: PlanRequest
) -> dict[str, object]:
    """Return the signed row of a new asset."""
    spec, name = to_plain(blueprint.spec), plan_request.name_of(blueprint, incarnation)
    statement = asset_statement(
        tenant_id, blueprint.kind.value, blueprint.fingerprint, physical_name=name, spec=spec
    )
    needs = ((n.role, n.asset.kind.value, n.asset.fingerprint) for n in blueprint.needs)
    return {
        "tenant_id": tenant_id,
        "kind": blueprint.kind.value,
        "fp_version": blueprint.fp_version,
        "fingerprint": blueprint.fingerprint,
        "incarnation": incarnation,
        "physical_name": name,
        "spec": spec,
        "spec_sha256": sha256_of(spec),
        "signature": plan_request.attest(statement),
        "needs_signature": plan_request.attest(needs_statement(tenant_id, name, needs)),
    }


def _adopt(connection: Connection, commit: CommitRow, row: AssetRow) -> None:
    match AssetState(row.state):
        case AssetState.RETIRING:
            on_assets.set_asset_state(connection, row.asset_id, AssetState.LIVE, retiring_at=None)
            on_assets.cancel_destroy(connection, row.asset_id)
            on_commits.insert_event(
                connection,
                "live",
                actor=commit.actor,
                commit_id=commit.commit_id,
                asset_id=row.asset_id,
                detail={"resurrected": True},
            )
        case AssetState.QUARANTINED:
            raise CommitRejected(
                "quarantined",
                detail={"asset_id": row.asset_id, "physical_name": row.physical_name},
                hint="the operator must decide what becomes of it",
            )
        case _:
            return


def _backfills(blueprint: Blueprint, reserved: _Reserved) -> frozenset[AssetRef]:
    created = frozenset((ref.kind, ref.fingerprint) for ref in reserved.created)
    due = jobs_to_backfill(blueprint.assets, created=created)
    return frozenset(AssetRef(kind, fingerprint) for kind, fingerprint in due)


def _open_ledger(
    connection: Connection,
    commit: CommitRow,
    blueprint: Blueprint,
    reserved: _Reserved,
    due: frozenset[AssetRef],
) -> None:
    ids = {ref: row.asset_id for ref, row in reserved.rows.items()}
    on_assets.insert_reservations(
        connection, commit.commit_id, {ids[ref]: ref in due for ref in reserved.created}
    )
    try:
        needs = [
            (ids[asset.ref], ids[need.asset], need.role)
            for asset in blueprint.assets
            if asset.ref in reserved.created
            for need in asset.needs
        ]
    except KeyError as missing:
        raise LedgerRefused(f"an asset needs {missing}, which the blueprint lacks") from None
    on_assets.insert_needs(connection, needs)
    created = sorted(reserved.created, key=lambda r: (r.kind.value, r.fingerprint))
    on_commits.insert_asset_events(
        connection,
        "planned",
        actor=commit.actor,
        commit_id=commit.commit_id,
        asset_ids=[ids[ref] for ref in created],
    )


def _bind(
    connection: Connection, commit: CommitRow, plan_request: PlanRequest, reserved: _Reserved
) -> None:
    assets = [
        (path, reserved.rows[asset.ref])
        for asset in plan_request.blueprint.assets
        for path in asset.paths or (f"asset/{asset.kind.value}/{asset.fingerprint.hex()}",)
    ]
    bindings = [(path, row.asset_id) for path, row in assets]
    content: Json = {
        "datasets": to_plain(plan_request.blueprint.datasets),
        "content": plan_request.content,
    }
    statement = manifest_statement(
        commit.tenant_id,
        commit.commit_id,
        commit.bundle_sha256,
        content=content,
        bound=[(path, row.physical_name) for path, row in assets],
    )
    on_commits.insert_manifest(
        connection,
        commit,
        content=content,
        content_sha256=sha256_of(
            {"content": content, "bindings": [[path, asset] for path, asset in sorted(bindings)]}
        ),
        signature=plan_request.attest(statement),
        bindings=bindings,
    )
    bound = {asset_id for _, asset_id in bindings}
    unbound = {needed for _, needed in on_assets.need_ids(connection, sorted(bound))} - bound
    if unbound:
        raise LedgerRefused(f"asset {min(unbound)} is needed but not bound")
    on_pins.insert_pin(
        connection,
        manifest_id=commit.commit_id,
        branch_id=commit.branch_id,
        commit_id=commit.commit_id,
        holder="inflight",
    )


def _describe(
    connection: Connection,
    branch: BranchRow,
    commit: CommitRow,
    blueprint: Blueprint,
    reserved: _Reserved,
    due: frozenset[AssetRef],
) -> CommitPlan:
    ids = {row.asset_id for row in reserved.rows.values()}
    head = bound_assets_of(connection, branch.head_commit_id)
    users = on_pins.users_of(
        connection,
        sorted(ids | {asset.asset_id for asset in head.values()}),
        except_commit=commit.commit_id,
    )
    pending = pending_backfills(connection, sorted(ids))
    shown = {
        asset.ref: PlannedAsset(
            kind=asset.kind,
            fingerprint=asset.fingerprint,
            label=asset.label,
            paths=asset.paths,
            shared_with=tuple(name for _, name in users.get(reserved.rows[asset.ref].asset_id, ())),
        )
        for asset in blueprint.assets
    }
    paths: dict[int, list[str]] = {}
    for path, asset in head.items():
        paths.setdefault(asset.asset_id, []).append(path)
    released = {
        asset.asset_id: PlannedAsset(
            kind=AssetKind(asset.kind),
            fingerprint=asset.fingerprint,
            label=path,
            paths=tuple(paths[asset.asset_id]),
        )
        for path, asset in reversed(head.items())
        if asset.asset_id not in ids
        and all(user == branch.branch_id for user, _ in users.get(asset.asset_id, ()))
    }
    serving = bound_assets_of(connection, branch.serving_commit_id)
    new_paths = {
        path: reserved.rows[asset.ref].asset_id
        for asset in blueprint.assets
        for path in asset.paths
    }
    return CommitPlan(
        base_seq=branch.head_seq,
        create=tuple(a for ref, a in shown.items() if ref in reserved.created),
        share=tuple(a for ref, a in shown.items() if ref not in reserved.created),
        release=tuple(released.values()),
        backfill=tuple(
            a for ref, a in shown.items() if ref in due or reserved.rows[ref].asset_id in pending
        ),
        flip=tuple(
            path
            for path, asset_id in sorted(new_paths.items())
            if path not in serving or serving[path].asset_id != asset_id
        ),
    )


def _judge(commit: CommitRow, made: CommitPlan) -> None:
    expected = commit.expected_plan_sha256
    if expected is not None and bytes(expected) != made.sha256:
        raise CommitRejected(
            "plan_changed",
            detail={"plan": made.plain(), "plan_sha256": made.sha256.hex()},
            hint="look at the new plan, then pin that one",
        )
    if commit.backfill_policy == BackfillPolicy.REFUSED.value and made.backfill:
        raise CommitRejected("would_backfill", detail=[asset.label for asset in made.backfill])

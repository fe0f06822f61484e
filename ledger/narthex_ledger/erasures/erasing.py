"""The transactions of an erasure, each of which may be repeated.

An erasure marks all assets with rows derived from those that are to be erased as obsolete. Such an
asset does not represent its fingerprint any more, so the next plan of the same definitions
creates a successor: another incarnation, with another name. Readers read the obsolete asset until
they flip. Then no pin may reach it, and the collector destroys it.
"""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex._ir import (
    AssetKind,
    FeedSpec,
    PipelineJobSpec,
    SinkJobSpec,
    SourceJobSpec,
    TopicRole,
    TopicSpec,
)
from narthex_ledger.db.statements import assets as on_assets
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import erasures as on_erasures
from narthex_ledger.db.statements import pins as on_pins
from narthex_ledger.db.transactions import LostRace
from narthex_ledger.erasures import erased_sinks
from narthex_ledger.errors import (
    Fenced,
    IdempotencyKeyReused,
    LedgerRefused,
    NotFound,
    NotReady,
    WrongState,
)
from narthex_ledger.model.erasure_views import (
    ErasureRequest,
    ErasureView,
    ObsoleteSink,
    OwedBranch,
    ReachedAsset,
    Successor,
)
from narthex_ledger.model.plans import sha256_of
from narthex_ledger.model.rows import AssetRow
from narthex_ledger.model.states import AssetState, ErasureState
from narthex_ledger.model.views import Rules, TenantId
from narthex_ledger.reading.resolved_assets import spec_of

_PINNED = frozenset({"inflight", "head", "serving", "hold"})
"""Holders of pins that an erasure waits for; the others end with it."""

_JobSpec = SourceJobSpec | PipelineJobSpec | SinkJobSpec | FeedSpec


def request(connection: Connection, wanted: ErasureRequest) -> ErasureView:
    """Block the keys from now on; the same request again returns its erasure."""
    if not on_erasures.insert_erasure(connection, wanted):
        if on_erasures.request_hash(connection, wanted.erasure_id) != wanted.request_sha256:
            raise IdempotencyKeyReused(
                "the idempotency key was used for another erasure",
                hint="give each request a key of its own",
            )
        return read(connection, wanted.erasure_id)
    on_erasures.block(connection, wanted)
    sources = [(source, sha256_of(source.form)) for source in wanted.sources]
    on_erasures.put_sources(connection, wanted.tenant, sources)
    _event(connection, wanted.erasure_id, "erasure_requested", wanted.actor)
    return read(connection, wanted.erasure_id)


def read(connection: Connection, erasure_id: UUID) -> ErasureView:
    """Read an erasure."""
    found = on_erasures.find_erasure(connection, erasure_id)
    if found is None:
        raise NotFound(f"there is no erasure `{erasure_id}`")
    return found


def reached(connection: Connection, tenant: TenantId, dataset: str) -> tuple[ReachedAsset, ...]:
    """List the assets with rows that are derived from a dataset's, on all branches."""
    return _reached(connection, _reach(connection, tenant, dataset))


def unsupported(assets: Collection[ReachedAsset]) -> tuple[str, ...]:
    """Say what of these assets an erasure cannot rebuild without the rows; nothing if it can."""
    found: set[str] = set()
    for asset in assets:
        match asset.spec:
            case SourceJobSpec(dataset=dataset, source_id=source) if asset.input is None:
                found.add(
                    f"`{dataset}` has rows of `{source}`, which is not a webhook: it may not have "
                    "the rows of other keys any more, or may send the erased ones again"
                )
            case _:
                pass
        if asset.state is AssetState.QUARANTINED:
            found.add(f"`{asset.physical_name}` is quarantined; an operator must decide about it")
    return tuple(sorted(found))


def mark_obsolete(connection: Connection, erasure_id: UUID, owner: str) -> None:
    """Mark as obsolete all assets with rows that are derived from the dataset's; REBUILDING."""
    erasure = _hold(connection, erasure_id, owner, ErasureState.REQUESTED, ErasureState.REBUILDING)
    if erasure.state is ErasureState.REBUILDING:
        return
    ids = _reach(connection, erasure.tenant_id, erasure.dataset)
    on_erasures.assets_of(connection, ids, lock=True)
    # A plan that shares any of them waits from here on. One that was first has added to them.
    if _reach(connection, erasure.tenant_id, erasure.dataset) != ids:
        raise LostRace
    why = unsupported(_reached(connection, ids))
    if why:
        raise NotReady("the rows cannot be erased now", detail=list(why))
    on_erasures.mark_obsolete(connection, erasure_id, ids)
    _move(connection, erasure, ErasureState.REBUILDING)


def owed(connection: Connection, erasure_id: UUID) -> tuple[OwedBranch, ...]:
    """List the branches that deploy obsolete assets, with the commits that replace them."""
    found = []
    for branch in on_erasures.deploying(connection, erasure_id):
        if branch.head_commit_id is None:
            continue
        in_flight = on_commits.in_flight(connection, branch.branch_id)
        missing = in_flight is None or on_erasures.count_missing(connection, in_flight) > 0
        found.append(
            OwedBranch(
                branch_id=branch.branch_id,
                name=branch.name,
                head_commit_id=branch.head_commit_id,
                head_seq=branch.head_seq,
                in_flight=in_flight,
                is_at_gate=not missing,
            )
        )
    return tuple(found)


def hold(connection: Connection, erasure_id: UUID, owner: str) -> None:
    """Let the endpoints accept no more rows, once every branch waits for its topics; HOLDING."""
    erasure = _hold(connection, erasure_id, owner, ErasureState.REBUILDING, ErasureState.HOLDING)
    if erasure.state is ErasureState.HOLDING:
        return
    waiting = [branch.name for branch in owed(connection, erasure_id) if not branch.is_at_gate]
    if waiting:
        raise NotReady("the successors of some assets do not exist", detail=[*waiting])
    _move(connection, erasure, ErasureState.HOLDING)


def successors(connection: Connection, erasure_id: UUID) -> tuple[Successor, ...]:
    """List the obsolete ingest topics that exist, with the topics that take their places."""
    old = [row for row in _alive(on_erasures.obsolete(connection, erasure_id)) if is_ingest(row)]
    rows = on_erasures.successors(connection, [row.asset_id for row in old])
    new = {row.old_id: row for row in rows}
    return tuple(
        Successor(
            old_id=row.asset_id,
            old_name=row.physical_name,
            new_id=new[row.asset_id].asset_id if row.asset_id in new else None,
            new_name=new[row.asset_id].physical_name if row.asset_id in new else None,
            is_filled=row.asset_id in new and new[row.asset_id].filled_from is not None,
        )
        for row in old
    )


def fill(connection: Connection, erasure_id: UUID, owner: str, successor: Successor) -> None:
    """Record that a topic has all remaining records of the obsolete one; its commit may go on."""
    _hold(connection, erasure_id, owner, ErasureState.HOLDING)
    if successor.new_id is None or successor.new_name is None:
        raise LedgerRefused(f"`{successor.old_name}` has no successor")
    on_assets.lock_asset(connection, successor.new_id)
    on_erasures.set_filled(connection, successor.new_id, successor.old_id)
    on_erasures.copy_calls(connection, successor.old_name, successor.new_name)


def deployed(connection: Connection, erasure_id: UUID, owner: str) -> None:
    """Go on once no branch deploys an obsolete asset; WITHDRAWING."""
    erasure = _hold(connection, erasure_id, owner, ErasureState.HOLDING, ErasureState.WITHDRAWING)
    if erasure.state is ErasureState.WITHDRAWING:
        return
    waiting = [branch.name for branch in owed(connection, erasure_id)]
    if waiting:
        raise NotReady("branches deploy obsolete assets", detail=[*waiting])
    _move(connection, erasure, ErasureState.WITHDRAWING)


def stop_writers(
    connection: Connection, erasure_id: UUID, owner: str, rules: Rules
) -> tuple[str, ...]:
    """Let all obsolete jobs but the sinks stop, once nothing reads obsolete assets any more."""
    _hold(connection, erasure_id, owner, ErasureState.WITHDRAWING)
    _require_unread(on_erasures.pins_on_obsolete(connection, erasure_id))
    return erased_sinks.stop_writers(connection, erasure_id, rules)


def running_sinks(connection: Connection, erasure_id: UUID, owner: str) -> tuple[ObsoleteSink, ...]:
    """Let the obsolete sinks run that have successors, and list all of them."""
    _hold(connection, erasure_id, owner, ErasureState.WITHDRAWING)
    erased_sinks.resume(connection, erasure_id)
    return erased_sinks.obsolete_sinks(connection, erasure_id)


def confirm_sinks(
    connection: Connection, erasure_id: UUID, owner: str, seen: Json, rules: Rules
) -> None:
    """Store what was seen of the deletions in targets, and let the obsolete sinks stop."""
    erasure = _hold(connection, erasure_id, owner, ErasureState.WITHDRAWING)
    erased_sinks.confirm(connection, erasure, seen, rules)


def withdrawn(connection: Connection, erasure_id: UUID, owner: str, rules: Rules) -> None:
    """Let new sinks write, once the obsolete ones have deleted rows and stopped; RELEASING."""
    erasure = _hold(connection, erasure_id, owner, ErasureState.WITHDRAWING, ErasureState.RELEASING)
    if erasure.state is ErasureState.RELEASING:
        return
    erased_sinks.start_successors(connection, erasure, rules)
    _move(connection, erasure, ErasureState.RELEASING)


def release(connection: Connection, erasure_id: UUID, owner: str) -> None:
    """Delete the pins that keep obsolete assets for rollbacks and restored branches; REMOVING.

    Pins of readers and of offline queries are waited for.
    """
    erasure = _hold(connection, erasure_id, owner, ErasureState.RELEASING, ErasureState.REMOVING)
    if erasure.state is ErasureState.REMOVING:
        return
    pins = on_erasures.pins_on_obsolete(connection, erasure_id)
    _require_unread(pins)
    for pin_id, _ in pins:
        on_pins.delete_pin(connection, pin_id)
    _move(connection, erasure, ErasureState.REMOVING)


def remaining(connection: Connection, erasure_id: UUID) -> tuple[ReachedAsset, ...]:
    """List the obsolete assets that are not destroyed yet."""
    rows = _alive(on_erasures.obsolete(connection, erasure_id))
    return _reached(connection, frozenset(row.asset_id for row in rows))


def certify(
    connection: Connection,
    erasure_id: UUID,
    owner: str,
    certificate: Json,
    signature: bytes | None,
) -> ErasureView:
    """Store the certificate and delete the values of the keys; CERTIFIED."""
    erasure = on_erasures.find_erasure(connection, erasure_id, lock=True)
    if erasure is not None and erasure.state is ErasureState.CERTIFIED:
        return erasure
    erasure = _hold(connection, erasure_id, owner, ErasureState.REMOVING)
    left = _alive(on_erasures.obsolete(connection, erasure_id))
    if left:
        raise NotReady(f"{len(left)} obsolete assets are not destroyed")
    on_erasures.put_certificate(connection, erasure_id, certificate, signature)
    _event(connection, erasure_id, "erasure_certified", owner)
    return read(connection, erasure_id)


def note(connection: Connection, erasure_id: UUID, owner: str, waits_for: str) -> None:
    """Store what an erasure waits for."""
    erasure = _hold(connection, erasure_id, owner, *ErasureState)
    if erasure.waits_for != waits_for and erasure.state is not ErasureState.CERTIFIED:
        on_erasures.change_erasure(connection, erasure_id, waits_for=waits_for)


def check_filled(connection: Connection, manifest_id: UUID) -> None:
    """Refuse a commit whose ingest topics do not have the records of obsolete ones yet."""
    rows = [row for row in on_erasures.unfilled(connection, manifest_id) if is_ingest(row)]
    if rows:
        raise NotReady(
            f"an erasure copies the records of {len(rows)} endpoints",
            detail=[row.physical_name for row in rows],
        )


def is_ingest(row: AssetRow) -> bool:
    """Whether an asset is the topic of an endpoint."""
    if row.kind != AssetKind.KAFKA_TOPIC.value:
        return False
    spec = spec_of(row.spec)
    return isinstance(spec, TopicSpec) and spec.role is TopicRole.INGEST


def _reach(connection: Connection, tenant: TenantId, dataset: str) -> frozenset[int]:
    """Find the logs of a dataset, the topics that its rows came from, and all that follows."""
    logs = on_erasures.logs_of(connection, tenant, dataset)
    found = logs | on_erasures.inputs_of_writers(connection, logs)
    new = found
    while new:
        jobs = on_erasures.dependants(connection, new)
        new = (jobs | on_erasures.outputs_of(connection, jobs)) - found
        found |= new
    return found


def _require_unread(pins: Collection[tuple[int, str]]) -> None:
    holders = sorted({holder for _, holder in pins} & _PINNED)
    if holders:
        raise NotReady("obsolete assets are still read", detail=[*holders])


def _reached(connection: Connection, ids: Collection[int]) -> tuple[ReachedAsset, ...]:
    inputs = on_erasures.inputs(connection, ids)
    return tuple(
        ReachedAsset(
            asset_id=row.asset_id,
            kind=AssetKind(row.kind),
            physical_name=row.physical_name,
            state=AssetState(row.state),
            spec=(spec := spec_of(row.spec)),
            external_id=row.external_id,
            dataset=spec.dataset if isinstance(spec, _JobSpec) else None,
            input=inputs.get(row.asset_id),
        )
        for row in on_erasures.assets_of(connection, ids)
    )


def _alive(rows: Collection[AssetRow]) -> tuple[AssetRow, ...]:
    return tuple(row for row in rows if row.state != AssetState.DESTROYED.value)


def _hold(
    connection: Connection, erasure_id: UUID, owner: str, *allowed: ErasureState
) -> ErasureView:
    """Lock an erasure that this process has leased, and check its state."""
    erasure = on_erasures.find_erasure(connection, erasure_id, lock=True)
    if erasure is None:
        raise NotFound(f"there is no erasure `{erasure_id}`")
    if erasure.state not in allowed:
        raise WrongState(f"erasure `{erasure_id}` is {erasure.state}", detail=erasure.state.value)
    if not on_erasures.has_lease(connection, erasure_id, owner):
        raise Fenced(f"another process carries out erasure `{erasure_id}`")
    return erasure


def _move(connection: Connection, erasure: ErasureView, state: ErasureState) -> None:
    on_erasures.change_erasure(connection, erasure.erasure_id, state=state.value, waits_for="")
    _event(connection, erasure.erasure_id, f"erasure_{state.value}", "ledger")


def _event(connection: Connection, erasure_id: UUID, transition: str, actor: str) -> None:
    on_commits.insert_event(
        connection, transition, actor=actor, detail={"erasure_id": str(erasure_id)}
    )

"""The transactions of an erasure about sinks: obsolete ones delete, then their successors write.

An obsolete sink deletes the rows that its successor's log lacks, and stops. Only then does the
successor write, from the beginning of its log: so whatever was deleted too much comes back, and
no deletion comes after a row that has appeared meanwhile.
"""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex._ir import SinkJobSpec
from narthex_ledger.db.statements import assets as on_assets
from narthex_ledger.db.statements import erased_sinks as on_sinks
from narthex_ledger.db.statements import erasures as on_erasures
from narthex_ledger.db.statements import jobs as on_jobs
from narthex_ledger.errors import NotReady
from narthex_ledger.jobs_and_slots.job_registry import owes_backfill, stop_job
from narthex_ledger.model.erasure_views import ErasureView, ObsoleteSink
from narthex_ledger.model.rows import AssetRow
from narthex_ledger.model.states import AssetState, Desired
from narthex_ledger.model.views import Rules, TenantId
from narthex_ledger.reading.resolved_assets import spec_of


def obsolete_sinks(connection: Connection, erasure_id: UUID) -> tuple[ObsoleteSink, ...]:
    """List the sinks that wrote rows of obsolete assets, each with the log of its successor."""
    rows = on_sinks.obsolete_sinks(connection, erasure_id)
    successors = _successors(connection, rows)
    logs = _logs(connection, {*(row.asset_id for row in rows), *successors.values()})
    return tuple(
        ObsoleteSink(
            asset_id=row.asset_id,
            physical_name=row.physical_name,
            spec=spec,
            log=logs.get(row.asset_id, ""),
            new_log=logs.get(successors.get(row.asset_id, 0)),
        )
        for row in rows
        if isinstance(spec := spec_of(row.spec), SinkJobSpec)
    )


def replaced_sinks(connection: Connection, tenant: TenantId) -> tuple[SinkJobSpec, ...]:
    """List the sinks that were replaced or removed, whose targets may have rows of them."""
    specs = [spec_of(row.spec) for row in on_sinks.replaced_sinks(connection, tenant)]
    return tuple(spec for spec in specs if isinstance(spec, SinkJobSpec))


def stop_writers(connection: Connection, erasure_id: UUID, rules: Rules) -> tuple[str, ...]:
    """Let all obsolete jobs but the sinks stop, so that the logs of these have an end.

    Returns:
        Why some have not stopped yet.
    """
    return _stop(connection, erasure_id, rules, are_sinks=False)


def resume(connection: Connection, erasure_id: UUID) -> None:
    """Let the obsolete sinks run that have successors, also if nothing else keeps them warm."""
    rows = on_sinks.obsolete_sinks(connection, erasure_id)
    _change(connection, _successors(connection, rows), Desired.PAUSED, Desired.RUNNING)


def confirm(connection: Connection, erasure: ErasureView, seen: Json, rules: Rules) -> None:
    """Store what was seen of the deletions, and let the obsolete sinks stop."""
    if erasure.sinks is None:
        on_erasures.change_erasure(connection, erasure.erasure_id, sinks=seen, waits_for="")
    _stop(connection, erasure.erasure_id, rules, are_sinks=True)


def start_successors(connection: Connection, erasure: ErasureView, rules: Rules) -> None:
    """Let the successors write, once the obsolete sinks have stopped."""
    if erasure.sinks is None:
        raise NotReady("sinks have not deleted the rows from their targets")
    why = _stop(connection, erasure.erasure_id, rules, are_sinks=True)
    if why:
        raise NotReady("obsolete sinks are being stopped", detail=[*why])
    rows = on_sinks.obsolete_sinks(connection, erasure.erasure_id)
    successors = _successors(connection, rows).values()
    _change(connection, successors, Desired.STOPPED, Desired.RUNNING)


def _stop(
    connection: Connection, erasure_id: UUID, rules: Rules, *, are_sinks: bool
) -> tuple[str, ...]:
    """Let obsolete jobs stop; return why some have not stopped yet."""
    rows = on_sinks.obsolete_jobs(connection, erasure_id, are_sinks=are_sinks)
    found = [(row, stop_job(connection, row.asset_id, rules)) for row in rows]
    return tuple(f"`{row.physical_name}`: {why}" for row, why in found if why)


def _successors(connection: Connection, sinks: Collection[AssetRow]) -> dict[int, int]:
    """Return the deployed successor of each sink that exists and has one."""
    there = [row.asset_id for row in sinks if _is_there(row)]
    rows = on_erasures.successors(connection, there)
    deployed = on_sinks.deployed(connection, [row.asset_id for row in rows])
    return {row.old_id: row.asset_id for row in rows if row.asset_id in deployed}


def _logs(connection: Connection, sinks: Collection[int]) -> dict[int, str]:
    needs = on_assets.needs_of(connection, sorted(sinks))
    return {n.asset_id: n.physical_name for n in needs if n.role.startswith("input:")}


def _change(
    connection: Connection, jobs: Collection[int], before: Desired, desired: Desired
) -> None:
    """Change the desired state of those jobs that have another one, and that owe no backfill."""
    rows = [on_jobs.lock_job(connection, asset_id) for asset_id in sorted(jobs)]
    changed = [
        row.asset_id for row in rows if row.desired == before.value and not owes_backfill(row)
    ]
    if changed:
        on_jobs.set_desired(connection, changed, desired)
        on_jobs.bump_registry(connection, changed=changed)


def _is_there(row: AssetRow) -> bool:
    return row.state != AssetState.DESTROYED.value

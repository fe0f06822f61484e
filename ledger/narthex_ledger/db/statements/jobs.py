"""Statements on the job registry, slots and engines."""

import datetime as dt
import json
from collections.abc import Sequence
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.mapper import find_row, rows_of
from narthex_ledger.db.schema import (
    ASSET,
    BIG,
    BINDING,
    COUNT,
    CREATE_LEDGER,
    ENGINE,
    JOB,
    JOB_SHARD,
    REGISTRY_VERSION,
    SINK_PROGRESS,
    SLOT_LEASE,
    TEXT,
)
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.errors import NotFound
from narthex_ledger.model.rows import AssetRow, BoundJobRow, JobRow, ShardRow
from narthex_ledger.model.states import Desired, Phase
from narthex_ledger.model.views import Epoch, ShardReport, SlotLease, SlotView

SHARDS = (
    sa.select(
        JOB_SHARD,
        SLOT_LEASE.c.owner.label("slot_owner"),
        SLOT_LEASE.c.epoch.label("slot_epoch"),
        (SLOT_LEASE.c.expires_at > NOW).label("slot_held"),
    )
    .join(
        SLOT_LEASE,
        sa.and_(
            SLOT_LEASE.c.slot_space == JOB_SHARD.c.slot_space,
            SLOT_LEASE.c.slot == JOB_SHARD.c.slot,
        ),
    )
    .order_by(JOB_SHARD.c.asset_id, JOB_SHARD.c.shard)
)
"""All shards with the leases of their slots, by asset."""

_REPORTS = (
    sa.func.unnest(
        sa.cast(sa.bindparam("assets"), ARRAY(BIG)),
        sa.cast(sa.bindparam("shards"), ARRAY(COUNT)),
        sa.cast(sa.bindparam("generations"), ARRAY(BIG)),
        sa.cast(sa.bindparam("epochs"), ARRAY(BIG)),
        sa.cast(sa.bindparam("phases"), ARRAY(TEXT)),
        sa.cast(sa.bindparam("lags"), ARRAY(BIG)),
        sa.cast(sa.bindparam("progresses"), ARRAY(TEXT)),
    )
    .table_valued(
        sa.column("asset_id", BIG),
        sa.column("shard", COUNT),
        sa.column("generation", BIG),
        sa.column("epoch", BIG),
        sa.column("phase", TEXT),
        sa.column("lag_ms", BIG),
        sa.column("progress", TEXT),
        name="reports",
    )
    .render_derived()
)
_IS_REPORTED = sa.and_(
    JOB_SHARD.c.asset_id == _REPORTS.c.asset_id, JOB_SHARD.c.shard == _REPORTS.c.shard
)

FENCED_OFF = 2**62
"""The epoch of a destroyed sink's fence, which no writer ever has."""


def put_slots(connection: Connection, slot_space: str, count: int) -> None:
    """Insert the slots of a space; existing slots do not change."""
    connection.execute(
        insert(SLOT_LEASE)
        .values([{"slot_space": slot_space, "slot": slot} for slot in range(count)])
        .on_conflict_do_nothing()
    )


def slot_count(connection: Connection, slot_space: str) -> int:
    """Return the number of slots of a space, which is fixed at creation."""
    statement = sa.select(sa.func.count()).where(SLOT_LEASE.c.slot_space == slot_space)
    return int(connection.execute(statement).scalar_one())


def insert_job(
    connection: Connection, asset: AssetRow, slot_space: str, slots: Sequence[int]
) -> None:
    """Insert a stopped job for an asset that is locked, with a shard in each of these slots."""
    needs = sa.select(CREATE_LEDGER.c.needs_backfill).where(
        CREATE_LEDGER.c.asset_id == asset.asset_id
    )
    connection.execute(
        sa.insert(JOB).values(
            asset_id=asset.asset_id,
            tenant_id=asset.tenant_id,
            slot_space=slot_space,
            shard_count=len(slots),
            desired=Desired.STOPPED.value,
            spec_sha256=asset.spec_sha256,
            needs_backfill=needs.scalar_subquery(),
        )
    )
    connection.execute(
        sa.insert(JOB_SHARD).values(
            [
                {
                    "asset_id": asset.asset_id,
                    "shard": shard,
                    "slot_space": slot_space,
                    "slot": slot,
                }
                for shard, slot in enumerate(slots)
            ]
        )
    )


def delete_job(connection: Connection, asset_id: int) -> None:
    """Delete the registry rows of an asset that is being destroyed."""
    connection.execute(sa.delete(JOB_SHARD).where(JOB_SHARD.c.asset_id == asset_id))
    connection.execute(sa.delete(JOB).where(JOB.c.asset_id == asset_id))


def insert_sink_fence(connection: Connection, job_key: str) -> None:
    """Insert a sink's fence at epoch 0."""
    connection.execute(
        sa.insert(SINK_PROGRESS).values(job_key=job_key, shard=0, epoch=0, checkpoint_incarnation=1)
    )


def close_sink_fence(connection: Connection, job_key: str) -> None:
    """Raise a sink's fence above every writer, permanently."""
    connection.execute(
        sa.update(SINK_PROGRESS).where(SINK_PROGRESS.c.job_key == job_key).values(epoch=FENCED_OFF)
    )


def lock_job(connection: Connection, asset_id: int) -> JobRow:
    """Lock a job FOR UPDATE: its starts, stops and backfill claims are serialized."""
    statement = (
        sa.select(
            JOB,
            sa.func.coalesce(JOB.c.backfill_expires_at > NOW, sa.false()).label("backfill_held"),
        )
        .where(JOB.c.asset_id == asset_id)
        .with_for_update()
    )
    row = find_row(JobRow, connection.execute(statement))
    if row is None:
        raise NotFound(f"there is no job {asset_id}")
    return row


def lock_jobs(connection: Connection, manifest_id: UUID) -> tuple[BoundJobRow, ...]:
    """Lock all jobs of a manifest FOR UPDATE, by asset, with kind, name and spec."""
    bound = sa.select(BINDING.c.asset_id).where(BINDING.c.manifest_id == manifest_id)
    statement = (
        sa.select(
            JOB,
            ASSET.c.kind,
            ASSET.c.physical_name,
            ASSET.c.spec,
            sa.func.coalesce(JOB.c.backfill_expires_at > NOW, sa.false()).label("backfill_held"),
        )
        .join(ASSET, ASSET.c.asset_id == JOB.c.asset_id)
        .where(JOB.c.asset_id.in_(bound))
        .order_by(JOB.c.asset_id)
        .with_for_update(of=JOB)
    )
    return rows_of(BoundJobRow, connection.execute(statement))


def share_shards(connection: Connection, asset_ids: list[int]) -> tuple[ShardRow, ...]:
    """Lock shards and their slots FOR SHARE: reports and takeovers wait while they are judged."""
    statement = SHARDS.where(JOB_SHARD.c.asset_id.in_(asset_ids)).with_for_update(read=True)
    return rows_of(ShardRow, connection.execute(statement))


def set_desired(connection: Connection, asset_ids: Sequence[int], desired: Desired) -> None:
    """Change locked jobs' desired state; their generations grow, so old reports don't count."""
    connection.execute(
        sa.update(JOB)
        .where(JOB.c.asset_id.in_(asset_ids))
        .values(desired=desired.value, desired_at=NOW, generation=JOB.c.generation + 1)
    )


def change_job(connection: Connection, asset_id: int, **values: object) -> None:
    """Change columns of a locked job."""
    connection.execute(sa.update(JOB).where(JOB.c.asset_id == asset_id).values(**values))


def desired_before(connection: Connection, asset_id: int, settle: dt.timedelta) -> bool:
    """Whether a job's desired state has not changed for this span, by the database's clock."""
    statement = sa.select(JOB.c.desired_at + settle < NOW).where(JOB.c.asset_id == asset_id)
    return bool(connection.execute(statement).scalar_one())


def set_backfill_progress(connection: Connection, asset_id: int, backfill: Json) -> None:
    """Store the bounded run's progress; the job is locked."""
    connection.execute(
        sa.update(JOB_SHARD).where(JOB_SHARD.c.asset_id == asset_id).values(backfill=backfill)
    )


def bump_registry(connection: Connection, *, changed: Sequence[int] = ()) -> int:
    """Notify supervisors that jobs changed; take this lock last, because writers queue here.

    The lock is also why the changed jobs get the new version here: versions are committed in order,
    so whoever sees one sees the changes of all smaller ones.
    """
    bumped = (
        sa.update(REGISTRY_VERSION)
        .values(version=REGISTRY_VERSION.c.version + 1)
        .returning(REGISTRY_VERSION.c.version)
    )
    version = int(connection.execute(bumped).scalar_one())
    if changed:
        marked = sa.update(JOB).where(JOB.c.asset_id.in_(changed))
        connection.execute(marked.values(changed_in=version))
    connection.execute(sa.select(sa.func.pg_notify("narthex_registry", str(version))))
    return version


def claim_slots(
    connection: Connection, owner: str, slot_space: str, slots: Sequence[int], lease_s: float
) -> tuple[SlotLease, ...]:
    """Take those of the slots that are free or expired, each with a greater epoch.

    Locks them by number, skipping those that are locked. Slots that the owner has already keep
    their epoch, so that a claim may be repeated.
    """
    free = sa.or_(SLOT_LEASE.c.owner.is_(None), SLOT_LEASE.c.expires_at < NOW)
    statement = (
        sa.select(SLOT_LEASE.c.slot)
        .where(
            SLOT_LEASE.c.slot_space == slot_space,
            SLOT_LEASE.c.slot.in_(list(slots)),
            sa.or_(free, SLOT_LEASE.c.owner == owner),
        )
        .order_by(SLOT_LEASE.c.slot)
        .with_for_update(skip_locked=True)
    )
    mine = list(connection.execute(statement).scalars())
    taken = (
        sa.update(SLOT_LEASE)
        .where(SLOT_LEASE.c.slot_space == slot_space, SLOT_LEASE.c.slot.in_(mine))
        .values(
            owner=owner,
            epoch=SLOT_LEASE.c.epoch + sa.case((free, 1), else_=0),
            expires_at=NOW + dt.timedelta(seconds=lease_s),
        )
        .returning(SLOT_LEASE.c.slot, SLOT_LEASE.c.epoch)
    )
    return rows_of(SlotLease, connection.execute(taken))


def renew_slots(
    connection: Connection,
    owner: str,
    slot_space: str,
    leases: Sequence[tuple[int, Epoch]],
    lease_s: float,
) -> frozenset[int]:
    """Extend slots' leases of those epochs, if they have not expired; return the extended ones.

    Locks them by number, as a claim does; a claim skips them meanwhile.
    """
    ours = sa.and_(
        SLOT_LEASE.c.slot_space == slot_space,
        SLOT_LEASE.c.owner == owner,
        SLOT_LEASE.c.expires_at > NOW,
        sa.tuple_(SLOT_LEASE.c.slot, SLOT_LEASE.c.epoch).in_(list(leases)),
    )
    held = sa.select(SLOT_LEASE.c.slot).where(ours).order_by(SLOT_LEASE.c.slot).with_for_update()
    slots = list(connection.execute(held).scalars())
    connection.execute(
        sa.update(SLOT_LEASE)
        .where(SLOT_LEASE.c.slot_space == slot_space, SLOT_LEASE.c.slot.in_(slots))
        .values(expires_at=NOW + dt.timedelta(seconds=lease_s))
    )
    return frozenset(slots)


def release_slot(
    connection: Connection, owner: str, slot_space: str, slot: int, epoch: Epoch
) -> None:
    """Release one slot; with an old epoch this changes nothing."""
    connection.execute(
        sa.update(SLOT_LEASE)
        .where(
            SLOT_LEASE.c.slot_space == slot_space,
            SLOT_LEASE.c.slot == slot,
            SLOT_LEASE.c.owner == owner,
            SLOT_LEASE.c.epoch == epoch,
        )
        .values(owner=None, expires_at=sa.text("'-infinity'"))
    )


def release_owner(connection: Connection, slot_space: str, owner: str) -> None:
    """Release all slots of an owner that has no running jobs any more."""
    connection.execute(
        sa.update(SLOT_LEASE)
        .where(SLOT_LEASE.c.slot_space == slot_space, SLOT_LEASE.c.owner == owner)
        .values(owner=None, expires_at=sa.text("'-infinity'"))
    )


def slot_rows(connection: Connection, slot_space: str) -> tuple[SlotView, ...]:
    """List the slots of a space with their current owners; locks nothing."""
    held = SLOT_LEASE.c.expires_at > NOW
    statement = (
        sa.select(
            SLOT_LEASE.c.slot,
            SLOT_LEASE.c.epoch,
            sa.case((held, SLOT_LEASE.c.owner)).label("owner"),
        )
        .where(SLOT_LEASE.c.slot_space == slot_space)
        .order_by(SLOT_LEASE.c.slot)
    )
    return rows_of(SlotView, connection.execute(statement))


def delete_engine(connection: Connection, engine_id: str) -> None:
    """Delete an engine: from now on no slot is assigned to it."""
    connection.execute(sa.delete(ENGINE).where(ENGINE.c.engine_id == engine_id))


def share_slots_of(
    connection: Connection, reports: Sequence[ShardReport]
) -> frozenset[tuple[int, int]]:
    """Lock the slots of reported shards FOR SHARE, so that a takeover waits or is seen.

    Returns the shards, by asset and number, whose reports have their slot's epoch, if its lease has
    not expired.
    """
    statement = (
        sa.select(JOB_SHARD.c.asset_id, JOB_SHARD.c.shard)
        .join(_REPORTS, _IS_REPORTED)
        .join(
            SLOT_LEASE,
            sa.and_(
                SLOT_LEASE.c.slot_space == JOB_SHARD.c.slot_space,
                SLOT_LEASE.c.slot == JOB_SHARD.c.slot,
            ),
        )
        .where(
            SLOT_LEASE.c.epoch == _REPORTS.c.epoch,
            SLOT_LEASE.c.owner.isnot(None),
            SLOT_LEASE.c.expires_at > NOW,
        )
        .order_by(SLOT_LEASE.c.slot)
        .with_for_update(read=True, of=SLOT_LEASE)
    )
    held = connection.execute(statement, _reported(reports))
    return frozenset((row.asset_id, row.shard) for row in held)


def store_reports(connection: Connection, reports: Sequence[ShardReport]) -> None:
    """Store reports, whose slots are locked; locks the shards by asset, as readers of them do."""
    values = _reported(reports)
    shards = sa.select(JOB_SHARD.c.shard).join(_REPORTS, _IS_REPORTED)
    ordered = shards.order_by(JOB_SHARD.c.asset_id, JOB_SHARD.c.shard)
    connection.execute(ordered.with_for_update(key_share=True, of=JOB_SHARD), values)
    again = sa.and_(
        JOB_SHARD.c.seen_generation == _REPORTS.c.generation,
        JOB_SHARD.c.seen_epoch == _REPORTS.c.epoch,
    )
    streak = sa.case((again, JOB_SHARD.c.caught_up_reports), else_=0) + 1
    is_caught_up = _REPORTS.c.phase == Phase.CAUGHT_UP.value
    connection.execute(
        sa.update(JOB_SHARD)
        .where(_IS_REPORTED)
        .values(
            seen_generation=_REPORTS.c.generation,
            seen_epoch=_REPORTS.c.epoch,
            phase=_REPORTS.c.phase,
            caught_up_reports=sa.case((is_caught_up, streak), else_=0),
            lag_ms=_REPORTS.c.lag_ms,
            progress=sa.cast(_REPORTS.c.progress, JSONB),
            reported_at=NOW,
        ),
        values,
    )


def _reported(reports: Sequence[ShardReport]) -> dict[str, object]:
    return {
        "assets": [report.asset_id for report in reports],
        "shards": [report.shard for report in reports],
        "generations": [report.generation for report in reports],
        "epochs": [report.epoch for report in reports],
        "phases": [report.phase.value for report in reports],
        "lags": [report.lag_ms for report in reports],
        "progresses": [
            None if report.progress is None else json.dumps(report.progress) for report in reports
        ],
    }


def put_engine(
    connection: Connection, engine_id: str, slot_space: str, weight: float, info: Json
) -> None:
    """Record that an engine is alive now."""
    values = {"slot_space": slot_space, "weight": weight, "info": info, "seen_at": NOW}
    row = insert(ENGINE).values(engine_id=engine_id, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["engine_id"], set_=values))


def live_engines(connection: Connection, slot_space: str, alive_s: float) -> dict[str, float]:
    """Read the weights of engines seen lately; locks nothing."""
    seen = connection.execute(_seen_engines(slot_space, alive_s))
    return {row.engine_id: row.weight for row in seen}


def engine_infos(connection: Connection, slot_space: str, alive_s: float) -> dict[str, Json]:
    """Read what engines seen lately report of themselves; locks nothing."""
    seen = connection.execute(_seen_engines(slot_space, alive_s))
    return {row.engine_id: row.info for row in seen}


def _seen_engines(slot_space: str, alive_s: float) -> sa.Select[tuple[str, float, Json]]:
    return (
        sa.select(ENGINE.c.engine_id, ENGINE.c.weight, ENGINE.c.info)
        .where(
            ENGINE.c.slot_space == slot_space,
            ENGINE.c.seen_at > NOW - dt.timedelta(seconds=alive_s),
        )
        .order_by(ENGINE.c.engine_id)
    )

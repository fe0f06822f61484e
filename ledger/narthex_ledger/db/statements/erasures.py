"""Statements on erasures, blocked keys and obsolete assets."""

import datetime as dt
import re
from collections.abc import Collection, Sequence
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.mapper import find_row, rows_of
from narthex_ledger.db.schema import (
    ASSET,
    ASSET_DEP,
    BINDING,
    BLOCKED_KEY,
    BLOCKED_SOURCE,
    BRANCH,
    BYTES,
    DEPLOY_COMMIT,
    ERASURE,
    PIN,
    WEBHOOK_CALL,
)
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.model.erasure_views import BlockedSource, ErasureRequest, ErasureView
from narthex_ledger.model.rows import AssetRow, BranchRow, SuccessorRow
from narthex_ledger.model.states import AssetState, ErasureState

OUTPUTS = ("output", "quarantine", "checkpoint", "index", "history", "touched")
"""The roles of what a job writes; it reads all else that it needs."""

_THERE = ASSET.c.state != AssetState.DESTROYED.value
_TOPIC = "kafka_topic"


def insert_erasure(connection: Connection, request: ErasureRequest) -> bool:
    """Insert an erasure; false when its id is taken: a second caller waits, then sees it."""
    row = insert(ERASURE).values(
        erasure_id=request.erasure_id,
        tenant_id=request.tenant,
        branch=request.branch,
        dataset=request.dataset,
        fields=list(request.fields),
        actor=request.actor,
        request_sha256=request.request_sha256,
        state=ErasureState.REQUESTED.value,
        sealed=request.sealed,
        digests=list(request.digests),
        leave_sinks=list(request.leave_sinks),
    )
    return connection.execute(row.on_conflict_do_nothing()).rowcount == 1


def block(connection: Connection, request: ErasureRequest) -> None:
    """Block the keys of an erasure; those that are blocked already stay so."""
    keys = [
        {
            "tenant_id": request.tenant,
            "dataset": request.dataset,
            "digest": digest,
            "erasure_id": request.erasure_id,
        }
        for digest in request.digests
    ]
    connection.execute(insert(BLOCKED_KEY).on_conflict_do_nothing(), keys)


def put_sources(
    connection: Connection, tenant_id: int, sources: Sequence[tuple[BlockedSource, bytes]]
) -> None:
    """Store how rows of endpoints become rows of datasets with blocked keys, by their hashes."""
    rows = [
        {
            "tenant_id": tenant_id,
            "endpoint": source.endpoint,
            "dataset": source.dataset,
            "sha256": sha256,
            "form": source.form,
        }
        for source, sha256 in sources
    ]
    if rows:
        connection.execute(insert(BLOCKED_SOURCE).on_conflict_do_nothing(), rows)


def blocked_sources(
    connection: Connection, tenant_id: int, endpoint: str
) -> tuple[BlockedSource, ...]:
    """Read how rows of an endpoint become rows of datasets with blocked keys."""
    statement = sa.select(BLOCKED_SOURCE).where(
        BLOCKED_SOURCE.c.tenant_id == tenant_id, BLOCKED_SOURCE.c.endpoint == endpoint
    )
    ordered = statement.order_by(BLOCKED_SOURCE.c.dataset, BLOCKED_SOURCE.c.sha256)
    return rows_of(BlockedSource, connection.execute(ordered))


def blocked_fields(connection: Connection, tenant_id: int) -> tuple[tuple[str, list[str]], ...]:
    """Return the datasets with blocked keys, each with the fields of the keys."""
    statement = (
        sa.select(ERASURE.c.dataset, ERASURE.c.fields)
        .where(ERASURE.c.tenant_id == tenant_id)
        .distinct()
        .order_by(ERASURE.c.dataset, ERASURE.c.fields)
    )
    return tuple((row.dataset, row.fields) for row in connection.execute(statement))


def blocked_endpoints(connection: Connection, tenant_id: int, dataset: str) -> frozenset[str]:
    """Return the endpoints whose rows a dataset with blocked keys has or had."""
    statement = sa.select(BLOCKED_SOURCE.c.endpoint).where(
        BLOCKED_SOURCE.c.tenant_id == tenant_id, BLOCKED_SOURCE.c.dataset == dataset
    )
    return frozenset(connection.execute(statement).scalars())


def blocked(
    connection: Connection, tenant_id: int, dataset: str, digests: Collection[bytes]
) -> frozenset[bytes]:
    """Return which of these digests a dataset has blocked."""
    statement = sa.select(BLOCKED_KEY.c.digest).where(
        BLOCKED_KEY.c.tenant_id == tenant_id,
        BLOCKED_KEY.c.dataset == dataset,
        BLOCKED_KEY.c.digest == sa.any_(sa.cast(sorted(digests), ARRAY(BYTES))),
    )
    return frozenset(bytes(found) for found in connection.execute(statement).scalars())


def request_hash(connection: Connection, erasure_id: UUID) -> bytes:
    """Read the hash of an erasure's request."""
    statement = sa.select(ERASURE.c.request_sha256).where(ERASURE.c.erasure_id == erasure_id)
    return bytes(connection.execute(statement).scalar_one())


def find_erasure(
    connection: Connection, erasure_id: UUID, *, lock: bool = False
) -> ErasureView | None:
    """Find an erasure, locked FOR UPDATE if asked."""
    statement = sa.select(ERASURE).where(ERASURE.c.erasure_id == erasure_id)
    return find_row(
        ErasureView, connection.execute(statement.with_for_update() if lock else statement)
    )


def erasures(
    connection: Connection, tenant_id: int, limit: int, *, only_unended: bool
) -> tuple[ErasureView, ...]:
    """List erasures: the newest first, or those that have not ended, the oldest first."""
    statement = sa.select(ERASURE).where(ERASURE.c.tenant_id == tenant_id).limit(limit)
    place = sa.tuple_(ERASURE.c.requested_at, ERASURE.c.erasure_id)
    if only_unended:
        statement = statement.where(ERASURE.c.state != ErasureState.CERTIFIED.value)
        return rows_of(ErasureView, connection.execute(statement.order_by(place)))
    newest = statement.order_by(ERASURE.c.requested_at.desc(), ERASURE.c.erasure_id)
    return rows_of(ErasureView, connection.execute(newest))


def change_erasure(connection: Connection, erasure_id: UUID, **values: object) -> None:
    """Change columns of an erasure; a trigger refuses a move that the state machine lacks."""
    connection.execute(
        sa.update(ERASURE).where(ERASURE.c.erasure_id == erasure_id).values(**values)
    )


def lease_erasure(connection: Connection, erasure_id: UUID, owner: str, lease_s: float) -> bool:
    """Lease an erasure to a process unless another one holds it."""
    leased = (
        sa.update(ERASURE)
        .where(
            ERASURE.c.erasure_id == erasure_id,
            ERASURE.c.state != ErasureState.CERTIFIED.value,
            sa.or_(
                ERASURE.c.owner.is_(None),
                ERASURE.c.owner == owner,
                ERASURE.c.lease_expires_at < NOW,
            ),
        )
        .values(owner=owner, lease_expires_at=NOW + dt.timedelta(seconds=lease_s))
    )
    return connection.execute(leased).rowcount == 1


def has_lease(connection: Connection, erasure_id: UUID, owner: str) -> bool:
    """Whether the process holds the lease of an erasure."""
    statement = sa.select(sa.literal(1)).where(
        ERASURE.c.erasure_id == erasure_id,
        ERASURE.c.owner == owner,
        ERASURE.c.lease_expires_at > NOW,
    )
    return connection.execute(statement).first() is not None


def logs_of(connection: Connection, tenant_id: int, dataset: str) -> frozenset[int]:
    """Return the logs that any commit bound a dataset to, and that exist."""
    statement = (
        sa.select(ASSET.c.asset_id)
        .join(BINDING, BINDING.c.asset_id == ASSET.c.asset_id)
        .where(
            ASSET.c.tenant_id == tenant_id,
            BINDING.c.logical_path == f"dataset/{dataset}/log",
            _THERE,
        )
    )
    return frozenset(connection.execute(statement).scalars())


def inputs_of_writers(connection: Connection, logs: Collection[int]) -> frozenset[int]:
    """Return the ingest topics of the source jobs that write to these logs."""
    writer, read = ASSET_DEP.alias(), ASSET_DEP.alias()
    statement = (
        sa.select(read.c.needs_asset_id)
        .join(writer, writer.c.asset_id == read.c.asset_id)
        .join(ASSET, ASSET.c.asset_id == read.c.needs_asset_id)
        .where(
            writer.c.needs_asset_id.in_(list(logs)),
            writer.c.role == "output",
            read.c.role == "input",
            _THERE,
        )
    )
    return frozenset(connection.execute(statement).scalars())


def dependants(connection: Connection, assets: Collection[int]) -> frozenset[int]:
    """Return the assets that need any of these, and exist."""
    statement = (
        sa.select(ASSET_DEP.c.asset_id)
        .join(ASSET, ASSET.c.asset_id == ASSET_DEP.c.asset_id)
        .where(ASSET_DEP.c.needs_asset_id.in_(list(assets)), _THERE)
    )
    return frozenset(connection.execute(statement).scalars())


def outputs_of(connection: Connection, assets: Collection[int]) -> frozenset[int]:
    """Return what these jobs write, and exists."""
    statement = (
        sa.select(ASSET_DEP.c.needs_asset_id)
        .join(ASSET, ASSET.c.asset_id == ASSET_DEP.c.needs_asset_id)
        .where(ASSET_DEP.c.asset_id.in_(list(assets)), ASSET_DEP.c.role.in_(OUTPUTS), _THERE)
    )
    return frozenset(connection.execute(statement).scalars())


def inputs(connection: Connection, assets: Collection[int]) -> dict[int, str]:
    """Return the physical names of the ingest topics that source jobs read, by job."""
    statement = (
        sa.select(ASSET_DEP.c.asset_id, ASSET.c.physical_name)
        .join(ASSET, ASSET.c.asset_id == ASSET_DEP.c.needs_asset_id)
        .where(ASSET_DEP.c.asset_id.in_(list(assets)), ASSET_DEP.c.role == "input")
    )
    return {row.asset_id: row.physical_name for row in connection.execute(statement)}


def assets_of(
    connection: Connection, assets: Collection[int], *, lock: bool = False
) -> tuple[AssetRow, ...]:
    """Read assets by kind and fingerprint, as plans lock them; FOR UPDATE if asked."""
    statement = (
        sa.select(ASSET)
        .where(ASSET.c.asset_id.in_(list(assets)))
        .order_by(ASSET.c.kind, ASSET.c.fingerprint, ASSET.c.asset_id)
    )
    return rows_of(AssetRow, connection.execute(statement.with_for_update() if lock else statement))


def mark_obsolete(connection: Connection, erasure_id: UUID, assets: Collection[int]) -> None:
    """Mark locked assets as obsolete, except those of an earlier erasure."""
    connection.execute(
        sa.update(ASSET)
        .where(ASSET.c.asset_id.in_(list(assets)), ASSET.c.obsolete_by.is_(None))
        .values(obsolete_by=erasure_id)
    )


def obsolete(connection: Connection, erasure_id: UUID) -> tuple[AssetRow, ...]:
    """Read the assets that an erasure has made obsolete."""
    statement = sa.select(ASSET).where(ASSET.c.obsolete_by == erasure_id)
    return rows_of(AssetRow, connection.execute(statement.order_by(ASSET.c.asset_id)))


def is_obsolete(connection: Connection, asset_id: int) -> bool:
    """Whether an erasure has made the asset obsolete."""
    statement = sa.select(ASSET.c.obsolete_by).where(ASSET.c.asset_id == asset_id)
    return connection.execute(statement).scalar_one() is not None


def binds_obsolete(connection: Connection, manifest_id: UUID) -> bool:
    """Whether a manifest binds assets that an erasure has made obsolete."""
    statement = (
        sa.select(sa.literal(1))
        .select_from(BINDING.join(ASSET, ASSET.c.asset_id == BINDING.c.asset_id))
        .where(BINDING.c.manifest_id == manifest_id, ASSET.c.obsolete_by.isnot(None))
    )
    return connection.execute(statement.limit(1)).first() is not None


def deploying(connection: Connection, erasure_id: UUID) -> tuple[BranchRow, ...]:
    """Read the active branches whose head binds assets that an erasure has made obsolete."""
    bound = (
        sa.select(DEPLOY_COMMIT.c.commit_id)
        .join(BINDING, BINDING.c.manifest_id == DEPLOY_COMMIT.c.manifest_id)
        .join(ASSET, ASSET.c.asset_id == BINDING.c.asset_id)
        .where(ASSET.c.obsolete_by == erasure_id)
    )
    statement = sa.select(BRANCH).where(
        BRANCH.c.state == "active", BRANCH.c.head_commit_id.in_(bound)
    )
    return rows_of(BranchRow, connection.execute(statement.order_by(BRANCH.c.branch_id)))


def count_missing(connection: Connection, commit_id: UUID) -> int:
    """Count the assets of a commit that do not exist yet."""
    statement = (
        sa.select(sa.func.count())
        .select_from(
            DEPLOY_COMMIT.join(BINDING, BINDING.c.manifest_id == DEPLOY_COMMIT.c.manifest_id).join(
                ASSET, ASSET.c.asset_id == BINDING.c.asset_id
            )
        )
        .where(DEPLOY_COMMIT.c.commit_id == commit_id, ASSET.c.state != AssetState.LIVE.value)
    )
    return int(connection.execute(statement).scalar_one())


OLD = ASSET.alias("old")
FOLLOWS = sa.and_(
    OLD.c.tenant_id == ASSET.c.tenant_id,
    OLD.c.kind == ASSET.c.kind,
    OLD.c.fp_version == ASSET.c.fp_version,
    OLD.c.fingerprint == ASSET.c.fingerprint,
    OLD.c.incarnation < ASSET.c.incarnation,
    OLD.c.obsolete_by.isnot(None),
    OLD.c.state != AssetState.DESTROYED.value,
)


def successors(connection: Connection, assets: Collection[int]) -> tuple[SuccessorRow, ...]:
    """Return the live assets that take the place of obsolete ones, the newest last."""
    statement = (
        sa.select(ASSET, OLD.c.asset_id.label("old_id"))
        .join(OLD, FOLLOWS)
        .where(
            OLD.c.asset_id.in_(list(assets)),
            ASSET.c.obsolete_by.is_(None),
            ASSET.c.state == AssetState.LIVE.value,
        )
        .order_by(ASSET.c.incarnation)
    )
    return rows_of(SuccessorRow, connection.execute(statement))


def unfilled(connection: Connection, manifest_id: UUID) -> tuple[AssetRow, ...]:
    """Read the topics of a manifest that take the place of obsolete ones and are not filled."""
    bound = sa.select(BINDING.c.asset_id).where(BINDING.c.manifest_id == manifest_id)
    statement = sa.select(ASSET).where(
        ASSET.c.asset_id.in_(bound),
        ASSET.c.kind == _TOPIC,
        ASSET.c.filled_from.is_(None),
        sa.select(sa.literal(1)).select_from(OLD).where(FOLLOWS).exists(),
    )
    return rows_of(AssetRow, connection.execute(statement))


def set_filled(connection: Connection, new_id: int, old_id: int) -> None:
    """Record that a topic has the remaining records of an obsolete one."""
    connection.execute(
        sa.update(ASSET).where(ASSET.c.asset_id == new_id).values(filled_from=old_id)
    )


def copy_calls(connection: Connection, old_topic: str, new_topic: str) -> None:
    """Let calls that were appended to one topic count as appended to another one."""
    names = [column.name for column in WEBHOOK_CALL.c if column.name != "topic"]
    calls = sa.select(
        sa.literal(new_topic).label("topic"), *(WEBHOOK_CALL.c[name] for name in names)
    ).where(WEBHOOK_CALL.c.topic == old_topic)
    connection.execute(
        insert(WEBHOOK_CALL).from_select(["topic", *names], calls).on_conflict_do_nothing()
    )


def is_held(connection: Connection, topic: str) -> bool:
    """Whether the records of a topic are being copied, so that it accepts no more."""
    statement = (
        sa.select(sa.literal(1))
        .select_from(ASSET.join(ERASURE, ERASURE.c.erasure_id == ASSET.c.obsolete_by))
        .where(
            ASSET.c.physical_name == topic,
            ERASURE.c.state.notin_([ErasureState.REQUESTED.value, ErasureState.REBUILDING.value]),
        )
    )
    return connection.execute(statement).first() is not None


def pins_on_obsolete(connection: Connection, erasure_id: UUID) -> tuple[tuple[int, str], ...]:
    """Lock the pins that reach obsolete assets, by id; return each with its holder."""
    bound = (
        sa.select(BINDING.c.manifest_id)
        .join(ASSET, ASSET.c.asset_id == BINDING.c.asset_id)
        .where(ASSET.c.obsolete_by == erasure_id)
    )
    statement = (
        sa.select(PIN.c.pin_id, PIN.c.holder)
        .where(PIN.c.manifest_id.in_(bound))
        .order_by(PIN.c.pin_id)
        .with_for_update()
    )
    return tuple((row.pin_id, row.holder) for row in connection.execute(statement))


def texts(connection: Connection) -> tuple[str, ...]:
    """List the tables of the database."""
    statement = sa.text(
        "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY table_name"
    )
    return tuple(connection.execute(statement).scalars())


def count_rows_with(connection: Connection, table: str, needles: Sequence[str]) -> tuple[int, int]:
    """Count the rows of a table, and those whose text has any of these strings as a word.

    Digits after a point are a fraction, as of a second, and no word.
    """
    named = sa.table(table)
    row = sa.cast(sa.literal_column(f'"{table}"'), sa.Text())
    has = sa.or_(sa.false(), *(_has_word(row, needle) for needle in needles))
    statement = sa.select(sa.func.count(), sa.func.count().filter(has)).select_from(named)
    total, found = connection.execute(statement).one()
    return int(total), int(found)


def _has_word(row: sa.Cast[str], text: str) -> sa.ColumnElement[bool]:
    before = "[^[:alnum:]_.]" if text.isdigit() else "[^[:alnum:]_]"
    pattern = f"(^|{before}){re.escape(text)}($|[^[:alnum:]_])"
    return sa.and_(sa.func.strpos(row, text) > 0, row.op("~")(pattern))


def put_certificate(
    connection: Connection, erasure_id: UUID, certificate: Json, signature: bytes | None
) -> None:
    """End an erasure: store its certificate, and delete the values of its keys."""
    change_erasure(
        connection,
        erasure_id,
        state=ErasureState.CERTIFIED.value,
        certificate=certificate,
        signature=signature,
        sealed=None,
        waits_for="",
        owner=None,
        lease_expires_at=None,
        finished_at=NOW,
    )


def signature_of(connection: Connection, certificate: Json) -> bytes | None:
    """Find the signature of the erasure that has exactly this certificate; locks nothing."""
    statement = sa.select(ERASURE.c.signature).where(ERASURE.c.certificate == certificate)
    signature = connection.execute(statement.limit(1)).scalar_one_or_none()
    return None if signature is None else bytes(signature)


def seal_again(connection: Connection, erasure_id: UUID, *, old: Json, sealed: Json) -> bool:
    """Replace the sealed form of an erasure's keys; false if it is another one by now."""
    statement = sa.update(ERASURE).where(
        ERASURE.c.erasure_id == erasure_id, ERASURE.c.sealed == old
    )
    return connection.execute(statement.values(sealed=sealed)).rowcount == 1

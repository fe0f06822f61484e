"""Offline queries: queued by the server, and each run by one engine at a time.

Tokens and their branches take turns, and each query has a limited time to run.
"""

import datetime as dt
from collections.abc import Collection
from uuid import UUID

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.statements import offline as on_offline
from narthex_ledger.db.statements import pins as on_pins
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.errors import (
    Fenced,
    LedgerRefused,
    NotPinned,
    NotSigned,
    TooManyOfflineQueries,
)
from narthex_ledger.model.offline_views import OfflineView
from narthex_ledger.model.rows import OfflineQueryRow
from narthex_ledger.model.states import OfflineState
from narthex_ledger.model.views import Epoch
from narthex_ledger.signing.row_checks import Checker


def submit(  # noqa: PLR0913 - a query has these parts
    connection: Connection,
    request_id: UUID,
    manifest_id: UUID,
    *,
    request: Json,
    actor: str,
    signature: bytes | None,
    most_of_actor: int | None,
) -> OfflineView:
    """Queue a query, and pin its manifest until it ends."""
    before = on_offline.find_query(connection, request_id)
    if before is not None:
        return _view(before)
    if most_of_actor is not None:
        on_offline.lock_queue(connection)
        count = on_offline.count_open(connection, actor)
        if count >= most_of_actor:
            raise TooManyOfflineQueries(count, most=most_of_actor)
    pins = on_pins.lock_pins(connection, manifest_id)
    if not pins:
        raise NotPinned(f"manifest `{manifest_id}` has no pins")
    pin_id = on_pins.insert_pin(
        connection,
        manifest_id=manifest_id,
        branch_id=pins[0].branch_id,
        commit_id=pins[0].commit_id,
        holder="hold",
    )
    fresh = on_offline.insert_query(
        connection,
        request_id=request_id,
        manifest_id=manifest_id,
        pin_id=pin_id,
        actor=actor,
        request=request,
        signature=signature,
    )
    if not fresh:
        on_pins.delete_pin(connection, pin_id)
    return _view(on_offline.read_query(connection, request_id))


def view(connection: Connection, request_id: UUID) -> OfflineView:
    """Read a query."""
    return _view(on_offline.read_query(connection, request_id))


def newest(
    connection: Connection, branch: str, limit: int, before: UUID | None
) -> tuple[OfflineView, ...]:
    """List the queries of a branch, the newest first."""
    return tuple(map(_view, on_offline.newest_queries(connection, branch, limit, before)))


def claim(
    connection: Connection, owner: str, lease_s: float, checker: Checker, *, at_once: int
) -> OfflineView | None:
    """Lease the next query that is queued or abandoned; fail one without a valid signature."""
    limits = (at_once, at_once - 1) if at_once > 1 else (None, None)
    on_offline.lock_queue(connection)
    waiting = on_offline.next_query(connection, owner, *limits)
    while waiting is not None and not _is_signed(connection, waiting, checker):
        waiting = on_offline.next_query(connection, owner, *limits)
    if waiting is None:
        return None
    return _view(on_offline.lease_query(connection, waiting.request_id, owner, lease_s))


def extend(
    connection: Connection,
    request_id: UUID,
    epoch: Epoch,
    lease_s: float,
    *,
    within_s: float | None,
) -> bool:
    """Extend a query's lease; fail it and return false if it has run for longer than allowed."""
    row = _hold(connection, request_id, epoch)
    if within_s is not None and on_offline.ran_longer(connection, request_id, within_s):
        _end(connection, row, OfflineState.FAILED, error=_too_long(within_s))
        return False
    until = NOW + dt.timedelta(seconds=lease_s)
    on_offline.change_query(connection, request_id, lease_expires_at=until)
    return True


def progress(connection: Connection, request_id: UUID, epoch: Epoch, words: Json) -> None:
    """Store a query's progress."""
    _hold(connection, request_id, epoch)
    on_offline.change_query(connection, request_id, progress=words)


def finish(
    connection: Connection, request_id: UUID, epoch: Epoch, state: OfflineState, outcome: Json
) -> None:
    """End a query, done or failed, and unpin its manifest."""
    row = on_offline.lock_query(connection, request_id)
    if row.state == state.value and row.epoch == epoch:
        return
    row = _hold(connection, request_id, epoch)
    field = "result" if state is OfflineState.DONE else "error"
    _end(connection, row, state, **{field: outcome})


def cancel(connection: Connection, request_id: UUID) -> OfflineState:
    """End a query that has not ended; its engine's next call raises Fenced."""
    row = on_offline.lock_query(connection, request_id)
    state = OfflineState(row.state)
    if state not in {OfflineState.QUEUED, OfflineState.RUNNING}:
        return state
    _end(connection, row, OfflineState.CANCELLED)
    return OfflineState.CANCELLED


def kept(connection: Connection, ids: Collection[UUID], keep: dt.timedelta) -> frozenset[UUID]:
    """Return which queries have not ended, or ended less than so long ago."""
    return on_offline.kept_queries(connection, ids, keep)


def _is_signed(connection: Connection, row: OfflineQueryRow, checker: Checker) -> bool:
    try:
        checker.offline(row)
    except NotSigned as error:
        _end(connection, row, OfflineState.FAILED, error={"message": str(error)})
        return False
    return True


def _too_long(within_s: float) -> str:
    return (
        f"the query took longer than {within_s:g} s, the greatest time of an offline query; ask "
        "for fewer rows or features at a time, or let an operator raise "
        "`NARTHEX_OFFLINE_QUERY_GREATEST_S`"
    )


def _hold(connection: Connection, request_id: UUID, epoch: Epoch) -> OfflineQueryRow:
    row = on_offline.lock_query(connection, request_id)
    if row.epoch != epoch or row.state != OfflineState.RUNNING.value:
        raise Fenced(f"offline query `{request_id}` is {row.state} at epoch {row.epoch}")
    return row


def _end(connection: Connection, row: OfflineQueryRow, state: OfflineState, **values: Json) -> None:
    if row.pin_id is None:
        raise LedgerRefused(f"offline query `{row.request_id}` has ended")
    on_pins.delete_pin(connection, row.pin_id)
    on_offline.change_query(
        connection,
        row.request_id,
        state=state.value,
        pin_id=None,
        owner=None,
        lease_expires_at=None,
        finished_at=NOW,
        **values,
    )


def _view(row: OfflineQueryRow) -> OfflineView:
    return OfflineView(
        request_id=row.request_id,
        state=OfflineState(row.state),
        manifest_id=row.manifest_id,
        actor=row.actor,
        request=row.request,
        progress=row.progress,
        result=row.result,
        error=row.error,
        owner=row.owner,
        epoch=Epoch(row.epoch),
        submitted_at=row.submitted_at,
        finished_at=row.finished_at,
    )

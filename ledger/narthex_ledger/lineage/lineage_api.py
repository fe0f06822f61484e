"""The part of the ledger for lineage."""

from typing import Final
from uuid import UUID

import attrs
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db import lineage_rows as on_lineage
from narthex_ledger.db.single_leases import claim, release
from narthex_ledger.errors import Fenced
from narthex_ledger.model.lineage_views import LineageBatch, LineagePosition, LineageStatus
from narthex_ledger.model.views import EventView
from narthex_ledger.session import LedgerDatabase

_BACKFILL: Final = "backfill:"
"""Before the commit's id in the name of a backfill's owner."""


@attrs.frozen
class LineageEvents:
    """The ledger's events, each to be sent at least once; each method is one transaction.

    One server sends them: it holds a lease.
    """

    _db: LedgerDatabase

    def hold(self, owner: str) -> bool:
        """Lease the sending for 60 s, or extend the lease; false if another server has it."""
        lease_s = self._db.rules.lineage_lease_s
        return self._db.run("hold_lineage", lambda c: claim(c, "lineage", owner, lease_s))

    def release(self, owner: str) -> None:
        """End the lease of a server that stops, so that another one need not wait."""
        self._db.run("release_lineage", lambda c: release(c, "lineage", owner))

    def unsent(self, limit: int) -> LineageBatch:
        """Read the oldest events that were not sent, at most so many; it locks nothing.

        An event that becomes visible after later ones were sent is read then.
        """

        def work(connection: Connection) -> LineageBatch:
            now, position = on_lineage.read_position(connection)
            events = on_lineage.events_after(connection, position, limit)
            introduced_by = on_lineage.introducers(
                connection, {asset_id for event in events for asset_id in assets_of(event)}
            )
            audited = {audit_of(event) for event in events}
            audits = on_lineage.audits_of(connection, [one for one in audited if one is not None])
            commits = {
                *introduced_by.values(),
                *(commit_of(event) for event in events),
                *(audit.commit_id for audit in audits.values()),
            }
            return LineageBatch(
                now=now,
                position=position,
                events=events,
                commits=on_lineage.commits_of(
                    connection, [one for one in commits if one is not None]
                ),
                introduced_by=introduced_by,
                audits=audits,
            )

        return self._db.run("unsent_lineage", work)

    def advance(self, owner: str, position: LineagePosition) -> None:
        """Store that the events up to a position were sent.

        Raises:
            Fenced: The server has lost the lease.
        """
        self._change("advance_lineage", owner, on_lineage.plain_position(position))

    def delivered(self, owner: str) -> None:
        """Record that the receiver takes events.

        Raises:
            Fenced: The server has lost the lease.
        """
        self._change("lineage_delivered", owner, {"failures": 0, "error": ""})

    def failed(self, owner: str, *, error: str, failures: int) -> None:
        """Record why an event was not delivered, and how many attempts in a row have failed.

        Raises:
            Fenced: The server has lost the lease.
        """
        self._change("lineage_failed", owner, {"failures": failures, "error": error})

    def status(self) -> LineageStatus:
        """Read how far the sending is behind; without a server that sends, it is behind nothing."""
        return self._db.run("lineage_status", on_lineage.read_status)

    def _change(self, name: str, owner: str, values: dict[str, Json]) -> None:
        def work(connection: Connection) -> None:
            if not on_lineage.change_sender(connection, owner, **values):
                raise Fenced("another server sends the lineage")

        self._db.run(name, work)


def commit_of(event: EventView) -> UUID | None:
    """Return the commit of an event, or that for which a backfill runs; None without one."""
    if event.commit_id is not None:
        return event.commit_id
    _, is_backfill, commit_id = event.actor.partition(_BACKFILL)
    try:
        return UUID(commit_id) if is_backfill else None
    except ValueError:
        return None


def assets_of(event: EventView) -> tuple[int, ...]:
    """Return the assets of an event: its own, or the jobs that a commit started."""
    if event.asset_id is not None:
        return (event.asset_id,)
    match event.transition, event.detail:
        case "jobs_started", list(started):
            return tuple(one for one in started if isinstance(one, int))
        case _:
            return ()


def audit_of(event: EventView) -> UUID | None:
    """Return the audit of an event; None for an event of something else."""
    match event.transition, event.detail:
        case "audited", {"audit_id": str(audit_id)}:
            return UUID(audit_id)
        case _:
            return None

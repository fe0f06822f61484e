"""The part of the ledger for alerts."""

import datetime as dt
from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

import attrs
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.single_leases import claim, release
from narthex_ledger.db.statements import alerts as on_alerts
from narthex_ledger.errors import Fenced, NotFound
from narthex_ledger.model.alert_views import (
    AlertFinding,
    AlertKey,
    AlertState,
    EndedCommitView,
    NoticeView,
    SilenceView,
)
from narthex_ledger.session import LedgerDatabase

KEPT: Final = dt.timedelta(days=1)
"""How long ended silences, and notices without alerts, are stored."""


@attrs.frozen(kw_only=True)
class NoticeChange:
    """A notice, and the one that it replaces; None if the receiver knew nothing of its alerts."""

    before: NoticeView | None
    after: NoticeView


@attrs.frozen
class Alerts:
    """Alerts and their delivery; each method is one transaction and may be repeated as it is.

    One server evaluates the rules and delivers messages: it holds a lease.
    """

    _db: LedgerDatabase

    def hold(self, owner: str) -> bool:
        """Lease the evaluation for 60 s, or extend the lease; false if another server has it."""
        lease_s = self._db.rules.alert_lease_s
        return self._db.run("hold_alerts", lambda c: claim(c, "alerts", owner, lease_s))

    def release(self, owner: str) -> None:
        """End the lease of a server that stops, so that another one need not wait."""
        self._db.run("release_alerts", lambda c: release(c, "alerts", owner))

    def state(self) -> AlertState:
        """Read all that is stored about alerts."""
        return self._db.run("alert_state", on_alerts.read_state)

    def store(
        self,
        owner: str,
        findings: Sequence[AlertFinding],
        *,
        changes: Sequence[NoticeChange],
        memory: Json,
    ) -> None:
        """Store the outcome of an evaluation: exactly these findings fire.

        A notice whose message was delivered meanwhile stays as it is.

        Raises:
            Fenced: The server has lost the lease.
        """
        keys = {finding.key for finding in findings}

        def work(connection: Connection) -> None:
            if not on_alerts.holds_evaluation(connection, owner, lock=True):
                raise Fenced("another server evaluates the alerts")
            known = {alert.key for alert in on_alerts.read_state(connection).alerts}
            on_alerts.delete_alerts(connection, known - keys)
            on_alerts.put_alerts(connection, findings)
            for change in changes:
                on_alerts.put_notice(connection, change.before, change.after)
            on_alerts.put_memory(connection, memory)

        self._db.run("store_alerts", work)

    def forget(self, receivers: Collection[str]) -> None:
        """Delete what ended long ago, and what receivers knew that no longer exist."""
        self._db.run("forget_alerts", lambda c: on_alerts.delete_old(c, receivers, KEPT))

    def report(self, finding: AlertFinding, *, lasts: dt.timedelta) -> None:
        """Store a finding of another process than the server; the next evaluation fires it.

        It ends with `end_report`, or by itself if it is not reported again for `lasts`.
        """
        self._db.run("report_finding", lambda c: on_alerts.put_finding(c, finding, lasts))

    def end_report(self, key: AlertKey) -> bool:
        """End a finding of another process; false if there is none."""
        return self._db.run("end_finding", lambda c: on_alerts.delete_finding(c, key))

    def silence(self, silence: SilenceView) -> None:
        """Store a silence."""
        self._db.run("silence_alerts", lambda c: on_alerts.put_silence(c, silence))

    def end_silence(self, silence_id: UUID) -> None:
        """End a silence.

        Raises:
            NotFound: No silence has that id.
        """

        def work(connection: Connection) -> None:
            if not on_alerts.delete_silence(connection, silence_id):
                raise NotFound(f"there is no silence `{silence_id}`")

        self._db.run("end_silence", work)

    def newest_ended_commits(self, *, within: dt.timedelta) -> tuple[EndedCommitView, ...]:
        """List the deployment of each branch that ended last within a time, or is being undone."""
        return self._db.run(
            "newest_ended_commits", lambda c: on_alerts.newest_ended_commits(c, within)
        )

    def due(self, owner: str) -> tuple[NoticeView, ...]:
        """List the messages to deliver now; none for a server without the lease."""

        def work(connection: Connection) -> tuple[NoticeView, ...]:
            is_mine = on_alerts.holds_evaluation(connection, owner, lock=False)
            return on_alerts.due_notices(connection) if is_mine else ()

        return self._db.run("due_notices", work)

    def delivered(self, message_id: UUID) -> bool:
        """Record that a receiver got a message; false if a newer one has replaced it."""
        return self._db.run("notice_delivered", lambda c: on_alerts.note_delivery(c, message_id))

    def failed(self, message_id: UUID, *, error: str, delay: dt.timedelta) -> None:
        """Record why a message was not delivered, and when it is tried again."""
        self._db.run("notice_failed", lambda c: on_alerts.note_failure(c, message_id, error, delay))

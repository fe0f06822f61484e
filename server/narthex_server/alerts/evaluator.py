"""The loop that evaluates the rules and delivers messages, in one server of an installation.

The server holds a lease in the ledger. All that is announced is stored before it is sent, so that
after a crash another server goes on: a message may arrive twice, and none is lost.
"""

import datetime as dt
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from uuid import UUID

import attrs
import structlog

from narthex._base import Backoff
from narthex_ledger import (
    AlertFinding,
    AlertState,
    AlertView,
    LedgerError,
    NoticeView,
)
from narthex_server.alerts.configuration import (
    RULES,
    AlertsFile,
    AlertsFileInvalid,
    Receiver,
    load_alerts_file,
)
from narthex_server.alerts.messages import read_message
from narthex_server.alerts.notices import next_changes, timing_of
from narthex_server.alerts.observations import Observer, remembered
from narthex_server.alerts.receivers import NotDelivered, Sender
from narthex_server.alerts.rules import evaluate
from narthex_server.background_loop import BackgroundLoop
from narthex_server.security.secrets import SecretUnreadable, stored_secret
from narthex_server.services.container import Services

log = structlog.get_logger()

DELIVER_EVERY_S: Final = 1.0
AT_ONCE: Final = 4
"""How many receivers get messages at the same time."""

TURN_S: Final = 30.0
"""After this time a receiver gets no further message before the others had their turn."""

RETRIES: Final = Backoff(first_s=5.0, greatest_s=300.0)
FILE_RULE: Final = "alerts_file"
"""The rule of the finding that the alerts file has mistakes; the last valid one still applies."""


def sender_of(services: Services) -> Sender:
    """Return what sends messages for an installation, with its secrets."""

    def secret(name: str) -> str:
        try:
            return stored_secret(services, name)
        except SecretUnreadable as error:
            raise NotDelivered(str(error)) from None

    return Sender(secret=secret, ca_file=services.settings.ca_file)


class AlertLoop:
    """Evaluates the rules of one installation, if no other server does, and delivers messages."""

    def __init__(self, services: Services) -> None:
        """Prepare the loop; `start` begins the work."""
        self._services = services
        self._ledger = services.ledger
        self._owner = services.collector.owner
        self._observer = Observer(
            ledger=services.ledger,
            served=services.served,
            ends=services.ends,
            ca_file=services.settings.ca_file,
        )
        self._sender = sender_of(services)
        self._file = AlertsFile()
        self._mistakes: tuple[str, ...] = ()
        # Receivers that are slow must not delay the rules.
        self._rules = BackgroundLoop(
            self.evaluate,
            name="alerts",
            event="alerts_not_evaluated",
            pause_s=self._pause_s,
        )
        self._notices = BackgroundLoop(
            self.deliver,
            name="notices",
            event="notices_not_delivered",
            pause_s=lambda: DELIVER_EVERY_S,
        )
        self._is_first = True

    def start(self) -> None:
        """Evaluate and deliver until `stop`; the first evaluation is now."""
        self._is_first = True
        self._rules.start()
        self._notices.start()

    def stop(self) -> None:
        """Stop after the evaluation and the deliveries in progress, and free the lease."""
        self._notices.ask_to_stop()
        self._rules.stop()
        self._notices.stop()
        try:
            self._ledger.alerts.release(self._owner)
        except LedgerError as error:
            log.warning("alert_lease_not_released", error=str(error))

    def evaluate(self) -> bool:
        """Evaluate all rules once; return whether this server holds the lease.

        Raises:
            LedgerError: The ledger does not answer, or the lease was lost.
        """
        file = self._read_file()
        if not self._ledger.alerts.hold(self._owner):
            return False
        state = self._ledger.alerts.state()
        observations = self._observer.observe(file, now=state.now, memory=state.memory)
        evaluation = evaluate(observations, file.rules)
        findings = merged(
            (*evaluation.findings, *self._own_findings()), state, unknown=evaluation.unknown
        )
        alerts = alerts_of(findings, state)
        self._ledger.alerts.store(
            self._owner,
            findings,
            changes=next_changes(state, alerts, file, new_ids()),
            memory=remembered(observations),
        )
        self._ledger.alerts.forget([receiver.name for receiver in file.receivers])
        _log_changes(state.alerts, alerts)
        return True

    def deliver(self) -> None:
        """Send the messages that are due; each receiver has its own turn.

        Raises:
            LedgerError: The ledger does not answer.
        """
        by_receiver: dict[str, list[NoticeView]] = {}
        for notice in self._ledger.alerts.due(self._owner):
            by_receiver.setdefault(notice.receiver, []).append(notice)
        receivers = {receiver.name: receiver for receiver in self._file.receivers}
        turns = [(receivers[name], due) for name, due in by_receiver.items() if name in receivers]
        if turns:
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="notices") as pool:
                list(pool.map(lambda turn: self._deliver_to(*turn), turns))

    def _deliver_to(self, receiver: Receiver, due: Sequence[NoticeView]) -> None:
        ends_at = time.monotonic() + TURN_S
        for notice in due:
            if self._notices.is_stopping or not self._deliver_one(receiver, notice):
                return
            if time.monotonic() > ends_at:  # the others' turn
                return

    def _deliver_one(self, receiver: Receiver, notice: NoticeView) -> bool:
        """Send one message and record the outcome; return whether it was delivered."""
        message_id = notice.message_id
        if message_id is None:
            return True
        group = {"receiver": receiver.name, "rule": notice.rule, "branch": notice.branch}
        message = read_message(
            notice.message,
            message_id=message_id,
            install_id=self._services.settings.install_id,
            console_url=self._file.console_url or self._services.settings.server_url,
        )
        repeat_every = timing_of(self._file, receiver).repeat_every
        meter = self._services.meters.notices
        try:
            self._sender.send(receiver, message, repeat_every=repeat_every)
        except NotDelivered as error:
            delay_s = RETRIES.delay_s(notice.attempts + 1)
            delay = dt.timedelta(seconds=max(delay_s, RETRIES.first_s))
            self._ledger.alerts.failed(message_id, error=str(error), delay=delay)
            meter.add(receiver=receiver.name, outcome="failed")
            log.warning(
                "notice_not_delivered", **group, attempt=notice.attempts + 1, why=str(error)
            )
            return False
        self._ledger.alerts.delivered(message_id)
        meter.add(receiver=receiver.name, outcome="delivered")
        log.info("notice_delivered", **group, status=message.status, alerts=len(message.alerts))
        return True

    def _read_file(self) -> AlertsFile:
        """Return the alerts file; while it has mistakes, the one that was valid last."""
        try:
            self._file = load_alerts_file(self._services.settings.alerts_file)
            self._mistakes = ()
        except AlertsFileInvalid as error:
            if error.mistakes != self._mistakes:
                log.warning("alerts_file_invalid", error=str(error))
            self._mistakes = error.mistakes
        return self._file

    def _own_findings(self) -> Iterator[AlertFinding]:
        if self._mistakes:
            yield AlertFinding(
                rule=FILE_RULE,
                branch="",
                subject=self._services.settings.alerts_file.name,
                severity="critical",
                summary=f"The alerts file has {len(self._mistakes)} mistakes; the last valid one "
                f"applies. The first mistake: {self._mistakes[0]}",
                remedy="Correct the file; `narthex alerts list` shows all mistakes.",
                page="console/alerts",
            )

    def _pause_s(self) -> float:
        """Return how long to wait before an evaluation: not at all before the first one."""
        is_first, self._is_first = self._is_first, False
        return 0.0 if is_first else self._file.evaluate_every.total_seconds()


def new_ids() -> Iterator[UUID]:
    """Yield ids of new messages."""
    while True:
        yield uuid.uuid4()  # noqa: TID251 - the edge gives the id


def merged(
    found: Sequence[AlertFinding], state: AlertState, *, unknown: frozenset[str]
) -> list[AlertFinding]:
    """Return all that fires: by the rules, by other processes, and before by unknown rules.

    Other processes cannot report findings of the server's own rules.
    """
    all_of = {one.key: one for one in found}
    for reported in state.reported:
        if reported.rule not in RULES:
            all_of.setdefault(reported.key, reported)
    for alert in state.alerts:
        if alert.rule in unknown:
            all_of.setdefault(alert.key, _finding(alert))
    return [all_of[key] for key in sorted(all_of)]


def _finding(alert: AlertView) -> AlertFinding:
    plain = attrs.asdict(alert)
    del plain["started_at"]
    return AlertFinding(**plain)


def alerts_of(findings: Sequence[AlertFinding], state: AlertState) -> list[AlertView]:
    """Return the findings as alerts: those that fired before keep their start."""
    started = {alert.key: alert.started_at for alert in state.alerts}
    return [
        AlertView(**attrs.asdict(finding), started_at=started.get(finding.key, state.now))
        for finding in findings
    ]


def _log_changes(before: Sequence[AlertView], after: Sequence[AlertView]) -> None:
    known, now = {one.key for one in before}, {one.key for one in after}
    for alert in after:
        if alert.key not in known:
            log.warning(
                "alert_started",
                rule=alert.rule,
                branch=alert.branch,
                subject=alert.subject,
                severity=alert.severity,
                summary=alert.summary,
            )
    for alert in before:
        if alert.key not in now:
            log.info("alert_ended", rule=alert.rule, branch=alert.branch, subject=alert.subject)

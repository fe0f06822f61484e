"""Alerts in the world of crash tests: the real loop; each message to the receiver is a point."""

import datetime as dt
from typing import Final

import attrs
from typing_extensions import override

from narthex.settings import Settings
from narthex_ledger import Ledger, TenantId
from narthex_server.alerts.configuration import Receiver
from narthex_server.alerts.evaluator import AlertLoop
from narthex_server.alerts.messages import AlertMessage
from narthex_server.alerts.receivers import NotDelivered, Sender
from narthex_server.deploy.garbage_collector import Collector
from narthex_server.services.meters import Meters
from narthex_server.services.served_branches import ServedBranches
from narthex_stores import EndOffsetReader, TransientError
from tests.crash.points import FaultHook

ALERTS_FILE: Final = """
group_wait = "1s"
group_interval = "1s"
[[receivers]]
name = "on-call"
kind = "webhook"
url = "http://127.0.0.1:1/on-call"
"""


@attrs.define
class Inbox:
    """The messages that a receiver has got, which outlive every process.

    Attributes:
        messages: In the order of their arrival.
        late: Messages under way.
        is_down: Whether the receiver takes nothing.
    """

    messages: list[AlertMessage] = attrs.field(factory=list)
    late: list[AlertMessage] = attrs.field(factory=list)
    is_down: bool = False

    def land(self) -> None:
        """Let the messages under way arrive."""
        self.messages += self.late
        self.late.clear()

    def firing(self) -> set[str]:
        """The subjects of the alerts that fire, as far as the receiver knows."""
        found: set[str] = set()
        for message in self.messages:
            found |= {alert.subject for alert in message.firing}
            found -= {alert.subject for alert in message.resolved}
        return found


@attrs.frozen(kw_only=True)
class AlertServices:
    """The parts of a server that its alerts need."""

    ledger: Ledger
    tenant: TenantId
    settings: Settings
    collector: Collector
    meters: Meters = attrs.field(factory=Meters)

    @property
    def ends(self) -> EndOffsetReader:
        """What reads the ends of topics."""
        return EndOffsetReader(self.settings.kafka)

    @property
    def served(self) -> ServedBranches:
        """The branches, of which a server that starts remembers none."""
        return ServedBranches(ledger=self.ledger, tenant=self.tenant)


@attrs.frozen
class FaultHookedSender(Sender):
    """Sends to the inbox of the world."""

    inbox: Inbox = attrs.field(kw_only=True)
    fault_hook: FaultHook = attrs.field(kw_only=True)

    @override
    def send(
        self, receiver: Receiver, message: AlertMessage, *, repeat_every: dt.timedelta
    ) -> None:
        if self.inbox.is_down:
            raise NotDelivered("it is down")
        try:
            self.fault_hook.call(
                "call receiver send",
                lambda: self.inbox.messages.append(message),
                lambda: self.inbox.late.append(message),
            )
        except TransientError as error:
            raise NotDelivered(str(error)) from None


class FaultHookedAlerts(AlertLoop):
    """The loop of one process, without its threads."""

    def __init__(self, services: AlertServices, inbox: Inbox, fault_hook: FaultHook) -> None:
        """Prepare; every message is a point of the hook."""
        super().__init__(services)  # type: ignore[arg-type]
        self._sender = FaultHookedSender(secret=str, inbox=inbox, fault_hook=fault_hook)

    def turn(self) -> None:
        """Evaluate the rules, and deliver what is due."""
        self.evaluate()
        self.deliver()

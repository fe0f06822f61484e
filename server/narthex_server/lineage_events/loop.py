"""The loop that sends lineage, in one server of an installation.

It reads the ledger's events, sends what they make, and only then stores how far it is. So nothing
is lost when a process dies, and no commit waits for a receiver. After a crash some events are sent
again, with the same run ids.
"""

import os
import time
from collections.abc import Mapping
from typing import Final

import attrs
import structlog
from openlineage.client.event_v2 import RunEvent

from narthex._base import Backoff
from narthex_ledger import (
    EventView,
    Fenced,
    LedgerError,
    LineageBatch,
    NotFound,
    NotSigned,
)
from narthex_server.background_loop import BackgroundLoop
from narthex_server.lineage_events.configuration import LineageUnconfigured, make_client
from narthex_server.lineage_events.dataset_names import LineageNames
from narthex_server.lineage_events.delivery import (
    LineageNotTaken,
    LineageReceiver,
    LineageRefused,
)
from narthex_server.lineage_events.environment import namespace_of
from narthex_server.lineage_events.happenings import HappeningReader
from narthex_server.lineage_events.run_events import TRANSITIONS, HappeningEvents, run_events
from narthex_server.services.container import Services

log = structlog.get_logger()

EVERY_S: Final = 2.0
MOST_EVENTS: Final = 200
"""How many events of the ledger are read at once."""

ROUND_S: Final = 20.0
"""After how long a round stores how far it is."""

RENEW_S: Final = 15.0
"""After how long the lease, which lasts 60 s, is extended."""

RETRIES: Final = Backoff(first_s=2.0, greatest_s=60.0)


@attrs.define
class _SentEvents:
    """The events of a round that were sent, and the backfills that are open after them."""

    backfills: Mapping[int, int]
    sent: list[int] = attrs.field(factory=list)


class LineageLoop:
    """Sends the lineage of one installation, if it is configured and no other server does."""

    def __init__(self, services: Services, *, environment: Mapping[str, str] | None = None) -> None:
        """Prepare the loop; `start` begins the work.

        Args:
            services: The objects of the server.
            environment: Where the configuration is looked for; by default, that of the process.
        """
        self._environment = os.environ if environment is None else environment
        self._settings = services.settings
        self._ledger = services.ledger
        self._owner = services.collector.owner
        self._meter = services.meters.lineage
        self._reader = HappeningReader(services.ledger)
        self._names = LineageNames.of(services.settings, namespace=namespace_of(self._environment))
        self._receiver: LineageReceiver | None = None
        self._failures = 0
        self._is_known = False  # whether the ledger has the number of failures
        self._renews_at = 0.0
        self._begun = (0, 0)  # the last event of the ledger, and how many of its events were sent
        self._has_more = True
        self._rounds = BackgroundLoop(
            self._round, name="lineage", event="lineage_not_sent", pause_s=self._pause_s
        )

    def start(self) -> None:
        """Send until `stop`; the first round is now."""
        self._has_more = True
        self._rounds.start()

    def stop(self) -> None:
        """Stop after the event that is being sent, and free the lease."""
        self._rounds.stop()
        if self._receiver is not None:
            self._receiver.close()
            self._receiver = None
        try:
            self._ledger.lineage.release(self._owner)
        except LedgerError as error:
            log.warning("lineage_lease_not_released", error=str(error))

    def send(self) -> bool:
        """Send the oldest events that were not sent; return whether there may be more.

        Raises:
            LedgerError: The ledger does not answer, or the lease was lost.
        """
        if not self._ledger.lineage.hold(self._owner):
            return False
        self._renews_at = time.monotonic() + RENEW_S
        batch = self._ledger.lineage.unsent(MOST_EVENTS)
        progress = _SentEvents(batch.position.backfills)
        why = ""
        try:
            self._send_batch(batch, progress)
        except (LineageNotTaken, LineageUnconfigured) as error:
            why = str(error)
        if progress.sent:
            now_us = int(batch.now.timestamp() * 1_000_000)
            self._ledger.lineage.advance(
                self._owner,
                batch.position.after(progress.sent, progress.backfills, now_us=now_us),
            )
        self._record(why)
        return not why and len(progress.sent) == MOST_EVENTS

    def _send_batch(self, batch: LineageBatch, progress: _SentEvents) -> None:
        """Send the events of a batch in order, noting each that is done."""
        ends_at = time.monotonic() + ROUND_S
        for event in batch.events:
            if self._rounds.is_stopping or time.monotonic() > ends_at:
                return
            made = self._made(batch, event, progress.backfills)
            if not self._send_all(event, made):
                return
            progress.sent.append(event.event_id)
            progress.backfills = made.backfills

    def _send_all(self, event: EventView, made: HappeningEvents) -> bool:
        """Send what an event makes, from where an earlier attempt ended; false if it stops."""
        before, done = self._begun
        if before != event.event_id:
            done = 0
        for number, one in enumerate(made.events[done:], start=done + 1):
            if self._rounds.is_stopping:
                return False
            self._keep_lease()
            self._send_one(event, one)
            self._begun = event.event_id, number
        return True

    def _send_one(self, event: EventView, one: RunEvent) -> None:
        if self._receiver is None:
            self._receiver = LineageReceiver(make_client(self._settings.home))
        try:
            self._receiver.send(one)
        except LineageRefused as error:
            self._meter.add(outcome="refused")
            log.warning("lineage_refused", event_id=event.event_id, why=str(error))
        except LineageNotTaken:
            self._meter.add(outcome="failed")
            raise
        else:
            self._meter.add(outcome="delivered")

    def _keep_lease(self) -> None:
        """Extend the lease in time: an event of many jobs takes long if a receiver is slow.

        Raises:
            Fenced: Another server has it.
        """
        if time.monotonic() < self._renews_at:
            return
        if not self._ledger.lineage.hold(self._owner):
            raise Fenced("another server sends the lineage")
        self._renews_at = time.monotonic() + RENEW_S

    def _made(
        self, batch: LineageBatch, event: EventView, backfills: Mapping[int, int]
    ) -> HappeningEvents:
        """Return what an event makes; one that cannot be read must not hold up all that follow."""
        if event.transition not in TRANSITIONS:
            return HappeningEvents(backfills=backfills)
        try:
            return run_events(self._reader.read(batch, event), self._names, backfills)
        except (NotSigned, NotFound) as error:
            log.warning("lineage_left_out", event_id=event.event_id, error=str(error))
        except LedgerError:
            raise
        except Exception:
            log.exception("lineage_left_out", event_id=event.event_id)
        self._meter.add(outcome="left_out")
        return HappeningEvents(backfills=backfills)

    def _record(self, why: str) -> None:
        """Store whether the receiver takes events, when that has changed or it failed again."""
        if why:
            self._failures += 1
            self._ledger.lineage.failed(self._owner, error=why, failures=self._failures)
            log.warning("lineage_not_sent", attempt=self._failures, why=why)
        elif self._failures or not self._is_known:
            self._failures = 0
            self._ledger.lineage.delivered(self._owner)
            log.info("lineage_is_sent")
        self._is_known = True

    def _round(self) -> None:
        self._has_more = False
        self._has_more = self.send()

    def _pause_s(self) -> float:
        if self._has_more:
            return 0.0
        return max(EVERY_S, RETRIES.delay_s(self._failures) if self._failures else 0.0)

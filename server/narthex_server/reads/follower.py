"""Follows the ledger and the indexes in the background, so that no read waits for them."""

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

import attrs
import structlog

from narthex.errors import PolicyInvalid
from narthex_ledger import LedgerError, Listener
from narthex_server.security.known_tokens import KNOWN_S, KnownTokens
from narthex_server.services.branch_snapshots import SnapshotCache
from narthex_server.services.shared_sources import SharedSources
from narthex_stores import StoreError

log = structlog.get_logger()

BRANCHES_S: Final = 1.0
"""How often branches are read if no change of them is announced."""

_INDEXES_S: Final = 1.0
"""How often it is checked whether an index was restored."""

_FORESEEN: Final = (LedgerError, StoreError, PolicyInvalid, OSError)


@attrs.define(kw_only=True)
class Follower:
    """Threads that refresh what reads need, each at its own interval.

    Each has a thread, because a service that is away may let a call wait for long.
    """

    snapshots: SnapshotCache
    tokens: KnownTokens
    shared: SharedSources
    _stop: threading.Event = attrs.field(factory=threading.Event, init=False)
    _threads: list[threading.Thread] = attrs.field(factory=list, init=False)
    _interrupt: Callable[[], None] = attrs.field(default=lambda: None, init=False)

    def start(self) -> None:
        """Begin to follow."""
        self._stop.clear()
        changes = self.snapshots.changes()
        self._interrupt = changes.interrupt
        for name, refresh, pause in (
            ("branches", self.snapshots.refresh, self._pause_of_branches(changes)),
            ("tokens", self.tokens.refresh, partial(self._stop.wait, KNOWN_S / 2)),
            ("shared-sources", self.shared.refresh, partial(self._stop.wait, KNOWN_S)),
            ("indexes", self.snapshots.indexes.refresh, partial(self._stop.wait, _INDEXES_S)),
        ):
            thread = threading.Thread(
                target=self._follow,
                args=(name, refresh, pause),
                name=f"follow-{name}",
                daemon=True,  # a call to a service that is away may never return
            )
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Stop following, without waiting for a service that does not answer."""
        self._stop.set()
        with contextlib.suppress(OSError):  # it has ended before
            self._interrupt()
        for thread in self._threads:
            thread.join(_INDEXES_S)
        self._threads.clear()

    def _pause_of_branches(self, changes: Listener) -> Callable[[], None]:
        """Return a pause that ends early when the change of a branch is announced."""

        def pause() -> None:
            try:
                changes.wait(BRANCHES_S)
            except LedgerError:  # the refresh reports it
                self._stop.wait(BRANCHES_S)
            if self._stop.is_set():
                changes.close()

        return pause

    def _follow(self, name: str, refresh: Callable[[], None], pause: Callable[[], object]) -> None:
        was_well = True
        while not self._stop.is_set():
            try:
                refresh()
            except _FORESEEN as error:
                if was_well:
                    log.warning("refresh_failed", of=name, error=str(error))
                was_well = False
            except Exception:
                if was_well:
                    log.exception("refresh_failed", of=name)
                was_well = False
            else:
                if not was_well:
                    log.info("refresh_recovered", of=name)
                was_well = True
            pause()

"""Loops of work beside the requests of a process."""

import threading
from collections.abc import Callable
from typing import Final

import structlog

from narthex_ledger import Fenced, LedgerError
from narthex_stores import StoreError

log = structlog.get_logger()

_STOPS_S: Final = 15.0


class BackgroundLoop:
    """Does some work again and again in a thread of its own; an error ends one round only."""

    def __init__(
        self,
        work: Callable[[], object],
        *,
        name: str,
        event: str,
        pause_s: Callable[[], float],
        ends_with_round: bool = False,
    ) -> None:
        """Prepare the loop; `start` begins it.

        Args:
            work: The work of a round.
            name: The name of the thread.
            event: The name in the log of a round that failed.
            pause_s: How long to wait before each round, the first one included.
            ends_with_round: Whether `stop` lets one more round begin.
        """
        self._work = work
        self._name = name
        self._event = event
        self._pause_s = pause_s
        self._ends_with_round = ends_with_round
        self._is_asked = threading.Condition()
        self._is_awake = False
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether the work in progress ought to end early."""
        return self._is_stopping

    def start(self) -> None:
        """Run until `stop`."""
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Begin the next round now, or as soon as the one in progress ends."""
        with self._is_asked:
            self._is_awake = True
            self._is_asked.notify()

    def ask_to_stop(self) -> None:
        """Let the round in progress, or the one at the end, be the last one; wait for none."""
        with self._is_asked:
            self._is_stopping = True
            self._is_asked.notify()

    def stop(self, *, within_s: float = _STOPS_S) -> None:
        """Wait for the round in progress and for one at the end, at most `within_s` seconds."""
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join(within_s)
            self._thread = None

    def _run(self) -> None:
        while self._is_next_due():
            self._round()
        if self._ends_with_round:
            self._round()

    def _is_next_due(self) -> bool:
        """Wait for the time of the next round; return False if there is none."""
        pause_s = self._pause_s()
        with self._is_asked:
            self._is_asked.wait_for(lambda: self._is_stopping or self._is_awake, pause_s)
            self._is_awake = False
            return not self._is_stopping

    def _round(self) -> None:
        try:
            self._work()
        except (LedgerError, StoreError, Fenced) as error:
            log.warning(self._event, error=str(error))
        except Exception:  # a mistake in one round must not end all that follow
            log.exception(self._event)

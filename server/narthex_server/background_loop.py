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
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether the work in progress ought to end early."""
        return self._stop.is_set()

    def start(self) -> None:
        """Run until `stop`."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Let the round in progress, or the one at the end, be the last one; wait for none."""
        self._stop.set()

    def stop(self) -> None:
        """Wait for the round in progress and for one at the end, at most 15 seconds."""
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join(_STOPS_S)
            self._thread = None

    def _run(self) -> None:
        while not self._stop.wait(self._pause_s()):
            self._round()
        if self._ends_with_round:
            self._round()

    def _round(self) -> None:
        try:
            self._work()
        except (LedgerError, StoreError, Fenced) as error:
            log.warning(self._event, error=str(error))
        except Exception:  # a mistake in one round must not end all that follow
            log.exception(self._event)

"""The loop that propagates watermarks, in every server of an installation.

Several servers may do so at once: the ledger keeps the greatest value of each dataset.
"""

import datetime as dt
import threading
from collections.abc import Callable, Iterable
from typing import Final

import attrs
import structlog

from narthex_ledger import JobView, Ledger, LedgerError
from narthex_server.operations.watermarks import Ends, WatermarkPropagation
from narthex_stores import StoreError

log = structlog.get_logger()

EVERY_S: Final = 5.0
STOPS_S: Final = 15.0


class WatermarkLoop:
    """Computes the watermarks of all datasets, and stores those that have grown."""

    def __init__(self, ledger: Ledger, ends_of: Callable[[Iterable[str]], Ends]) -> None:
        """Prepare the loop; `start` begins the work.

        Args:
            ledger: The ledger.
            ends_of: Reads the ends of topics from the broker.
        """
        self._ledger = ledger
        self._ends_of = ends_of
        self._propagation = WatermarkPropagation()
        self._version = -1
        self._known: tuple[JobView, ...] = ()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Run in a thread of its own until `stop`."""
        self._thread = threading.Thread(target=self._run, name="watermarks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the round that is being taken."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOPS_S)

    def advance(self) -> None:
        """Take one round.

        Raises:
            LedgerError: The ledger does not answer.
            StoreError: The broker does not answer.
        """
        # The jobs first: what a log had when they reported is below the ends that are read now.
        jobs = self._jobs()
        ends = self._ends_of(self._propagation.topics(jobs))
        stored = self._ledger.watermarks.all()
        now = dt.datetime.now(dt.UTC)
        self._ledger.watermarks.advance(
            self._propagation.advance(jobs, ends, stored=stored, now=now)
        )

    def _jobs(self) -> tuple[JobView, ...]:
        """Read all jobs; what does not change until the registry does is read once."""
        version = self._ledger.jobs.registry_version()
        if version != self._version:
            self._known = self._ledger.jobs.all()
            self._version = version
            return self._known
        shards = self._ledger.jobs.running([job.asset.asset_id for job in self._known])
        self._known = tuple(
            attrs.evolve(job, shards=shards.get(job.asset.asset_id, job.shards))
            for job in self._known
        )
        return self._known

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                self.advance()
            except (LedgerError, StoreError) as error:
                log.warning("watermarks_not_advanced", error=str(error))
            except Exception:  # a mistake in one round must not end all watermarks
                log.exception("watermarks_not_advanced")

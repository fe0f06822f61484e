"""The rounds that propagate watermarks, in every server of an installation.

Several servers may do so at once: the ledger keeps the greatest value of each dataset.
"""

import datetime as dt
from collections.abc import Callable, Iterable
from typing import Final

import attrs

from narthex_ledger import JobView, Ledger
from narthex_server.background_loop import BackgroundLoop
from narthex_server.operations.watermarks import Ends, WatermarkPropagation

EVERY_S: Final = 5.0


class WatermarkRounds:
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

    def loop(self) -> BackgroundLoop:
        """Return the loop that takes a round every five seconds."""
        return BackgroundLoop(
            self.advance,
            name="watermarks",
            event="watermarks_not_advanced",
            pause_s=lambda: EVERY_S,
        )

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

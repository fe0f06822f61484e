"""The jobs of the slots that a supervisor holds, as it last read them."""

from collections.abc import Collection, Iterable

import attrs

from narthex_ledger import NEVER_READ, Epoch, JobChanges, JobView, ShardReport, ShardView
from narthex_spark_apps.supervision.runner_messages import ShardId


@attrs.define
class AssignedJobs:
    """Brings the jobs of some slots up to date by what changed.

    The registry has all jobs of an installation; a supervisor reads those of its slots, and after
    that only changes. If its slots change, it reads their jobs anew.

    Attributes:
        version: The registry version of these jobs.
    """

    version: int = NEVER_READ
    _slots: frozenset[int] = frozenset()
    _jobs: dict[int, JobView] = attrs.field(factory=dict)
    _stops: set[tuple[ShardId, int, Epoch]] = attrs.field(factory=set)

    @property
    def all(self) -> tuple[JobView, ...]:
        """The jobs, by asset."""
        return tuple(self._jobs[asset_id] for asset_id in sorted(self._jobs))

    def is_current(self, version: int, slots: Collection[int]) -> bool:
        """Whether these are the jobs of the slots at a registry version."""
        return version == self.version and frozenset(slots) == self._slots

    def since(self, slots: Collection[int]) -> int:
        """Return the version after which to read the changes of the jobs of these slots."""
        return self.version if frozenset(slots) == self._slots else NEVER_READ

    def apply(self, changes: JobChanges, slots: Collection[int]) -> None:
        """Take over the changes that were read for these slots."""
        changed = {job.asset.asset_id: job for job in changes.changed}
        known = self._jobs | changed
        self._jobs = {asset_id: known[asset_id] for asset_id in changes.existing & known.keys()}
        self._slots, self.version = frozenset(slots), changes.version
        self._stops = {stop for stop in self._stops if stop[0].asset_id in self._jobs}

    def stop_reported(self, reports: Iterable[ShardReport]) -> None:
        """Note which stops the ledger has stored: it does not return reports as changes."""
        self._stops.update((ShardId(r.asset_id, r.shard), r.generation, r.epoch) for r in reports)

    def is_stop_reported(self, job: JobView, shard: ShardView, epoch: Epoch) -> bool:
        """Whether the ledger knows that the shard has stopped in the job's present generation."""
        stop = (ShardId(job.asset.asset_id, shard.shard), job.generation, epoch)
        return shard.seen_generation == job.generation or stop in self._stops

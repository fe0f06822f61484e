"""How many rows a second each job, and each of its shards, takes while a backlog is drained."""

import datetime as dt
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import httpx

from tests.chaos.plant import Installation

LOOK_EVERY_S = 0.5
ROWS = 6_000
"""The backlog: enough for several reports of each job."""


@attrs.frozen(kw_only=True)
class JobRate:
    """The rate of a job while it had a backlog.

    Attributes:
        job: Its label and its kind.
        records: How many records it read from all its topics.
    """

    job: str
    records: int
    seconds: float
    shards: int

    @property
    def per_shard(self) -> float:
        """Records a second and shard."""
        return self.records / self.seconds / self.shards


Sample = tuple[float, int, int]
"""When it was reported (seconds), records read, shards."""


@attrs.define
class Samples:
    """The progress of all jobs, by label and kind, in the order of their reports."""

    of_job: dict[str, list[Sample]] = attrs.field(factory=dict)

    def take(self, jobs: Sequence[Mapping[str, Any]]) -> None:
        """Note the newest report of each job."""
        for job in jobs:
            offsets = job["progress"].get("offsets", {})
            if not offsets or not job["reported_at"]:
                continue
            at = dt.datetime.fromisoformat(job["reported_at"]).timestamp()
            read = sum(sum(partitions.values()) for partitions in offsets.values())
            sample = (at, read, len(job["shards"]))
            samples = self.of_job.setdefault(f"{job['label']} ({job['kind']})", [])
            if not samples or samples[-1][1] != read:
                samples.append(sample)
            elif len(samples) == 1:
                # It has not begun: the last report before it does is the beginning.
                samples[0] = sample

    def rates(self, *, least: int) -> list[JobRate]:
        """Return the rates of the jobs that read so many records at least, slowest shard first."""
        rates = [
            JobRate(
                job=job,
                records=samples[-1][1] - samples[0][1],
                seconds=samples[-1][0] - samples[0][0],
                shards=samples[-1][2],
            )
            for job, samples in self.of_job.items()
            if samples[-1][1] - samples[0][1] >= least
        ]
        return sorted(rates, key=lambda rate: rate.per_shard)


@contextmanager
def sampling(installation: Installation) -> Iterator[Samples]:
    """Note the progress of all jobs until the block ends."""
    samples, is_over = Samples(), threading.Event()

    def look() -> None:
        while not is_over.wait(LOOK_EVERY_S):
            try:
                samples.take(installation.jobs())
            except httpx.HTTPError:
                continue

    samples.take(installation.jobs())
    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join()


def measure_capacity(
    installation: Installation, burst: Callable[[int], None], *, within_s: float
) -> list[JobRate]:
    """Send a backlog, wait until it is drained, and return the rates of the jobs.

    Raises:
        NotReachedError: It was not drained in time.
    """
    with sampling(installation) as samples:
        burst(ROWS)
        installation.settle(within_s=within_s)
    return samples.rates(least=ROWS // 2)

"""Samples of datasets, jobs and this process: each minute, in every server of an installation.

The first server of a minute samples the datasets and the jobs; the ledger refuses a second sample.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import structlog

from narthex._base import SECOND_US, Json
from narthex_ledger import (
    Ledger,
    MetricCount,
    MetricKind,
    MetricReading,
    lag_of,
    progress_of,
)
from narthex_server.background_loop import BackgroundLoop
from narthex_server.operations.watermarks import Ends
from narthex_server.services.container import Services
from narthex_server.services.process_samples import minute_loop, process_reading
from narthex_server.services.served_branches import RunningJob, ServedBranch, ServedDataset
from narthex_stores import StoreError

log = structlog.get_logger()

_NO_ENDS: Final[Ends] = {}


class MetricSampling:
    """Samples an installation, and keeps the samples few."""

    def __init__(self, services: Services, ends_of: Callable[[Iterable[str]], Ends]) -> None:
        """Prepare the sampling.

        Args:
            services: The services of the server.
            ends_of: Reads the ends of topics from the broker.
        """
        self._ledger: Ledger = services.ledger
        self._process = services.collector.owner
        self._meters = services.meters
        self._kept = dt.timedelta(days=services.settings.metrics_kept_days)
        self._ends_of = ends_of
        self._served = services.served

    def loop(self) -> BackgroundLoop:
        """Return the loop that samples each minute."""
        return minute_loop(self.sample)

    def sample(self) -> None:
        """Sample the present minute, fold what has ended, and delete what is old.

        While the broker does not answer, the rows of datasets are unknown.

        Raises:
            LedgerError: The ledger does not answer.
        """
        metrics = self._ledger.metrics
        if self._kept:
            metrics.record([process_reading(self._process, self._meters), *self._installation()])
            metrics.fold()
        metrics.forget(older_than=self._kept)

    def _installation(self) -> list[MetricReading]:
        """Read datasets and jobs, if no other server has done so in this minute."""
        if not self._ledger.metrics.is_due():
            return []
        branches = self._served.now()
        jobs = self._served.running(branches)
        watermarks = self._ledger.watermarks.by_feed()
        ends = self._ends(branches)
        now_us = int(dt.datetime.now(dt.UTC).timestamp() * SECOND_US)
        return [
            *dataset_readings(branches, jobs, watermarks=watermarks, ends=ends, now_us=now_us),
            *job_readings(jobs, now_us=now_us),
        ]

    def _ends(self, branches: Iterable[ServedBranch]) -> Ends:
        topics = {
            topic
            for branch in branches
            for dataset in branch.datasets
            for topic in (dataset.log, dataset.quarantine)
            if topic
        }
        try:
            return self._ends_of(topics) if topics else _NO_ENDS
        except StoreError as error:
            log.warning("rows_not_sampled", error=str(error))
            return _NO_ENDS


def dataset_readings(
    branches: Sequence[ServedBranch],
    jobs: Mapping[int, RunningJob],
    *,
    watermarks: Mapping[int, int],
    ends: Ends,
    now_us: int,
) -> Iterator[MetricReading]:
    """Yield what is read of each dataset of each branch.

    Args:
        branches: The branches with their datasets.
        jobs: The jobs that ought to run, by their ids.
        watermarks: The watermarks of datasets by their history feeds, microseconds.
        ends: The ends of topics by partition; without a topic, its rows are unknown.
        now_us: The present instant, microseconds.
    """
    for branch in branches:
        for dataset in branch.datasets:
            job = None if dataset.feed_id is None else jobs.get(dataset.feed_id)
            feed = {} if job is None else progress_of(job)
            yield MetricReading(
                kind=MetricKind.DATASET,
                branch=branch.name,
                subject=dataset.name,
                gauges={
                    "freshness_s": _age_s(feed.get("newest_event_time"), now_us),
                    "watermark_lag_s": _age_s(watermarks.get(dataset.feed_id or 0), now_us),
                    "behind": _behind(dataset, jobs),
                },
                counters=dict(_counters(dataset, feed, ends)),
            )


def job_readings(jobs: Mapping[int, RunningJob], *, now_us: int) -> Iterator[MetricReading]:
    """Yield what is read of each job and feed that ought to run.

    Args:
        jobs: The jobs, by their ids.
        now_us: The present instant, microseconds.
    """
    for asset_id, job in jobs.items():
        progress = progress_of(job)
        lag_ms = lag_of(job)
        yield MetricReading(
            kind=MetricKind.JOB,
            branch="",
            subject=str(asset_id),
            gauges={
                "lag_s": None if lag_ms is None else lag_ms / 1000,
                "behind": _number(progress.get("behind")),
                "freshness_s": _age_s(progress.get("newest_event_time"), now_us),
                "since_success_s": _age_s(progress.get("succeeded_at"), now_us),
            },
            counters=dict(_job_counters(progress)),
        )


def _job_counters(progress: Mapping[str, Json]) -> Iterator[tuple[str, MetricCount]]:
    for name in ("restarts", "quarantined"):
        count = _number(progress.get(name))
        if count is not None:
            yield name, MetricCount(of="", count=count)
    for of in ("written", "rows"):
        count = _number(progress.get(of))
        if count is not None:
            yield "rows", MetricCount(of=of, count=count)
            return
    # Offsets of a run that has just begun are not known yet.
    offsets = progress.get("offsets")
    if isinstance(offsets, dict) and offsets and progress.get("behind") is not None:
        yield "rows", MetricCount(of=" ".join(sorted(offsets)), count=_sum(offsets))


def _sum(offsets: Mapping[str, Json]) -> float:
    """Return the sum of offsets by topic and partition."""
    return sum(
        _number(offset) or 0
        for partitions in offsets.values()
        for offset in (partitions.values() if isinstance(partitions, dict) else ())
    )


def _age_s(instant_us: Json, now_us: int) -> float | None:
    """Return the age of an instant in seconds; one in the future has none, and so 0."""
    return max(0, now_us - instant_us) / SECOND_US if isinstance(instant_us, int) else None


def _behind(dataset: ServedDataset, jobs: Mapping[int, RunningJob]) -> float | None:
    """Return how many records the jobs of a dataset have not read; None while one is unknown."""
    found = [_number(progress_of(jobs[job]).get("behind")) for job in dataset.jobs if job in jobs]
    known = [one for one in found if one is not None]
    return sum(known) if found and len(known) == len(found) else None


def _counters(
    dataset: ServedDataset, feed: Mapping[str, Json], ends: Ends
) -> Iterator[tuple[str, MetricCount]]:
    for name, topic in (("rows", dataset.log), ("quarantined", dataset.quarantine)):
        if topic in ends:
            yield name, MetricCount(of=topic, count=sum(ends[topic].values()))
    late = _number(feed.get("late"))
    if late is not None:
        yield "late", MetricCount(of=str(dataset.feed_id), count=late)


def _number(value: Json) -> float | None:
    return value if isinstance(value, int | float) else None

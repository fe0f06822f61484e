"""The watermark of each dataset: up to which event time its rows are complete, as far as is known.

The watermark of a dataset with sources is the least, over the partitions of its sources, of the
greatest event time seen less the source's disorder. A partition without a row for the source's
`idleness` is left out; so is a source that had no row at all for that long, and without
`idleness` such a source holds the watermark back. If all are idle, it is the greatest of them.

The watermark of a dataset that a pipeline computes is the least of those of its inputs, once the
job has read all that the inputs' logs held when they had these watermarks. So each round takes a
barrier of a job, the candidate and the ends of its topics at that moment, and a later round passes
it (docs/decisions/0056). A watermark decides no result: it is shown, and people and alerts wait for
it. It never goes back, as the ledger keeps the greatest one of a dataset.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from narthex._base import Json
from narthex._ir import AssetKind, FeedSpec, PipelineJobSpec, Source, SourceJobSpec
from narthex._runtime.ingest import source_name
from narthex_ledger import WHOLE, JobView, WatermarkView, progress_of

Ends: TypeAlias = Mapping[str, Mapping[int, int]]
"""The offset after the last record, by topic and partition."""

_Place: TypeAlias = tuple[int, str]
"""A history feed and a place of it, as in `WatermarkView`."""


@attrs.frozen
class Mark:
    """Up to which event time something is complete.

    Attributes:
        us: Microseconds; None while it is not known.
        is_idle: Whether nothing more is expected for the time being.
    """

    us: int | None
    is_idle: bool = False


UNKNOWN: Final = Mark(None)

SINCE: Final = "since"
"""The place of a dataset at which the ledger keeps when it was first seen, as an arrival."""


@attrs.frozen(kw_only=True)
class Barrier:
    """The mark that a job gets when it has read its topics up to these ends."""

    mark: Mark
    ends: Ends


def least(marks: Iterable[Mark]) -> Mark:
    """Return the least of marks; idle ones count only if all are idle, and then the greatest."""
    found = tuple(marks)
    busy = [mark.us for mark in found if not mark.is_idle]
    if busy:
        return Mark(None if None in busy else min(us for us in busy if us is not None))
    return Mark(max((mark.us for mark in found if mark.us is not None), default=None), bool(found))


def mark_of_source(
    source: Source, partitions: Iterable[WatermarkView], *, now_ms: int, since_ms: int | None
) -> Mark:
    """Return up to which event time the rows of a source are complete.

    Args:
        source: The source.
        partitions: Those of its partitions that had a row.
        now_ms: The present.
        since_ms: Since when the source has been read live; None before.
    """
    found = tuple(partitions)
    if not found:
        return Mark(None, is_idle=_is_idle(source, since_ms, now_ms))
    return least(
        Mark(one.event_time_us - source.disorder_us, _is_idle(source, one.arrived_ms, now_ms))
        for one in found
    )


def _is_idle(source: Source, since_ms: int | None, now_ms: int) -> bool:
    if source.idleness_us is None or since_ms is None:
        return False
    return (now_ms - since_ms) * 1000 > source.idleness_us


@attrs.define
class WatermarkPropagation:
    """Propagates watermarks from sources through jobs, one round at a time.

    Attributes:
        barriers: The barrier of each job that waits for one, by asset.
        passed: The last mark of each job whose barrier was passed.
    """

    barriers: dict[int, Barrier] = attrs.field(factory=dict)
    passed: dict[int, Mark] = attrs.field(factory=dict)

    def topics(self, jobs: Iterable[JobView]) -> frozenset[str]:
        """Return the topics whose ends a round needs."""
        return frozenset(topic for job in jobs for topic in _inputs(job))

    def advance(
        self,
        jobs: Iterable[JobView],
        ends: Ends,
        *,
        stored: Iterable[WatermarkView],
        now: dt.datetime,
    ) -> tuple[WatermarkView, ...]:
        """Take a round; return what has grown, to be stored.

        Args:
            jobs: All jobs, as they were reported before the ends were read.
            ends: The ends of `topics`.
            stored: What the ledger has already.
            now: The present.
        """
        known = {job.asset.asset_id: job for job in jobs}
        self.barriers = {one: mark for one, mark in self.barriers.items() if one in known}
        self.passed = {one: mark for one, mark in self.passed.items() if one in known}
        before = {(view.asset_id, view.place): view for view in stored}
        feeds = {
            job.asset.need("log").physical_name: job
            for job in known.values()
            if job.asset.kind is AssetKind.HISTORY_FEED
        }
        now_ms = int(now.timestamp() * 1000)
        reported = {
            topic: (*_partitions(job, before), _since(job, before, now_ms))
            for topic, job in feeds.items()
        }
        marks = self._marks(known.values(), reported, now_ms)
        for job in known.values():
            self._pass(job, marks, ends)
        found = [view for views in reported.values() for view in views]
        for topic, job in feeds.items():
            us = marks.get(topic, UNKNOWN).us
            if us is not None:
                found.append(
                    WatermarkView(asset_id=job.asset.asset_id, place=WHOLE, event_time_us=us)
                )
        return tuple(view for view in found if _has_grown(view, before))

    def _marks(
        self,
        jobs: Iterable[JobView],
        reported: Mapping[str, tuple[WatermarkView, ...]],
        now_ms: int,
    ) -> dict[str, Mark]:
        """Return the mark of each topic: the least of those of all jobs that write it."""
        by_topic: dict[str, list[Mark]] = {}
        for job in jobs:
            for topic in _written(job):
                mark = self.passed.get(job.asset.asset_id, UNKNOWN)
                if isinstance(job.asset.spec, SourceJobSpec):
                    mark = _of_source_job(job, job.asset.spec, reported.get(topic, ()), now_ms)
                by_topic.setdefault(topic, []).append(mark)
        return {topic: least(marks) for topic, marks in by_topic.items()}

    def _pass(self, job: JobView, marks: Mapping[str, Mark], ends: Ends) -> None:
        """Pass the barrier of a job if it has read up to it, and take the next one."""
        asset_id, topics = job.asset.asset_id, _inputs(job)
        if not topics or isinstance(job.asset.spec, SourceJobSpec):
            return
        barrier = self.barriers.get(asset_id)
        if barrier is not None:
            if not _has_read(job, barrier.ends):
                return
            self.passed[asset_id] = barrier.mark
            del self.barriers[asset_id]
        if all(topic in ends for topic in topics):
            mark = least(marks.get(topic, UNKNOWN) for topic in topics)
            if mark.us is not None or mark.is_idle:
                taken = {topic: ends[topic] for topic in topics}
                self.barriers[asset_id] = Barrier(mark=mark, ends=taken)


def _of_source_job(
    job: JobView, spec: SourceJobSpec, partitions: Iterable[WatermarkView], now_ms: int
) -> Mark:
    name, views = source_name(spec.source_id), tuple(partitions)
    backfilled_ms = 0 if job.backfilled_at is None else int(job.backfilled_at.timestamp() * 1000)
    since = [max(view.arrived_ms, backfilled_ms) for view in views if view.place == SINCE]
    return mark_of_source(
        spec.source,
        [view for view in views if view.place.rpartition("/")[0] == name],
        now_ms=now_ms,
        since_ms=None if job.owes_backfill or not since else since[0],
    )


def _since(feed: JobView, before: Mapping[_Place, WatermarkView], now_ms: int) -> WatermarkView:
    """Return since when a dataset is known: from the first round with its feed on."""
    place = feed.asset.asset_id, SINCE
    return before.get(place) or WatermarkView(
        asset_id=feed.asset.asset_id, place=SINCE, event_time_us=0, arrived_ms=now_ms
    )


def _partitions(feed: JobView, before: Mapping[_Place, WatermarkView]) -> Iterator[WatermarkView]:
    """Return the source partitions of a dataset, reported by its history feed now or before."""
    asset_id, progress = feed.asset.asset_id, progress_of(feed)
    event_times = dict(_numbers(progress.get("event_times")))
    arrivals = dict(_numbers(progress.get("arrivals")))
    places = {place for one, place in before if one == asset_id and place not in {WHOLE, SINCE}}
    for place in sorted(places | event_times.keys()):
        known = before.get((asset_id, place))
        times = [event_times[place]] if place in event_times else []
        arrived_ms = arrivals.get(place, 0)
        if known is not None:
            times.append(known.event_time_us)
            arrived_ms = max(arrived_ms, known.arrived_ms)
        yield WatermarkView(
            asset_id=asset_id, place=place, event_time_us=max(times), arrived_ms=arrived_ms
        )


def _has_grown(view: WatermarkView, before: Mapping[_Place, WatermarkView]) -> bool:
    known = before.get((view.asset_id, view.place))
    if known is None:
        return True
    return view.event_time_us > known.event_time_us or view.arrived_ms > known.arrived_ms


def _numbers(found: Json) -> Iterator[tuple[str, int]]:
    for name, value in found.items() if isinstance(found, dict) else ():
        if isinstance(value, int):
            yield name, value


def _inputs(job: JobView) -> tuple[str, ...]:
    """Return the topics that a job reads whose watermark it passes on."""
    roles: tuple[str, ...]
    match job.asset.spec:
        case PipelineJobSpec():
            roles = ("input:", "touched:")
        case FeedSpec() if job.asset.kind is AssetKind.INDEX_FEED:
            roles = ("log",)
        case _:
            return ()
    return tuple(need.physical_name for need in job.asset.needs if need.role.startswith(roles))


def _written(job: JobView) -> tuple[str, ...]:
    """Return the topics that a job writes rows or corrections to."""
    roles = ("touched",) if job.asset.kind is AssetKind.INDEX_FEED else ("output",)
    return tuple(need.physical_name for need in job.asset.needs if need.role in roles)


def _has_read(job: JobView, ends: Ends) -> bool:
    read = progress_of(job).get("offsets")
    if not isinstance(read, dict):
        return False
    return all(
        _offset(read.get(topic), partition) >= end
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )


def _offset(read: Json, partition: int) -> int:
    found = read.get(str(partition)) if isinstance(read, dict) else None
    return found if isinstance(found, int) else 0

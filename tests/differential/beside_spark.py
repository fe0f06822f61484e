"""Live jobs that run beside Spark, and index feeds: the children's classes, interrupted at random.

A child's thread takes records as they come. Here a seed determines which job takes how many records
next, which job restarts, and which job loses its uncommitted work.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import attrs
import pytest
from numpy.random import Generator
from typing_extensions import override

from narthex._formats import key_encoder
from narthex._ir import shards_of_job
from narthex._ir.assets import PipelineJobSpec, ResolvedAsset, SourceJobSpec, Trigger
from narthex._runtime.workers import WorkerPool
from narthex.settings import Settings
from narthex_spark_apps.jobs.start import checkpoint_of, input_topics
from narthex_spark_apps.pipelines import python_pipeline
from narthex_spark_apps.pipelines.join_stage import JoinStage
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.source_stage import SourceStage
from narthex_spark_apps.stateful import StatefulStage, stage
from narthex_spark_apps.storage.snapshots import STATE
from narthex_spark_apps.supervision.runner_messages import WorkAssignment
from narthex_spark_apps.writers.index_writer import IndexFeed
from narthex_stores import (
    IndexHandle,
    IndexStore,
    LogProducer,
    PartitionKey,
    Record,
    ShardedIndex,
    index_store,
)
from tests.differential.records import Records

MOST = 6
"""So many records are taken at once at most, while facts still come."""


class SharedWorkers(WorkerPool):
    """The worker of all stages of this process; none of them ends it for the others."""

    @override
    def close(self) -> None:
        """Stay."""

    def end(self) -> None:
        """End."""
        super().close()


@contextmanager
def shared_workers() -> Iterator[None]:
    """Let all stages of this process call authors' code in the same worker."""
    workers = SharedWorkers(size=1)
    with pytest.MonkeyPatch.context() as patch:
        for module in (python_pipeline, stage):
            patch.setattr(module, "WorkerPool", lambda **_: workers)
        try:
            yield
        finally:
            workers.end()


Stage: TypeAlias = SourceStage | JoinStage | StatefulStage


def stage_of(asset: ResolvedAsset, settings: Settings, *, epoch: int) -> Stage:
    """Return the stage of a job, as the stage runner makes it."""
    spec = asset.spec
    if isinstance(spec, SourceJobSpec):
        return SourceStage.of(SourceJob(asset=asset, spec=spec), settings)
    if not isinstance(spec, PipelineJobSpec):
        raise TypeError(f"asset {asset.asset_id} is not a pipeline")
    job = PipelineJob(asset=asset, spec=spec)
    if spec.trigger is Trigger.STATEFUL:
        checkpoint = checkpoint_of(asset, settings)
        return StatefulStage(job, settings=settings, checkpoint=checkpoint, epoch=epoch)
    return JoinStage(job, settings=settings)


_LATER = 1 << 60
"""A present time after all rows of generated projects."""
_EVERYTHING = 1 << 30


class CrashError(Exception):
    """The stage ended here, in the middle of what it did."""


@attrs.frozen
class CrashingProducer:
    """A producer whose process ends after so many records."""

    whole: LogProducer
    left: list[None]

    def post(self, topic: str, *, key: bytes, value: bytes) -> None:
        """Append a record, unless it is the end."""
        if not self.left:
            raise CrashError
        self.left.pop()
        self.whole.post(topic, key=key, value=value)

    def flush(self) -> None:
        """Wait for what was appended, and end."""
        self.whole.flush()
        raise CrashError

    def close(self) -> None:
        """Release the threads that a dying process would have ended."""
        self.whole.close()


@attrs.define(kw_only=True)
class Feed:
    """One log tailed into one index, by a writer for each shard."""

    asset: ResolvedAsset
    settings: Settings
    shards: tuple[IndexFeed, ...]
    epoch: int = 1

    @classmethod
    def open(cls, asset: ResolvedAsset, settings: Settings) -> "Feed":
        """Open the index for writing, and for readers in this process."""
        count = shards_of_job(asset)
        made = cls(
            asset=asset,
            settings=settings,
            shards=tuple(
                IndexFeed.open(
                    WorkAssignment(asset=asset, epoch=1, generation=1, shard=shard, shards=count),
                    settings,
                )
                for shard in range(count)
            ),
        )
        if not made._store.is_shared:
            # LMDB lets a process open an index once: the stages of this one read the writers'.
            python_pipeline._OPEN[made._store, made.index_name] = made.index  # noqa: SLF001
        return made

    @property
    def _store(self) -> IndexStore:
        return index_store(self.settings)

    @property
    def index(self) -> IndexHandle:
        """The index, as its readers have it."""
        parts = tuple(feed.index for feed in self.shards)
        if len(parts) == 1 or self._store.is_shared:
            return parts[0]
        spec = parts[0].spec
        return ShardedIndex(self.index_name, spec, parts, key_encoder(spec.log.keys))

    @property
    def topic(self) -> str:
        """The topic of the log."""
        return self.shards[0].topic

    @property
    def index_name(self) -> str:
        """The name of the index that it writes."""
        return self.asset.need("index").physical_name

    def unread(self, records: Records) -> list[PartitionKey]:
        """Return the partitions with something to read."""
        offsets = self.index.offsets()
        return [p for p in records.places([self.topic]) if _left(records, p, offsets)]

    def take(self, records: Records, producer: LogProducer, rng: Generator | None) -> None:
        """Apply some of what was not read yet, then delete some of what has expired.

        Without chance it takes all.
        """
        offsets, unread = self.index.offsets(), self.unread(records)
        for feed in self.shards:
            mine = [place for place in unread if feed.assignment.reads(place[1])]
            found = some(records, mine, offsets, rng)
            if found:
                feed.apply(found, producer)
                most = _EVERYTHING if rng is None else int(rng.integers(1, 20))
                feed.index.expire(now_us=_LATER, most=most, epoch=feed.assignment.epoch)

    def repeat(self, records: Records, producer: LogProducer, rng: Generator) -> None:
        """Apply a batch again, as after a crash before its offset was stored."""
        offsets = {place: int(rng.integers(0, 3)) for place in self.index.offsets()}
        for feed in self.shards:
            places = records.places([self.topic])
            mine = [place for place in places if feed.assignment.reads(place[1])]
            found = some(records, mine, offsets, rng)
            if found:
                feed.apply(found, producer)

    def close(self) -> None:
        """Let go of the index."""
        python_pipeline._OPEN.pop((self._store, self.index_name), None)  # noqa: SLF001
        for feed in self.shards:
            feed.stop()


@attrs.define(kw_only=True)
class LiveStage:
    """One shard of a live job beside Spark, in a process that may crash.

    Attributes:
        reads: Whether the shard reads a partition of its topics.
        noted: The offsets from which a restart continues; a stateful job stores them itself.
        at: The offsets that this run has read.
    """

    asset: ResolvedAsset
    settings: Settings
    reads: Callable[[int], bool]
    noted: dict[PartitionKey, int]
    at: dict[PartitionKey, int] = attrs.field(factory=dict)
    stage: Stage | None = None
    lives: int = 0

    def __attrs_post_init__(self) -> None:
        """Go on from what was noted."""
        self.at = dict(self.noted)

    @classmethod
    def shards_of(
        cls, asset: ResolvedAsset, settings: Settings, *, noted: Mapping[PartitionKey, int]
    ) -> "list[LiveStage]":
        """Return the shards of a job."""
        count = shards_of_job(asset)
        shards = (
            WorkAssignment(asset=asset, epoch=1, generation=1, shard=shard, shards=count)
            for shard in range(count)
        )
        return [
            cls(asset=asset, settings=settings, reads=shard.reads, noted=dict(noted))
            for shard in shards
        ]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it reads."""
        return input_topics(self.asset)

    def start(self) -> None:
        """Begin a life, unless one has begun; each has an epoch of its own."""
        if self.stage is None:
            # The bounded run had the first epoch.
            self.stage = stage_of(self.asset, self.settings, epoch=self.lives + 2)
            self.lives += 1
            if isinstance(self.stage, StatefulStage):
                self.at = self.stage.positions()

    def unread(self, records: Records) -> list[PartitionKey]:
        """Return the partitions with something to read."""
        places = [place for place in records.places(self.topics) if self.reads(place[1])]
        return [place for place in places if _left(records, place, self.at)]

    def take(self, records: Records, rng: Generator | None, *, dies: int | None = None) -> None:
        """Work some of what was not read yet off; all of it without chance.

        Raises:
            CrashError: So many records were appended as it was to append, if it was.
        """
        self.start()
        if self.stage is None:
            raise TypeError("a stage that was started is one")
        if dies is not None:
            _let_crash(self.stage, dies)
        found = some(records, self.unread(records), self.at, rng)
        self.stage.take(found)
        for record in found:
            self.at[record.topic, record.partition] = record.offset + 1

    def reads_corrections(self, records: Records) -> bool:
        """Whether an invalidation of a joined dataset was sent."""
        touched = {n.physical_name for n in self.asset.needs if n.role.startswith("touched:")}
        return any(place[0] in touched for place in self.unread(records))

    def end(self) -> None:
        """End in order: what was read is noted."""
        self.noted = dict(self.at)
        self.crash()

    def crash(self) -> None:
        """Forget what was read since it was noted last."""
        if self.stage is not None:
            self.stage.close()
            self.stage = None
        self.at = dict(self.noted)

    def lose_state(self) -> bool:
        """Crash and lose the job's state; return whether the job has one."""
        self.crash()
        state = checkpoint_of(self.asset, self.settings) / STATE
        if not state.is_dir():
            return False
        shutil.rmtree(state)
        self.noted = {}
        self.at = {}
        return True


def _let_crash(stage: Stage, dies: int) -> None:
    name = "producer" if isinstance(stage, SourceStage) else "_producer"
    setattr(stage, name, CrashingProducer(getattr(stage, name), [None] * dies))


def is_beside_spark(asset: ResolvedAsset) -> bool:
    """Whether a job runs live in the stage runner."""
    spec = asset.spec
    return isinstance(spec, SourceJobSpec | PipelineJobSpec) and spec.trigger in {
        Trigger.STAGE,
        Trigger.STATEFUL,
    }


def _left(records: Records, place: PartitionKey, at: Mapping[PartitionKey, int]) -> bool:
    return at.get(place, 0) < len(records.kept[place])


def some(
    records: Records,
    found: Sequence[PartitionKey],
    at: Mapping[PartitionKey, int],
    rng: Generator | None,
) -> list[Record]:
    """Return the next records of partitions, in order within each: all, or a random number."""
    taken: list[Record] = []
    for place in found if rng is None else [found[int(i)] for i in rng.permutation(len(found))]:
        begin = at.get(place, 0)
        end = len(records.kept[place]) if rng is None else begin + int(rng.integers(0, MOST))
        taken += records.kept[place][begin:end]
    return taken

"""The stage runner, a standing task: the live Python stages of many jobs.

A stage is a consumer of its topics: it takes records as they arrive, appends its output, and then
commits how far it has read. After a crash between the two it takes records again, which is
harmless: facts are idempotent. Each job has a thread, a consumer and a producer of its own, so
that no job waits for another.
"""

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import structlog

from narthex._base import to_micros
from narthex._ir import PipelineJobSpec, SourceJobSpec, Trigger
from narthex.errors import NarthexError
from narthex.settings import Settings
from narthex_spark_apps.facts.broken_counts import BrokenByMinute
from narthex_spark_apps.jobs.stage_offsets import StagePositions, group_of
from narthex_spark_apps.jobs.start import (
    NotRunnableError,
    checkpoint_of,
    count_details,
    input_broker,
    input_topics,
    polling_source,
)
from narthex_spark_apps.pipelines.join_stage import JoinStage
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.platform import gc_tuning
from narthex_spark_apps.platform.log_consumer import FETCH_WAIT_MS, BrokerEnds, OffsetGoneError
from narthex_spark_apps.platform.optional_clients import ClientMissingError
from narthex_spark_apps.sinks.sink_job import open_sink
from narthex_spark_apps.sinks.sink_stage import SinkStage
from narthex_spark_apps.sources.polling_source import PollingSource
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.source_stage import SourceStage
from narthex_spark_apps.stateful import StatefulStage
from narthex_spark_apps.supervision.runner import Ended, JobLoop, Progress, attempt
from narthex_spark_apps.supervision.runner.lease_inbox import Send
from narthex_spark_apps.supervision.runner_messages import ShardId, WorkAssignment
from narthex_stores import LogProducer, LogReader, PartitionKey, Record, StoreError, platform_broker

log = structlog.get_logger()

MAX_RECORDS = 2_000
POLL_S = 0.2
KEEP_EVERY_S = 0.5
KEEP_IDLE_EVERY_S = 60.0
"""A cluster forgets the offsets of a group after days without a commit."""


class Stage(Protocol):
    """The part of a job that processes records."""

    def take(self, records: Sequence[Record]) -> None:
        """Process records; on return, their output is durable."""

    def close(self) -> None:
        """Close everything that the stage opened."""


class StageJob:
    """One run of a job, in a thread of its own."""

    def __init__(
        self,
        assignment: WorkAssignment,
        progress: Progress,
        *,
        settings: Settings,
        ends: BrokerEnds,
    ) -> None:
        """Start the run."""
        self.error: Exception | None = None
        self.counts: dict[str, int] = {}
        self._broken = BrokenByMinute()
        self._assignment = assignment
        self._progress = progress
        self._settings = settings
        self._ends = ends
        self._topics = progress.topics = input_topics(assignment.asset)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    @property
    def _name(self) -> str:
        return self._assignment.title

    def observe(self, progress: Progress) -> None:
        """Take over the counts; the thread itself notes its offsets."""
        now_us = to_micros(dt.datetime.now(dt.UTC))
        progress.details = count_details(self.counts) | self._broken.report(
            self.counts, now_us=now_us
        )

    def stop(self) -> None:
        """Ask the run to stop after the records that it is processing."""
        self._stop.set()

    @property
    def is_over(self) -> bool:
        """Whether the thread of the run has ended."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        for ended in attempt(self._assignment.shard_id, self._live):
            self.error = ended.error

    def _live(self) -> None:
        """Run until stopped, or until an error occurs."""
        asset = self._assignment.asset
        source = polling_source(asset, self._settings)
        if source is not None:
            self._poll(source)
            return
        with self._reader() as reader:
            epoch = int(self._assignment.epoch)
            positions = StagePositions(reader.group_offsets, epoch=epoch)
            sink = open_sink(asset, self._settings, written=positions, epoch=epoch)
            if sink is not None:
                with contextlib.closing(sink):
                    self._drain(sink, reader)
                return
            with contextlib.closing(self._stage()) as stage:
                self._process(stage, reader, positions)

    def _process(self, stage: Stage, reader: LogReader, positions: StagePositions) -> None:
        """Let a stage process the records of its topics, from its positions on."""
        starts = self._start(reader, stage, positions)
        # From now on, owners with earlier epochs are refused.
        positions.keep(starts)
        reader.assign(starts)
        self._note(reader)
        self._progress.is_running = True
        self._tail(stage, reader, positions)

    def _poll(self, source: PollingSource) -> None:
        """Poll a source repeatedly."""
        with LogProducer(platform_broker(self._settings)) as producer:
            try:
                while not self._stop.is_set():
                    for name, count in source.read(producer, stopped=self._stop.is_set).items():
                        self.counts[name] = self.counts.get(name, 0) + count
                    newest = source.newest_us()
                    if newest is not None:
                        self.counts["newest"] = newest
                    self._progress.succeed(to_micros(dt.datetime.now(dt.UTC)))
                    self._progress.known = self._progress.is_running = True
                    self._stop.wait(source.every_s)
            finally:
                source.close()

    def _drain(self, sink: SinkStage, reader: LogReader) -> None:
        """Write the changes of a dataset's rows to the target of a sink."""
        reader.assign(sink.resume(reader.first_offsets(self._topics)))
        self.counts["written"] = 0
        self._progress.is_running = True
        while not self._stop.is_set():
            records = self._records(reader)
            if records:
                sink.take(records)
                self.counts["rows"] = self.counts.get("rows", 0) + len(records)
            if sink.is_due:
                self.counts["written"] += sink.tell()
            if not sink.pending:
                self._note(reader)
                self._progress.succeed(self._asked.answered_us)

    def _reader(self) -> LogReader:
        asset = self._assignment.asset
        # Secrets may have been added or changed since the last attempt.
        broker = input_broker(asset, self._settings)
        self._asked = self._ends.watch(self._assignment.shard_id, broker, self._topics)
        self._progress.ends = self._asked
        return LogReader(broker, fetch_wait_ms=FETCH_WAIT_MS, group=group_of(asset))

    def _stage(self) -> Stage:
        asset = self._assignment.asset
        match asset.spec:
            case SourceJobSpec() as spec:
                stage = SourceStage.of(SourceJob(asset=asset, spec=spec), self._settings)
                self.counts = stage.counts
                return stage
            case PipelineJobSpec(trigger=Trigger.STATEFUL) as spec:
                stateful = StatefulStage(
                    PipelineJob(asset=asset, spec=spec),
                    settings=self._settings,
                    checkpoint=checkpoint_of(asset, self._settings),
                    epoch=self._assignment.epoch,
                )
                self.counts = stateful.counts
                return stateful
            case PipelineJobSpec() as spec:
                joins = JoinStage(PipelineJob(asset=asset, spec=spec), settings=self._settings)
                self.counts = joins.counts
                return joins
            case _:
                raise NotRunnableError(f"asset {asset.asset_id} is not a job")

    def _start(
        self, reader: LogReader, stage: Stage, positions: StagePositions
    ) -> dict[PartitionKey, int]:
        """Return the start offset of each partition: its position, else its first existing record.

        A stateful stage has the positions in its state, which its backfill has advanced too.
        """
        found = reader.first_offsets(self._topics)
        missing = set(self._topics) - {topic for topic, _ in found}
        if missing:
            raise NotRunnableError(f"missing topic {', '.join(sorted(missing))}")
        # The other partitions belong to other shards, whose slots have epochs of their own.
        firsts = {place: at for place, at in found.items() if self._assignment.reads(place[1])}
        committed = positions.load(firsts)
        if isinstance(stage, StatefulStage):
            stored = stage.positions()
        else:
            stored = committed or {(t, p): at for t, p, at in self._assignment.start_offsets}
        for place, first in firsts.items():
            if stored.get(place, first) < first:
                log.warning("records_are_gone", job=self._name, place=place, stored=stored[place])
        return {place: max(first, stored.get(place, first)) for place, first in firsts.items()}

    def _tail(self, stage: Stage, reader: LogReader, positions: StagePositions) -> None:
        kept_at = time.monotonic()
        dirty = False
        while not self._stop.is_set():
            records = self._records(reader)
            if records:
                stage.take(records)
                self._note(reader)
                dirty = True
            if isinstance(stage, SourceStage):
                self._progress.succeed(self._asked.answered_us)
            now = time.monotonic()
            if now - kept_at >= (KEEP_EVERY_S if dirty else KEEP_IDLE_EVERY_S):
                positions.keep(reader.positions)
                kept_at, dirty = now, False
        if dirty:
            positions.keep(reader.positions)

    def _records(self, reader: LogReader) -> list[Record]:
        """Return the records that have arrived; wait a moment for the first one."""
        self._add_partitions(reader)
        records = reader.poll(max_records=MAX_RECORDS, timeout_s=POLL_S)
        for event in reader.events():
            if not event.transient:
                raise OffsetGoneError(f"`{event.topic}` {event.partition}: {event.message}")
        return records

    def _add_partitions(self, reader: LogReader) -> None:
        """Read partitions that were added to a topic, from their beginning."""
        known = self._progress.ends.known()
        positions = reader.positions
        new = {
            (topic, partition): 0
            for topic in self._topics
            for partition in known.get(topic, {})
            if (topic, partition) not in positions and self._assignment.reads(partition)
        }
        if new:
            reader.assign(positions | new)

    def _note(self, reader: LogReader) -> None:
        read: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in reader.positions.items():
            read.setdefault(topic, {})[partition] = offset
        self._progress.read = read
        self._progress.known = True


class StageRunner:
    """The stages of this task, each run in a thread of its own."""

    turn_s = 0.2
    expected = (
        NarthexError,
        StoreError,
        NotRunnableError,
        OffsetGoneError,
        ClientMissingError,
        OSError,
    )

    def __init__(self, settings: Settings) -> None:
        """Prepare a runner without jobs."""
        self._settings = settings
        self._ends = BrokerEnds()

    def adopt(self, desired: Mapping[ShardId, WorkAssignment], /) -> None:
        """Stop watching the topics of jobs that are no longer desired."""
        self._ends.retain(desired)

    def start(self, assignment: WorkAssignment, progress: Progress) -> StageJob:
        """Start the thread of a job."""
        return StageJob(assignment, progress, settings=self._settings, ends=self._ends)

    def advance(self, runs: Mapping[ShardId, StageJob]) -> Iterable[Ended]:
        """Return the runs whose threads have ended."""
        return [Ended(shard_id, run.error) for shard_id, run in runs.items() if run.is_over]


def make_loop(settings: Settings, send: Send) -> JobLoop[StageJob]:
    """Return the loop of the standing task."""
    gc_tuning.tune_gc()
    return JobLoop(StageRunner(settings), send)

"""The stage runner process: the live Python stages of many jobs.

The supervisor starts it as `python -m narthex_spark_apps.jobs.stage_runner`.
A stage is a consumer of its topics: it takes records as they arrive, appends its output, and then
commits how far it has read. After a crash between the two it takes records again, which is
harmless: facts are idempotent. Each job has a thread, a consumer and a producer of its own, so
that no job waits for another.
"""

import contextlib
import gc
import sys
import threading
import time
from collections.abc import Sequence
from typing import Protocol

import structlog

from narthex._ir import PipelineJobSpec, SourceJobSpec, Trigger
from narthex.errors import NarthexError
from narthex.settings import Settings, load_settings
from narthex_spark_apps.jobs.progress import NothingKnown, Progress, describe_error
from narthex_spark_apps.jobs.read_positions import Positions
from narthex_spark_apps.jobs.start import (
    NotRunnableError,
    checkpoint_of,
    input_broker,
    input_topics,
    polling_source,
)
from narthex_spark_apps.pipelines.join_stage import JoinStage
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.platform.log_consumer import FETCH_WAIT_MS, BrokerEnds
from narthex_spark_apps.platform.optional_clients import ClientMissingError
from narthex_spark_apps.sinks.sink_job import open_sink
from narthex_spark_apps.sinks.sink_stage import SinkStage
from narthex_spark_apps.sources.polling_source import PollingSource
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.source_stage import SourceStage
from narthex_spark_apps.stateful import StatefulStage
from narthex_spark_apps.supervision.child_messages import (
    DesiredAssignments,
    Inbox,
    Report,
    RunningJobs,
    WorkAssignment,
    end_process_group,
    send,
)
from narthex_stores import IndexFenced, LogProducer, LogReader, Record, StoreError

log = structlog.get_logger()

MAX_RECORDS = 2_000
POLL_S = 0.2
NOTE_EVERY_S = 0.5
TURN_S = 0.2
REPORT_EVERY_S = 0.5
FIRST_PAUSE_S = 0.5
GREATEST_PAUSE_S = 30.0


class Stage(Protocol):
    """The part of a job that processes records."""

    def take(self, records: Sequence[Record]) -> None:
        """Process records; on return, their output is durable."""

    def close(self) -> None:
        """Close everything that the stage opened."""


class OffsetGoneError(RuntimeError):
    """The topic no longer holds the next record that the job has to read."""


_FORESEEN = (
    NarthexError,
    StoreError,
    NotRunnableError,
    OffsetGoneError,
    ClientMissingError,
    OSError,
)
"""Expected failures of a job, which its operator or its author can resolve."""


class StageJob:
    """One job under one epoch, in a thread of its own."""

    def __init__(
        self,
        assignment: WorkAssignment,
        settings: Settings,
        ends: BrokerEnds,
        *,
        after: "StageJob | None" = None,
    ) -> None:
        """Start the job once its previous run, if there was one, is over.

        Two runs of one job in one process would both open its state.
        """
        self.assignment = assignment
        self._after = after
        self.progress = Progress(assignment=assignment, ends=NothingKnown())
        self._settings = settings
        self._ends = ends
        self._topics = input_topics(assignment.asset)
        self._positions = Positions(
            checkpoint_of(assignment.asset, settings) / "live" / "positions.json",
            epoch=assignment.epoch,
        )
        self._is_running = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        """The name of the job in logs."""
        return self.assignment.asset.physical_name

    def assign(self, assignment: WorkAssignment) -> None:
        """Continue under a newer generation of the same epoch."""
        self.assignment = self.progress.assignment = assignment

    def stop(self) -> None:
        """Ask the job to stop after the records that it is processing."""
        self._stop.set()

    def join(self, *, timeout_s: float | None = None) -> None:
        """Wait until the job has ended, for at most `timeout_s`."""
        self._thread.join(timeout_s)

    @property
    def is_over(self) -> bool:
        """Whether the thread of the job has ended."""
        return not self._thread.is_alive()

    def report(self) -> Report:
        """Report the state of the job."""
        return self.progress.report(is_running=self._is_running, behind=self.progress.behind())

    def _run(self) -> None:
        if self._after is not None:
            self._after.join()
            self._after = None
        pause_s = FIRST_PAUSE_S
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self._live()
            except IndexFenced as error:
                # Another process runs the job: do not retry.
                self._failed(error)
                self._is_running = False
                return
            except _FORESEEN as error:
                self._failed(error)
            except Exception as error:
                # An unexpected error must not end the thread without a report.
                log.exception("stage_failed", job=self.name)
                self._failed(error)
            self._is_running = False
            if time.monotonic() - began > GREATEST_PAUSE_S:
                pause_s = FIRST_PAUSE_S
            self._stop.wait(pause_s)
            pause_s = min(GREATEST_PAUSE_S, pause_s * 2)

    def _failed(self, error: Exception) -> None:
        self.progress.error = describe_error(error)
        self.progress.restarts += 1
        log.warning("job_failed", job=self.name, error=self.progress.error)

    def _live(self) -> None:
        """Run until stopped, or until an error occurs."""
        asked = polling_source(self.assignment.asset, self._settings)
        if asked is not None:
            self._ask(asked)
            return
        sink = open_sink(self.assignment.asset, self._settings, epoch=int(self.assignment.epoch))
        if sink is not None:
            with contextlib.closing(sink):
                self._drain(sink)
            return
        self._positions.claim()
        with self._reader() as reader, contextlib.closing(self._stage()) as stage:
            reader.assign(self._start(reader, stage))
            self._say(reader)
            log.info("job_started", job=self.name, epoch=self.assignment.epoch)
            self._is_running = True
            self._tail(stage, reader)

    def _ask(self, asked: PollingSource) -> None:
        """Poll a source repeatedly."""
        with LogProducer(self._settings.kafka) as producer:
            try:
                while not self._stop.is_set():
                    self._is_running = True
                    for name, count in asked.read(producer, stopped=self._stop.is_set).items():
                        self.progress.counts[name] = self.progress.counts.get(name, 0) + count
                    newest = asked.newest_us()
                    if newest is not None:
                        self.progress.counts["newest"] = newest
                    self.progress.known = True
                    self.progress.error = None
                    self._stop.wait(asked.every_s)
            finally:
                asked.close()

    def _drain(self, sink: SinkStage) -> None:
        """Write the changes of a dataset's rows to the target of a sink."""
        with self._reader() as reader:
            kept, firsts = sink.state.offsets(), reader.first_offsets(self._topics)
            reader.assign({p: max(first, kept.get(p, first)) for p, first in firsts.items()})
            self._is_running = True
            while not self._stop.is_set():
                self._add_partitions(reader)
                records = reader.poll(max_records=MAX_RECORDS, timeout_s=POLL_S)
                for event in reader.events():
                    if not event.transient:
                        raise OffsetGoneError(f"`{event.topic}` {event.partition}: {event.message}")
                if records:
                    sink.take(records)
                    self.progress.counts["rows"] = self.progress.counts.get("rows", 0) + len(
                        records
                    )
                if sink.is_due:
                    sink.tell()
                if not sink.pending:
                    self._say(reader)
                    self.progress.error = None

    def _reader(self) -> LogReader:
        asset = self.assignment.asset
        # Secrets may have been added or changed since the last attempt.
        broker = input_broker(asset, self._settings)
        self.progress.ends = self._ends.watch(asset.asset_id, broker, self._topics)
        return LogReader(broker, fetch_wait_ms=FETCH_WAIT_MS)

    def _stage(self) -> Stage:
        asset = self.assignment.asset
        match asset.spec:
            case SourceJobSpec() as spec:
                stage = SourceStage.of(SourceJob(asset=asset, spec=spec), self._settings)
                self.progress.counts = stage.counts
                return stage
            case PipelineJobSpec(trigger=Trigger.STATEFUL) as spec:
                return StatefulStage(
                    PipelineJob(asset=asset, spec=spec),
                    settings=self._settings,
                    checkpoint=checkpoint_of(asset, self._settings),
                    epoch=self.assignment.epoch,
                )
            case PipelineJobSpec() as spec:
                return JoinStage(PipelineJob(asset=asset, spec=spec), settings=self._settings)
            case _:
                raise NotRunnableError(f"asset {asset.asset_id} is no job")

    def _start(self, reader: LogReader, stage: Stage) -> dict[tuple[str, int], int]:
        """Return the start offset of each partition: its position, else its first existing record.

        A stateful stage keeps the positions in its state, which its backfill has advanced too.
        """
        if isinstance(stage, StatefulStage):
            kept = stage.positions()
        else:
            kept = self._positions.load(self.assignment.start_offsets)
        firsts = reader.first_offsets(self._topics)
        missing = set(self._topics) - {topic for topic, _ in firsts}
        if missing:
            raise NotRunnableError(f"there is no topic {', '.join(sorted(missing))}")
        for place, first in firsts.items():
            if kept.get(place, first) < first:
                log.warning("records_are_gone", job=self.name, place=place, kept=kept[place])
        return {place: max(first, kept.get(place, first)) for place, first in firsts.items()}

    def _tail(self, stage: Stage, reader: LogReader) -> None:
        noted = time.monotonic()
        dirty = False
        while not self._stop.is_set():
            self._add_partitions(reader)
            records = reader.poll(max_records=MAX_RECORDS, timeout_s=POLL_S)
            for event in reader.events():
                if not event.transient:
                    raise OffsetGoneError(f"`{event.topic}` {event.partition}: {event.message}")
            if records:
                stage.take(records)
                self._say(reader)
                self.progress.error = None
                dirty = True
            now = time.monotonic()
            if dirty and now - noted >= NOTE_EVERY_S:
                self._positions.keep(reader.positions)
                noted, dirty = now, False
        if dirty:
            self._positions.keep(reader.positions)

    def _add_partitions(self, reader: LogReader) -> None:
        """Read partitions that were added to a topic, from their beginning."""
        known = self.progress.ends.known()
        positions = reader.positions
        new = {
            (topic, partition): 0
            for topic in self._topics
            for partition in known.get(topic, {})
            if (topic, partition) not in positions
        }
        if new:
            reader.assign(positions | new)

    def _say(self, reader: LogReader) -> None:
        read: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in reader.positions.items():
            read.setdefault(topic, {})[partition] = offset
        self.progress.read = read
        self.progress.known = True


class StageRunner:
    """All stages of this process."""

    def __init__(self, settings: Settings) -> None:
        """Prepare a runner without jobs."""
        self._settings = settings
        self._jobs: dict[int, StageJob] = {}
        self._stopping: list[StageJob] = []
        self._turn = 0
        self._ends = BrokerEnds()

    def assign(self, desired: DesiredAssignments) -> None:
        """Adopt the desired set of jobs; a new epoch is a new run."""
        self._turn = desired.turn
        wanted = {a.asset.asset_id: a for a in desired.assignments}
        for asset_id, job in list(self._jobs.items()):
            found = wanted.get(asset_id)
            if found is None or found.epoch != job.assignment.epoch:
                del self._jobs[asset_id]
                job.stop()
                self._stopping.append(job)
                if found is None:
                    self._ends.forget(asset_id)
            else:
                job.assign(found)
        for asset_id, assignment in wanted.items():
            if asset_id not in self._jobs:
                before = [j for j in self._stopping if j.assignment.asset.asset_id == asset_id]
                self._jobs[asset_id] = StageJob(
                    assignment, self._settings, self._ends, after=before[-1] if before else None
                )

    def report(self) -> None:
        """Report the running jobs and their states to the supervisor."""
        self._stopping = [job for job in self._stopping if not job.is_over]
        ours = {job.assignment.asset.asset_id for job in (*self._jobs.values(), *self._stopping)}
        send(RunningJobs(turn=self._turn, assets=tuple(sorted(ours))))
        for job in self._jobs.values():
            send(job.report())


def main() -> None:
    """Run until the supervisor is gone."""
    settings = load_settings()
    inbox = Inbox(sys.stdin, gone=end_process_group)
    runner = StageRunner(settings)
    # Imported objects are never freed: exclude them from every later garbage collection.
    gc.freeze()
    reported = time.monotonic()
    while True:
        desired = inbox.newest(wait_s=TURN_S)
        if desired is not None:
            runner.assign(desired)
        if time.monotonic() - reported >= REPORT_EVERY_S:
            runner.report()
            reported = time.monotonic()


if __name__ == "__main__":
    main()

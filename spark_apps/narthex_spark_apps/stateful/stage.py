"""The stage of a stateful job: process records, append the output, store the state."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import structlog

from narthex._formats.avro import fact_codec
from narthex._ir import Fact
from narthex._runtime.steps import StepContext
from narthex._runtime.workers import WorkerPool
from narthex.settings import Settings
from narthex_spark_apps.pipelines.failed_row_records import FailedRowRecords
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.stateful.rows_and_tombstones import EmittedRecord, RowEmitter
from narthex_spark_apps.stateful.step_tree import tree_of
from narthex_spark_apps.storage.snapshots import STATE, ensure_state
from narthex_stores import (
    JobState,
    LogProducer,
    LogReader,
    PartitionKey,
    StateBatch,
    TransientError,
    platform_broker,
)

log = structlog.get_logger()

CHUNK = 20_000
"""Number of facts that are taken over, or confirmed, in one batch of the state."""

LAYOUT = 2
"""The number of the layout of the steps' rows; greater whenever a release changes it."""

_POLL_S = 0.5


class InputRecord(Protocol):
    """The parts of a record that a stage reads."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def value(self) -> bytes | None: ...


class StatefulStage:
    """Runs one pipeline under one epoch.

    Its output is a function of the facts that it has read, whatever their order and their batches:
    facts that a correction undoes are emitted again as tombstones. A row on which a step fails goes
    to the quarantine, and so does one that an expectation quarantines.

    Attributes:
        counts: How many rows have failed, if a step may fail.
    """

    def __init__(
        self, job: PipelineJob, *, settings: Settings, checkpoint: Path, epoch: int
    ) -> None:
        """Open the state, and append records that an earlier run may have left in the outbox.

        A missing state is restored from its latest snapshot, if there is one.

        Args:
            job: The job.
            settings: The addresses of the brokers.
            checkpoint: The job's checkpoint.
            epoch: The epoch under which it runs.

        Raises:
            Fenced: A run of a later epoch has opened the state.
            StoreError: The records of the outbox could not be appended.
        """
        self._job = job
        ensure_state(settings, checkpoint)
        self._state = JobState(checkpoint / STATE, epoch=epoch)
        self._workers = WorkerPool(size=1)
        self._producer = LogProducer(platform_broker(settings))
        title = f"`{job.spec.dataset}.{job.spec.pipeline}`"
        self._failed = FailedRowRecords(job)
        self.counts = self._failed.counts
        context = StepContext(
            calls=self._workers,
            title=title,
            set_apart=self._failed.add,
            report_broken=self._failed.add_broken,
        )
        self._tree = tree_of(job.spec, context)
        # Datasets with the same definition share one log.
        self._datasets: dict[str, list[str]] = {}
        for one in job.spec.inputs:
            topic = job.asset.need(f"input:{one.dataset}").physical_name
            self._datasets.setdefault(topic, []).append(one.dataset)
        self._codecs = {one.dataset: fact_codec(one.log) for one in job.spec.inputs}
        self._emitter = RowEmitter.of(job.spec, self._tree.schema)
        try:
            self._append(self._state.outbox())
            self._state.require_layout(LAYOUT)
            self._catch_up_with_log(settings)
            # A run may have ended between its last batch and this.
            self._settle()
        except BaseException:
            self.close()
            raise

    def _catch_up_with_log(self, settings: Settings) -> None:
        """Take over the log's facts that this state never emitted: the log is newer than the state.

        This happens after the state was lost, or restored from a snapshot. Facts that the state
        emits too are right; the others are corrected once all input up to now has been read.
        """
        output = self._job.output
        with LogReader(platform_broker(settings)) as reader:
            ends = reader.end_offsets([output])
            firsts = reader.first_offsets([output])
            last = {place: end - 1 for place, end in ends.items() if end > firsts[place]}
            newest = self._newest(reader, last, ends)
            if newest <= self._state.newest():
                return
            sure_at = reader.end_offsets(list(self._datasets))
            self._state.run(lambda batch: batch.doubt_until(sure_at))
            rows = 0
            for facts in self._facts(reader, {place: firsts[place] for place in last}, ends):
                self._state.run(functools.partial(self._emitter.remember, facts=facts))
                rows += len(facts)
        # Last, so that a crash before this point repeats all of it.
        self._state.run(lambda batch: batch.know(newest))
        log.warning("state_is_older_than_log", job=self._job.asset.physical_name, facts=rows)

    def _newest(
        self, reader: LogReader, last: Mapping[PartitionKey, int], ends: Mapping[PartitionKey, int]
    ) -> bytes:
        """Return the greatest version among the last facts of the log's partitions."""
        found = [fact for facts in self._facts(reader, last, ends) for fact in facts]
        return max((fact.version for fact in found), default=b"")

    def _facts(
        self,
        reader: LogReader,
        starts: Mapping[PartitionKey, int],
        ends: Mapping[PartitionKey, int],
    ) -> Iterator[list[Fact]]:
        """Yield the facts of the log between offsets, in chunks."""
        codec = fact_codec(self._job.spec.log)
        reader.assign(starts)
        while any(reader.positions[place] < ends[place] for place in starts):
            records = reader.poll(max_records=CHUNK, timeout_s=_POLL_S)
            yield codec.decode_many([record.value or b"" for record in records])

    def _settle(self) -> None:
        """Resolve doubtful rows once all input that could confirm them has been read."""
        while (until := self._state.doubt_ends()) is not None:
            reached = self.positions()
            if any(reached.get(place, 0) < offset for place, offset in until.items()):
                return
            self._append(self._state.run(self._settled))

    def _settled(self, batch: StateBatch) -> list[EmittedRecord]:
        records = self._emitter.settle(batch, CHUNK)
        batch.post(records)
        return records

    def positions(self) -> dict[tuple[str, int], int]:
        """Return the processed offsets: (topic, partition) to the next offset."""
        return self._state.offsets()

    def take(self, records: Sequence[InputRecord]) -> None:
        """Process records; on return, the state and the output are durable.

        Raises:
            Fenced: A run of a later epoch has taken over; nothing was changed.
            StoreError: A record could not be appended; it will be, before any other. Or the state
                was replaced: the next stage that opens it continues there.
        """
        if not records:
            return
        if self._state.is_replaced():
            raise TransientError("the checkpoint contains no state, or the state of another job")
        values: dict[str, list[bytes]] = {}
        offsets: dict[tuple[str, int], int] = {}
        for record in records:
            values.setdefault(record.topic, []).append(record.value or b"")
            offsets[record.topic, record.partition] = record.offset + 1
        arrived: dict[str, Sequence[Fact]] = {}
        for topic, found in values.items():
            names = self._datasets[topic]
            arrived |= dict.fromkeys(names, self._codecs[names[0]].decode_many(found))
        self._append(self._state.run(lambda batch: self._work(batch, arrived, offsets)))
        self._settle()

    def _work(
        self,
        batch: StateBatch,
        arrived: Mapping[str, Sequence[Fact]],
        offsets: Mapping[tuple[str, int], int],
    ) -> list[EmittedRecord]:
        self._failed.discard()
        records = self._emitter.records(batch, self._tree.changes(batch, arrived))
        batch.post(records)
        batch.advance(offsets)
        self._append_failed()
        return records

    def _append_failed(self) -> None:
        """Append the failed rows before the batch is committed: after a crash it is repeated, and
        their records are the same.
        """
        records = self._failed.take()
        for topic, key, value in records:
            self._producer.post(topic, key=key, value=value)
        if records:
            self._producer.flush()

    def _append(self, records: Iterable[EmittedRecord]) -> None:
        """Append the records of the outbox, and empty the outbox."""
        topic, posted = self._job.output, False
        for key, value in records:
            self._producer.post(topic, key=key, value=value)
            posted = True
        if posted:
            self._producer.flush()
            self._state.empty_outbox()

    def close(self) -> None:
        """Close everything that the stage opened; committed data stays."""
        self._workers.close()
        self._producer.close()
        self._state.close()

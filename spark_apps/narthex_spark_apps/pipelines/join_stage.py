"""The live run of a pipeline with joins or user code: process records and corrections.

When the past of a right key changes, its index writer announces the invalidated spans; the stage
reads the left rows of that key and span again from an index of the left log, and emits their joined
rows with a higher version.

Two rules prevent races. An invalidation contains the writer's offsets, and the stage waits until
the right index contains them; otherwise it would look up the old past again. And it waits until the
left index contains all records that the stage has read; otherwise it would miss a joined row.
"""

import json
from collections.abc import Mapping, Sequence

import attrs

from narthex._base import Backoff
from narthex._formats import from_storage
from narthex._ir import Cell, Column, Fact, Join
from narthex.settings import Settings
from narthex_spark_apps.pipelines.python_pipeline import (
    PythonPipeline,
    joins_of,
    open_need,
)
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.platform.record_batches import RecordCells
from narthex_stores import (
    IndexHandle,
    IndexStore,
    LogProducer,
    LogReader,
    Record,
    index_store,
    platform_broker,
)

WAIT_S = 120.0
POLL = Backoff(first_s=0.003, greatest_s=0.01)


class IndexLateError(TimeoutError):
    """An index did not receive the data for a correction in time; the batch is repeated."""


@attrs.frozen(kw_only=True)
class InvalidationRecord:
    """An invalidated span of a right key's past, and the offsets that contain the change."""

    cells: tuple[Cell, ...]
    from_us: int
    to_us: int | None
    offsets: dict[tuple[str, int], int]


@attrs.frozen(kw_only=True)
class RightSide:
    """A joined dataset: its index, and the left index by the join's columns."""

    join: Join
    index: IndexHandle
    left: IndexHandle

    def by(self, cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
        """Return a right key in the left index's form: in the order of the join's pairs."""
        keys = [column.name for column in self.index.spec.log.keys]
        by_name = dict(zip(keys, cells, strict=True))
        return tuple(by_name[right_name] for _, right_name in self.join.on)


class JoinStage:
    """The Python stage of one job.

    Attributes:
        invalidations: The joined dataset for each topic of invalidations.
        counts: How many rows have failed, if a step may fail.
    """

    def __init__(self, job: PipelineJob, *, settings: Settings) -> None:
        """Open the indexes for reading; nothing is read yet."""
        self._job = job
        self.invalidations = {
            need.physical_name: need.role.removeprefix("touched:")
            for need in job.asset.needs
            if need.role.startswith("touched:")
        }
        # An earlier run of this job may have joined everything that the log holds now.
        with LogReader(platform_broker(settings)) as reader:
            self._read = reader.end_offsets([job.input_topic])
        # Opened last, so that an earlier failure leaves no process and no client open.
        indexes = index_store(settings)
        self._pipeline = PythonPipeline(job, indexes)
        self.counts = self._pipeline.failed.counts
        self._rights = {
            join.right.dataset: self._right(join, indexes) for join in joins_of(job.spec.operators)
        }
        self._producer = LogProducer(platform_broker(settings))

    def _right(self, join: Join, indexes: IndexStore) -> RightSide:
        name = join.right.dataset
        roles = {need.role for need in self._job.asset.needs}
        role = f"left:{name}" if f"left:{name}" in roles else "left"
        return RightSide(
            join=join,
            index=self._pipeline.rights[name],
            left=open_need(self._job, role, indexes),
        )

    def take(self, records: Sequence[Record]) -> None:
        """Process records; on return, their facts are durable in the output log.

        Raises:
            StoreError: A fact could not be appended; the records must be taken again.
            IndexLateError: An index did not receive the data for a correction in time.
        """
        by_topic: dict[str, list[bytes]] = {}
        for record in records:
            by_topic.setdefault(record.topic, []).append(record.value or b"")
            if record.topic == self._job.input_topic:
                place = (record.topic, record.partition)
                self._read[place] = max(self._read.get(place, 0), record.offset + 1)
        self._post(self._pipeline.records(by_topic.pop(self._job.input_topic, [])))
        for topic, messages in by_topic.items():
            dataset = self.invalidations[topic]
            keys = self._rights[dataset].index.spec.log.keys
            spans = [parse_span(message, keys) for message in messages]
            self._post(self._pipeline.repeated(self._invalidated(dataset, spans)))
        self._producer.flush()

    def close(self) -> None:
        """Close the workers and the producer; appended facts stay."""
        self._pipeline.close()
        self._producer.close()

    def _post(self, records: Sequence[RecordCells]) -> None:
        for topic, key, value in records:
            self._producer.post(topic, key=key, value=value)

    def _invalidated(self, dataset: str, spans: Sequence[InvalidationRecord]) -> list[Fact]:
        """Return the left rows that were joined with the invalidated spans of a dataset."""
        right = self._rights[dataset]
        including: dict[tuple[str, int], int] = {}
        for span in spans:
            for place, offset in span.offsets.items():
                including[place] = max(including.get(place, 0), offset)
        self._await(right.index, including, f"the index of `{dataset}`")
        self._await(right.left, self._read, f"the left index for `{dataset}`")
        again: dict[bytes, Fact] = {}
        high = right.join.within_high_us
        with right.left.read() as reader:
            for span in spans:
                to_us = None if span.to_us is None else span.to_us - high
                for fact in reader.rows(right.by(span.cells), span.from_us - high, to_us):
                    again[fact.row_id] = fact
        return list(again.values())

    @staticmethod
    def _await(index: IndexHandle, offsets: Mapping[tuple[str, int], int], what: str) -> None:
        def contains_all() -> bool:
            contained = index.offsets()
            return all(contained.get(place, 0) >= offset for place, offset in offsets.items())

        if not POLL.until(contains_all, within_s=WAIT_S):
            raise IndexLateError(f"{what} does not contain {dict(offsets)}")


def parse_span(message: bytes, keys: Sequence[Column]) -> InvalidationRecord:
    """Parse an index writer's message about an invalidated span of a dataset with these keys."""
    decoded = json.loads(message)
    conversions = [from_storage(column.type) for column in keys]
    return InvalidationRecord(
        cells=tuple(
            cell if convert is None else convert(cell)
            for cell, convert in zip(decoded["cells"], conversions, strict=True)
        ),
        from_us=int(decoded["from"]),
        to_us=None if decoded["to"] is None else int(decoded["to"]),
        offsets={
            (topic, int(partition)): int(offset)
            for topic, partitions in decoded["offsets"].items()
            for partition, offset in partitions.items()
        },
    )

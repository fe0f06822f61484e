"""Pipelines with joins or user code: look up, compute and append facts as they arrive.

The live run takes records in a separate process (`stage_runner`), the bounded run from Spark.

A left row is joined with the right index as of the left row's own instant. When the past of a right
key changes, its index writer announces the invalidated spans; the stage reads the left rows of
that key and span again from an index of the left log, and emits their joined rows with a higher
version.

Two rules prevent races. An invalidation contains the writer's offsets, and the stage waits until
the right index contains them; otherwise it would look up the old past again. And it waits until the
left index contains all records that the stage has read; otherwise it would miss a joined row.
"""

import contextlib
import json
import threading
from collections.abc import Iterable, Mapping, Sequence

import attrs
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from narthex._base import Backoff
from narthex._formats.avro import encode as fact_codec
from narthex._formats.avro import key_encoder
from narthex._ir import Cell, DatasetRef, Fact, IndexSpec, Join, LogShape, Operator, Trigger
from narthex._runtime.steps import StatelessPlan, StepContext
from narthex._runtime.workers import WorkerPool
from narthex.settings import Settings
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.platform.kafka_io import JobRun, read_topics
from narthex_stores import (
    Broker,
    IndexReader,
    LmdbIndex,
    LogProducer,
    LogReader,
    LookupResult,
    Record,
)

CHUNK = 20_000
WAIT_S = 120.0
POLL = Backoff(first_s=0.003, greatest_s=0.01)
MICRO_BATCH = "100 milliseconds"
TAKEN = ("topic", "partition", "offset", "value")


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
    index: LmdbIndex
    left: LmdbIndex
    left_topic: str


def start_joined(
    session: SparkSession, job: PipelineJob, *, settings: Settings, run: JobRun
) -> StreamingQuery:
    """Start a pipeline with joins or user code on Spark.

    A bounded run reads the left log only: it starts when the right indexes are complete, and the
    live run reads the corrections from before that moment on.
    """
    stage = JoinStage(job, settings=settings)
    bounded = run.trigger is Trigger.BOUNDED
    topics = [job.input_topic] if bounded else [job.input_topic, *stage.invalidations]
    records = read_topics(session, Broker(bootstrap=settings.kafka), topics, run=run)
    writer = (
        records.select(*TAKEN)
        .writeStream.queryName(run.name)
        .outputMode("append")
        .option("checkpointLocation", run.checkpoint)
        .foreachBatch(stage.take_batch)
    )
    trigger = {"availableNow": True} if bounded else {"processingTime": MICRO_BATCH}
    query = writer.trigger(**trigger).start()
    threading.Thread(
        target=_close_after, args=(query, stage), name=f"close-{run.name}", daemon=True
    ).start()
    return query


def _close_after(query: StreamingQuery, stage: "JoinStage") -> None:
    """Close the stage when its query has ended; others report how the query ended."""
    with contextlib.suppress(PySparkException, Py4JError):
        query.awaitTermination()
    stage.close()


class JoinStage:
    """The Python stage of one job.

    Attributes:
        invalidations: The joined dataset for each topic of invalidations.
    """

    def __init__(self, job: PipelineJob, *, settings: Settings) -> None:
        """Open the indexes for reading; nothing is read yet."""
        self._job = job
        self.invalidations = {
            need.physical_name: need.role.removeprefix("touched:")
            for need in job.asset.needs
            if need.role.startswith("touched:")
        }
        self._rights = {
            join.right.dataset: self._open(join, settings) for join in joins_of(job.spec.operators)
        }
        self._codec = fact_codec(job.stream.log)
        self._output = fact_codec(job.spec.log)
        self._key = key_encoder(job.spec.log.keys)
        # An earlier run of this job may have joined everything that the log holds now.
        with LogReader(settings.kafka) as reader:
            self._read = reader.end_offsets([job.input_topic])
        # Opened last, so that an earlier failure leaves no process and no client open.
        self._workers = WorkerPool(size=1)
        title = f"`{job.spec.dataset}.{job.spec.pipeline}`"
        self._plan = StatelessPlan.of(job.spec, StepContext(calls=self._workers, title=title))
        self._producer = LogProducer(settings.kafka)

    def _open(self, join: Join, settings: Settings) -> RightSide:
        asset = self._job.asset
        name = join.right.dataset
        roles = {need.role for need in asset.needs}
        left = asset.need(f"left:{name}" if f"left:{name}" in roles else "left")
        right = asset.need(f"right:{name}")
        if not isinstance(left.spec, IndexSpec) or not isinstance(right.spec, IndexSpec):
            raise TypeError("the assets of a join are not indexes")
        return RightSide(
            join=join,
            index=open_index(settings, right.physical_name, right.spec),
            left=open_index(settings, left.physical_name, left.spec),
            left_topic=self._job.input_topic,
        )

    def take_batch(self, batch: DataFrame, _batch_id: int) -> None:
        """Process one of Spark's batches; on return, its facts are durable in the output log."""
        records: pa.Table = batch.toArrow()
        self._take(zip(*(records.column(name).to_pylist() for name in TAKEN), strict=True))

    def take(self, records: Sequence[Record]) -> None:
        """Process records; on return, their facts are durable in the output log.

        Raises:
            StoreError: A fact could not be appended; the records must be taken again.
            IndexLateError: An index did not receive the data for a correction in time.
        """
        self._take((r.topic, r.partition, r.offset, r.value or b"") for r in records)

    def close(self) -> None:
        """Close the workers and the producer; appended facts stay."""
        self._workers.close()
        self._producer.close()

    def _take(self, records: Iterable[tuple[str, int, int, bytes]]) -> None:
        by_topic: dict[str, list[bytes]] = {}
        for topic, partition, offset, value in records:
            by_topic.setdefault(topic, []).append(value)
            if topic == self._job.input_topic:
                place = (topic, partition)
                self._read[place] = max(self._read.get(place, 0), offset + 1)
        values = by_topic.pop(self._job.input_topic, [])
        for begin in range(0, len(values), CHUNK):
            self._join(self._codec.decode_many(values[begin : begin + CHUNK]))
        for topic, messages in by_topic.items():
            self._correct(self.invalidations[topic], [parse_span(message) for message in messages])
        self._producer.flush()

    def _join(self, facts: Sequence[Fact]) -> None:
        readers = {name: right.index.read() for name, right in self._rights.items()}
        opened = {name: reader.__enter__() for name, reader in readers.items()}
        try:
            total = sum(sum(reader.offsets.values()) for reader in opened.values())
            suffix = b"\x01" + total.to_bytes(8, "big") if opened else b""
            lookup = _Lookup(opened)
            emitted = self._plan.run(facts, lookup=lookup.floor, version_suffix=suffix)
        finally:
            for reader in readers.values():
                reader.__exit__(None, None, None)
        for fact in emitted:
            self._emit(fact)

    def _emit(self, fact: Fact) -> None:
        shape = self._job.spec.log.shape
        key = fact.row_id if shape is LogShape.ROWS else self._key(fact.key)
        self._producer.post(self._job.output, key=key, value=self._output.encode(fact))

    def _correct(self, dataset: str, spans: Sequence[InvalidationRecord]) -> None:
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
                by = _by(right, span.cells)
                for fact in reader.rows(by, span.from_us - high, to_us):
                    again[fact.row_id] = fact
        facts = list(again.values())
        for begin in range(0, len(facts), CHUNK):
            self._join(facts[begin : begin + CHUNK])

    @staticmethod
    def _await(index: LmdbIndex, offsets: Mapping[tuple[str, int], int], what: str) -> None:
        def contains_all() -> bool:
            contained = index.offsets()
            return all(contained.get(place, 0) >= offset for place, offset in offsets.items())

        if not POLL.until(contains_all, within_s=WAIT_S):
            raise IndexLateError(f"{what} does not contain {dict(offsets)}")


@attrs.frozen
class _Lookup:
    """Right rows, all from one state of each index."""

    readers: Mapping[str, IndexReader]

    def floor(
        self,
        dataset: str,
        keys: Sequence[tuple[Cell, ...]],
        as_of: Sequence[int],
        not_before: Sequence[int | None],
    ) -> Sequence[LookupResult | None]:
        return self.readers[dataset].floor(keys, as_of, not_before=not_before)


_OPEN: dict[str, LmdbIndex] = {}
_OPENING = threading.Lock()


def open_index(settings: Settings, physical_name: str, spec: IndexSpec) -> LmdbIndex:
    """Return this process's shared handle of an index, opened once as its store requires.

    An index that was restored since then is another index, and is opened again.
    """
    with _OPENING:
        if physical_name not in _OPEN or _OPEN[physical_name].is_replaced():
            path = settings.index_dir / physical_name
            _OPEN[physical_name] = LmdbIndex(path, spec, readonly=True)
        return _OPEN[physical_name]


def joins_of(operator: Operator) -> list[Join]:
    """Return the joins of a pipeline, the first one first."""
    if isinstance(operator, DatasetRef):
        return []
    before = joins_of(operator.input)
    return [*before, operator] if isinstance(operator, Join) else before


def _by(right: RightSide, cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """Return a right key in the left index's form: in the order of the join's pairs."""
    keys = [column.name for column in right.index.spec.log.keys]
    by_name = dict(zip(keys, cells, strict=True))
    return tuple(by_name[right_name] for _, right_name in right.join.on)


def parse_span(message: bytes) -> InvalidationRecord:
    """Parse an index writer's message about an invalidated span."""
    said = json.loads(message)
    return InvalidationRecord(
        cells=tuple(said["cells"]),
        from_us=int(said["from"]),
        to_us=None if said["to"] is None else int(said["to"]),
        offsets={
            (topic, int(partition)): int(offset)
            for topic, partitions in said["offsets"].items()
            for partition, offset in partitions.items()
        },
    )

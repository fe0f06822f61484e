"""Pipelines without state that Spark cannot render: facts in, records of the pipeline's log out.

`PythonPipeline` runs the steps of `narthex._runtime.steps` on the values of records. A bounded run
calls it in Spark's Python workers (`PipelineRun`), a live run in `join_stage`. A row on which a
step fails becomes a record of the quarantine (docs/decisions/0037).

A left row is joined with the right index as of the left row's own instant; `join_versions` orders
the results of several such readings.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from narthex._formats import key_encoder
from narthex._formats.avro import fact_codec
from narthex._ir import (
    Cell,
    DatasetRef,
    Fact,
    IndexSpec,
    Join,
    LogShape,
    Operator,
)
from narthex._runtime.steps import StatelessPlan, StepContext
from narthex._runtime.workers import WorkerPool
from narthex.settings import Settings
from narthex_spark_apps.pipelines.failed_row_records import FailedRowRecords
from narthex_spark_apps.pipelines.join_versions import read_rights
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.platform.kafka_io import JobRun, read_topics, write_records
from narthex_spark_apps.platform.record_batches import OUTPUT, RecordCells, record_batch
from narthex_stores import (
    IndexHandle,
    IndexReader,
    IndexStore,
    LookupResult,
    index_store,
    platform_broker,
)

CHUNK = 20_000
"""Number of facts that are processed together; the lookups of one chunk see one index state."""


def start_python_pipeline(
    session: SparkSession, job: PipelineJob, *, settings: Settings, run: JobRun
) -> StreamingQuery:
    """Start a pipeline with joins or user code in Spark's Python workers.

    It reads the left log only. A bounded run starts when the right indexes are complete, and the
    live run reads the corrections from before that moment on.
    """
    broker = platform_broker(settings)
    records = read_topics(session, broker, [job.input_topic], run=run)
    function = PipelineRun(asset=job.render(), settings=settings.without_secrets())
    return write_records(records.select("value").mapInArrow(function, OUTPUT), broker, run=run)


@attrs.frozen(kw_only=True)
class PipelineRun:
    """The parameters of a pipeline that a worker needs.

    Attributes:
        asset: The resolved asset of the job, as plain JSON text.
        settings: The installation, without its secrets, which the worker reads by itself.
    """

    asset: str
    settings: Settings

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of the pipeline for batches with the column `value`.

        Raises:
            SandboxUnavailable: No worker could be started for author code.
        """
        job = PipelineJob.parse(self.asset)
        pipeline = PythonPipeline(job, index_store(self.settings.with_secrets()))
        try:
            for batch in batches:
                values = [value or b"" for value in batch.column("value").to_pylist()]
                yield record_batch(pipeline.records(values))
        finally:
            pipeline.close()


class PythonPipeline:
    """The steps of one pipeline, with the indexes that it joins with.

    Attributes:
        rights: The index of each joined dataset.
        failed: The rows on which steps have failed; their records are part of the output.
    """

    def __init__(self, job: PipelineJob, indexes: IndexStore) -> None:
        """Open the indexes for reading; a process for user code starts with its first call."""
        self._job = job
        self.rights = {
            join.right.dataset: open_need(job, f"right:{join.right.dataset}", indexes)
            for join in joins_of(job.spec.operators)
        }
        self._codec = fact_codec(job.stream.log)
        self._output = fact_codec(job.spec.log)
        self._key = key_encoder(job.spec.log.keys)
        self._workers = WorkerPool(size=1)
        title = f"`{job.spec.dataset}.{job.spec.pipeline}`"
        self.failed = FailedRowRecords(job)
        context = StepContext(
            calls=self._workers,
            title=title,
            set_apart=self.failed.add,
            report_broken=self.failed.add_broken,
        )
        self._plan = StatelessPlan.of(job.spec, context)

    def records(self, values: Sequence[bytes]) -> list[RecordCells]:
        """Return the records for the values of the left log's records.

        Raises:
            SandboxUnavailable: No worker could be started for author code.
        """
        return [
            record
            for begin in range(0, len(values), CHUNK)
            for record in self._run(self._codec.decode_many(values[begin : begin + CHUNK]))
        ]

    def repeated(self, facts: Sequence[Fact]) -> list[RecordCells]:
        """Return the records of left rows that are joined again."""
        return [
            record
            for begin in range(0, len(facts), CHUNK)
            for record in self._run(facts[begin : begin + CHUNK])
        ]

    def _run(self, facts: Sequence[Fact]) -> list[RecordCells]:
        self.failed.discard()
        with read_rights(self.rights) as reading:
            lookup = _Lookup(reading.readers)
            suffix = reading.version_suffix
            emitted = self._plan.run(facts, lookup=lookup.floor, version_suffix=suffix)
            joined = [reading.versioned(fact, self._output) for fact in emitted]
        return [*map(self._record, joined), *self.failed.take()]

    def _record(self, fact: Fact) -> RecordCells:
        shape = self._job.spec.log.shape
        key = fact.row_id if shape is LogShape.ROWS else self._key(fact.key)
        return self._job.output, key, self._output.encode(fact)

    def close(self) -> None:
        """End the process for user code; the indexes stay open for other jobs."""
        self._workers.close()


@attrs.frozen
class _Lookup:
    """Right rows, from the snapshots of one reading."""

    readers: Mapping[str, IndexReader]

    def floor(
        self,
        dataset: str,
        keys: Sequence[tuple[Cell, ...]],
        as_of: Sequence[int],
        not_before: Sequence[int | None],
    ) -> Sequence[LookupResult | None]:
        return self.readers[dataset].floor(keys, as_of, not_before=not_before)


_OPEN: dict[tuple[IndexStore, str], IndexHandle] = {}
_OPENING = threading.Lock()


def open_need(job: PipelineJob, role: str, indexes: IndexStore) -> IndexHandle:
    """Return this process's shared handle of an index that a job needs in a role."""
    need = job.asset.need(role)
    if not isinstance(need.spec, IndexSpec):
        raise TypeError(f"`{role}` is not an index")
    return open_index(indexes, need.physical_name, need.spec)


def open_index(indexes: IndexStore, physical_name: str, spec: IndexSpec) -> IndexHandle:
    """Return this process's shared handle of an index, opened once as its store requires.

    An index that was restored since then is another index, and is opened again.
    """
    place = indexes, physical_name
    with _OPENING:
        if place not in _OPEN or _OPEN[place].is_replaced():
            _OPEN[place] = indexes.open(physical_name, spec, readonly=True)
        return _OPEN[place]


def joins_of(operator: Operator) -> list[Join]:
    """Return the joins of a pipeline, the first one first."""
    if isinstance(operator, DatasetRef):
        return []
    before = joins_of(operator.input)
    return [*before, operator] if isinstance(operator, Join) else before

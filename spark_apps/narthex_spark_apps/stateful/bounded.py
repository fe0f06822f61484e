"""The bounded run of a stateful job: the live job's stage, in one task of a Spark query."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from narthex.settings import Settings
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.platform.kafka_io import JobRun, read_topics
from narthex_spark_apps.platform.record_batches import OUTPUT
from narthex_spark_apps.stateful.stage import StatefulStage
from narthex_stores import platform_broker

INPUT = ("topic", "partition", "offset", "value")


def start_stateful(  # noqa: PLR0913 (how a job runs this time)
    session: SparkSession,
    job: PipelineJob,
    topics: Iterable[str],
    *,
    settings: Settings,
    checkpoint: Path,
    epoch: int,
    run: JobRun,
) -> StreamingQuery:
    """Start a bounded run that processes topics into the job's state and log.

    The state has one writer, so that one task reads all partitions. The stage appends its output
    itself, because an outbox in the state makes output and state change together.
    """
    records = read_topics(session, platform_broker(settings), topics, run=run)
    function = StatefulRun(
        asset=job.render(),
        settings=settings.without_secrets(),
        checkpoint=checkpoint,
        epoch=epoch,
    )
    return (
        records.select(*INPUT)
        .coalesce(1)
        .mapInArrow(function, OUTPUT)
        .writeStream.queryName(run.name)
        .format("noop")
        .outputMode("append")
        .option("checkpointLocation", run.checkpoint)
        .trigger(availableNow=True)
        .start()
    )


@attrs.frozen
class _Row:
    """A record as Spark read it; the fields are the columns `INPUT`."""

    topic: str
    partition: int
    offset: int
    value: bytes | None


@attrs.frozen(kw_only=True)
class StatefulRun:
    """The parameters of a stateful job that a worker needs.

    Attributes:
        asset: The resolved asset of the job, as plain JSON text.
        settings: The installation, without its secrets, which the worker reads by itself.
        checkpoint: The checkpoint of the job, which contains its state.
        epoch: The epoch of the run.
    """

    asset: str
    settings: Settings
    checkpoint: Path
    epoch: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process batches with the columns `INPUT`; yield nothing.

        Records that the state already contains are skipped: Spark repeats a batch that failed.

        Raises:
            Fenced: A run of a later epoch has taken over.
            StoreError: A record could not be appended; it will be, before any other.
            SandboxUnavailable: No worker could be started for author code.
        """
        stage = StatefulStage(
            PipelineJob.parse(self.asset),
            settings=self.settings.with_secrets(),
            checkpoint=self.checkpoint,
            epoch=self.epoch,
        )
        try:
            for batch in batches:
                processed = stage.positions()
                columns = (batch.column(name).to_pylist() for name in INPUT)
                stage.take(
                    [
                        row
                        for row in map(_Row, *columns)
                        if row.offset >= processed.get((row.topic, row.partition), 0)
                    ]
                )
        finally:
            stage.close()
        yield from ()

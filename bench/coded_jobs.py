"""Jobs with author code for `live_code`, in a module that Spark's Python workers import."""

import attrs

from narthex._ir import (
    AssetKind,
    AssignCode,
    CheckpointSpec,
    Column,
    DatasetRef,
    Datetime,
    Field,
    Int,
    LogShape,
    LogSpec,
    PipelineInput,
    PipelineJobSpec,
    ResolvedAsset,
    ResolvedNeed,
    Role,
    Schema,
    TopicRole,
    TopicSpec,
    Trigger,
    UserCode,
)
from narthex.settings import Settings
from narthex_spark_apps.pipelines.python_pipeline import PythonPipeline
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.platform.record_batches import RecordCells
from narthex_stores import index_store

JOBS, PARTITIONS = 5, 2
SOURCE = "f = lambda df: df['n'] * 2\n"
CLICKS = Schema(
    (Field(name="n", type=Int()), Field(name="at", type=Datetime(), role=Role.TIMESTAMP))
)
LOG = LogSpec(shape=LogShape.ROWS, keys=(), values=CLICKS.values, time_field="at")

_OPEN: dict[str, PythonPipeline] = {}
"""The pipelines of this process, by input topic: a worker serves many intervals of a query."""


def job_assets() -> list[ResolvedAsset]:
    """Return all jobs."""
    return [_job_asset(number) for number in range(1, JOBS + 1)]


def _job_asset(number: int) -> ResolvedAsset:
    """Return a job that reads the topic `in<number>` and writes `out<number>`."""
    code = UserCode(entry="f", source=SOURCE, python="3.11")
    spec = PipelineJobSpec(
        dataset=f"Doubled{number}",
        pipeline="by_code",
        operators=AssignCode(DatasetRef("Clicks"), column=Column("n", Int()), code=code),
        inputs=(PipelineInput(dataset="Clicks", log=LOG, schema=CLICKS),),
        schema=CLICKS,
        log=LOG,
        trigger=Trigger.STAGE,
        reason="bench",
    )
    topic = TopicSpec(role=TopicRole.DATASET, partitions=PARTITIONS, log=LOG)
    needs = (
        _need("input:Clicks", AssetKind.KAFKA_TOPIC, f"in{number}", topic),
        _need("output", AssetKind.KAFKA_TOPIC, f"out{number}", topic),
        _need("checkpoint", AssetKind.CHECKPOINT, f"checkpoint{number}", CheckpointSpec(job="00")),
    )
    return ResolvedAsset(
        asset_id=number,
        kind=AssetKind.STREAM_JOB,
        physical_name=f"job{number}",
        fingerprint=b"f" * 32,
        spec=spec,
        needs=needs,
    )


def _need(role: str, kind: AssetKind, name: str, spec: TopicSpec | CheckpointSpec) -> ResolvedNeed:
    return ResolvedNeed(role=role, kind=kind, asset_id=0, physical_name=name, spec=spec)


@attrs.frozen
class RowFunction:
    """All jobs as a function of one record; the topic selects the job."""

    settings: Settings

    def __call__(self, topic: str, value: bytearray) -> list[RecordCells]:
        """Return the records to append."""
        if not _OPEN:
            for asset in job_assets():
                if isinstance(asset.spec, PipelineJobSpec):
                    job = PipelineJob(asset=asset, spec=asset.spec)
                    _OPEN[job.input_topic] = PythonPipeline(job, index_store(self.settings))
        return _OPEN[topic].records([bytes(value)])

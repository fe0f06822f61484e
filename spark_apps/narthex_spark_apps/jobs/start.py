"""Start any job of the registry, live or bounded, with the same code for both."""

from collections.abc import Callable, Mapping
from pathlib import Path

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from narthex._base import Json
from narthex._connectors import Input, kind_of, source_kind
from narthex._ir import (
    KafkaTopic,
    PipelineJobSpec,
    ResolvedAsset,
    SinkJobSpec,
    SourceJobSpec,
    Trigger,
)
from narthex.settings import Settings
from narthex_spark_apps.expressions import NotRenderedError
from narthex_spark_apps.pipelines.python_pipeline import start_python_pipeline
from narthex_spark_apps.pipelines.spark_plan import PipelineJob, start_pipeline
from narthex_spark_apps.platform.author_brokers import broker_of
from narthex_spark_apps.platform.author_places import require_path
from narthex_spark_apps.platform.kafka_io import REAL_TIME_S, JobRun, in_micro_batches
from narthex_spark_apps.platform.optional_clients import load_part
from narthex_spark_apps.sources.files.source import FileSource
from narthex_spark_apps.sources.polling_source import OpensPollingSource, PollingSource
from narthex_spark_apps.sources.source_job import SourceJob, start_source
from narthex_spark_apps.stateful import start_stateful
from narthex_stores import Broker, platform_broker

log = structlog.get_logger()


class NotRunnableError(RuntimeError):
    """A job that this version cannot run; the message names the part that it cannot run."""


def checkpoint_of(asset: ResolvedAsset, settings: Settings) -> Path:
    """Return the directory in which a job keeps its checkpoints."""
    return settings.checkpoint_dir / asset.need("checkpoint").physical_name


def input_topics(asset: ResolvedAsset) -> tuple[str, ...]:
    """Return the topics that a job reads; empty for files and tables."""
    match asset.spec:
        case SourceJobSpec(source=source) as spec:
            if source_kind(source.connector).input in {Input.FILES, Input.POLLED}:
                return ()
            return (SourceJob(asset=asset, spec=spec).topic(),)
        case PipelineJobSpec():
            roles = ("input:", "touched:")
            return tuple(n.physical_name for n in asset.needs if n.role.startswith(roles))
        case SinkJobSpec(dataset=dataset):
            return (asset.need(f"input:{dataset}").physical_name,)
        case _:
            raise NotRunnableError(f"asset {asset.asset_id} is not a job")


def count_details(counts: Mapping[str, int]) -> dict[str, Json]:
    """Return what a job reports of the rows that its present run has processed."""
    names = {"rows": "rows", "quarantined": "quarantined", "left_out": "left_out"}
    names |= {"written": "written", "newest_event_time": "newest"}
    return {detail: counts.get(name) for detail, name in names.items()}


def input_broker(asset: ResolvedAsset, settings: Settings) -> Broker:
    """Return the broker that a job reads from.

    Raises:
        SecretMissing: A secret of the source is missing.
    """
    if isinstance(asset.spec, SourceJobSpec):
        return _broker_of(asset.spec, settings)
    return platform_broker(settings)


def _broker_of(spec: SourceJobSpec, settings: Settings) -> Broker:
    connector = spec.source.connector
    if isinstance(connector, KafkaTopic):
        return broker_of(connector, settings)
    return platform_broker(settings)


def file_source(
    session: Callable[[], SparkSession], asset: ResolvedAsset, settings: Settings
) -> FileSource | None:
    """Return the reader of a file source; None for any other job, which needs no session."""
    spec = asset.spec
    if not isinstance(spec, SourceJobSpec):
        return None
    if source_kind(spec.source.connector).input is not Input.FILES:
        return None
    memory = checkpoint_of(asset, settings) / "files.json"
    return FileSource(
        session(), SourceJob(asset=asset, spec=spec), settings=settings, memory=memory
    )


def is_polled(asset: ResolvedAsset) -> bool:
    """Return whether a job reads a polling source."""
    spec = asset.spec
    if not isinstance(spec, SourceJobSpec):
        return False
    return source_kind(spec.source.connector).input is Input.POLLED


def polling_source(asset: ResolvedAsset, settings: Settings) -> PollingSource | None:
    """Return the reader of a polling source; None for any other job.

    Raises:
        ClientMissingError: The client library of the source is not installed.
        ForbiddenPlaceError: Sources may not read this place.
        SecretMissing: A required secret is missing.
    """
    spec = asset.spec
    if not isinstance(spec, SourceJobSpec) or not is_polled(asset):
        return None
    connector = spec.source.connector
    require_path(connector, settings)
    part = source_kind(connector).reader
    opens: OpensPollingSource = load_part(part, install=kind_of(connector).install)
    memory = checkpoint_of(asset, settings) / "cursor.json"
    return opens(SourceJob(asset=asset, spec=spec), settings=settings, memory=memory)


def query_name(asset: ResolvedAsset, *, kind: str, epoch: int) -> str:
    """Return the name of a job's query on Spark's pages, which no other query has."""
    match asset.spec:
        case SourceJobSpec(source_id=source_id):
            title = f"source {source_id}"
        case PipelineJobSpec(dataset=dataset, pipeline=pipeline):
            title = f"pipeline {dataset}.{pipeline}"
        case _:
            title = str(asset.kind.value)
    return f"{title}, {kind}, epoch {epoch} ({asset.physical_name})"


def start_query(  # noqa: PLR0913 (how a job runs this time)
    session: SparkSession,
    asset: ResolvedAsset,
    *,
    settings: Settings,
    bounded: bool,
    starts: tuple[tuple[str, int, int], ...] = (),
    epoch: int = 0,
    interval_s: int = REAL_TIME_S,
) -> StreamingQuery:
    """Start a job that reads topics with Spark; its trigger chooses how.

    Raises:
        NotRunnableError: This version cannot run a part of the job.
    """
    spec = asset.spec
    if not isinstance(spec, SourceJobSpec | PipelineJobSpec):
        raise NotRunnableError(f"asset {asset.asset_id} is not a job")
    kind = "backfill" if bounded else "live"
    run = JobRun(
        name=query_name(asset, kind=kind, epoch=epoch),
        trigger=Trigger.BOUNDED if bounded else spec.trigger,
        checkpoint=str(checkpoint_of(asset, settings) / kind),
        starts=starts,
        interval_s=interval_s,
    )
    if isinstance(spec, SourceJobSpec):
        job = SourceJob(asset=asset, spec=spec)
        if not bounded:
            raise NotRunnableError(f"`{spec.source_id}` is read live by a stage")
        return start_source(
            session, job, settings=settings, run=run, reads=_broker_of(spec, settings)
        )
    pipeline = PipelineJob(asset=asset, spec=spec)
    if spec.trigger is Trigger.STATEFUL:
        if not bounded:
            raise NotRunnableError(f"`{spec.pipeline}` is run live by a stage")
        return start_stateful(
            session,
            pipeline,
            input_topics(asset),
            settings=settings,
            checkpoint=checkpoint_of(asset, settings),
            epoch=epoch,
            run=run,
        )
    if spec.trigger is Trigger.REAL_TIME:
        try:
            return start_pipeline(session, pipeline, settings=settings, run=run)
        except NotRenderedError as error:
            # Spark has no exact expression for a part of the job: slower, never wrong.
            log.info("job_in_micro_batches", job=asset.physical_name, reason=str(error))
            run = in_micro_batches(run)
    return start_python_pipeline(session, pipeline, settings=settings, run=run)

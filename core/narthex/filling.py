"""The assets that fill a dataset: the jobs of its sources and of its pipeline."""

from collections.abc import Mapping
from typing import assert_never

from narthex.assets import (
    AssetKind,
    AssetRef,
    CheckpointSpec,
    FeedSpec,
    Fingerprint,
    IndexSpec,
    Need,
    PipelineInput,
    PipelineJobSpec,
    SourceJobSpec,
    TopicRole,
    TopicSpec,
    Trigger,
)
from narthex.bill import Bill
from narthex.code import UserCode
from narthex.entities import (
    Files,
    KafkaTopic,
    KinesisStream,
    Pipeline,
    PubSubTopic,
    Source,
    Table,
    WebhookEndpoint,
)
from narthex.fingerprints import ENGINE_SEMANTICS, fingerprint, source_fingerprint, source_id
from narthex.graph import pipeline_reads
from narthex.holding import Held, add_index_feed, disorder_of
from narthex.join_sides import joins_of
from narthex.operators import Aggregate, AssignCode, Filter, Join, Operator, Transform
from narthex.schemas import steps_of


def fill_from_source(bill: Bill, held: Held, source: Source, *, position: int) -> None:
    """List the job that turns a source's raw rows into facts of the dataset, with its needs."""
    dataset = held.typed.dataset
    path = f"job/{dataset.name}/source/{position}"
    quarantine = bill.add(
        AssetKind.KAFKA_TOPIC,
        fingerprint("topic.quarantine", None, (held.data,)),
        TopicSpec(role=TopicRole.QUARANTINE, partitions=1, identity=held.data.hex()),
        path=f"dataset/{dataset.name}/quarantine",
        label=f"quarantine of {dataset.name}",
    )
    needs = [Need("output", held.topic), Need("quarantine", quarantine)]
    if isinstance(source.connector, WebhookEndpoint):
        needs.append(Need("input", _add_ingest(bill, source.connector)))
    job = fingerprint(
        "job.source",
        ENGINE_SEMANTICS["source"],
        (source_fingerprint(source, dataset.schema), held.data),
    )
    trigger, reason = _source_trigger(source)
    spec = SourceJobSpec(
        dataset=dataset.name,
        source_id=source_id(source),
        source=source,
        schema=dataset.schema,
        log=held.plan.log,
        trigger=trigger,
        reason=reason,
    )
    needs.append(Need("checkpoint", _add_checkpoint(bill, job, path)))
    label = f"source {spec.source_id} of {dataset.name}"
    bill.add(AssetKind.STREAM_JOB, job, spec, needs=tuple(needs), path=path, label=label)


def fill_from_pipeline(
    bill: Bill, held: Held, pipeline: Pipeline, *, upstream: Mapping[str, Held]
) -> None:
    """List the job that computes a pipeline into the dataset's log, with its needs."""
    dataset = held.typed.dataset
    path = f"job/{dataset.name}/pipeline/{pipeline.name}"
    terminal = pipeline.terminal
    operators = terminal.input if isinstance(terminal, Aggregate) else terminal
    names = pipeline_reads(pipeline)
    trigger, reason = pipeline_trigger(operators)
    spec = PipelineJobSpec(
        dataset=dataset.name,
        pipeline=pipeline.name,
        operators=operators,
        inputs=tuple(_input(upstream[name]) for name in names),
        schema=dataset.schema,
        log=held.plan.log,
        trigger=trigger,
        reason=reason,
    )
    needs = [Need(f"input:{names[0]}", upstream[names[0]].topic), Need("output", held.topic)]
    needs += _right_sides(names[1:], upstream)
    needs += _left_indexes(bill, pipeline, upstream[names[0]], path=path)
    # The dataset's fingerprint holds the pipeline's; which triggers it has is not its identity.
    job = fingerprint("job.pipeline", None, (held.data,))
    needs.append(Need("checkpoint", _add_checkpoint(bill, job, path)))
    label = f"pipeline {dataset.name}.{pipeline.name}"
    bill.add(AssetKind.STREAM_JOB, job, spec, needs=tuple(needs), path=path, label=label)


def pipeline_trigger(operators: Operator) -> tuple[Trigger, str]:
    """Choose how a pipeline runs: in real time if it is expressions only; and say why."""
    _, steps = steps_of(operators)
    for step in steps:
        match step:
            case Join():
                reason = f"join `{step.right.dataset}` looks rows up in an index"
                return Trigger.STAGE, reason
            case AssignCode():
                return Trigger.STAGE, f"assign `{step.column.name}` runs Python"
            case Filter(predicate=UserCode()):
                return Trigger.STAGE, "a filter runs Python"
            case Transform():
                return Trigger.STAGE, "a transform runs Python"
            case _:
                pass
    return Trigger.REAL_TIME, "expressions only"


def _source_trigger(source: Source) -> tuple[Trigger, str]:
    match source.connector:
        case WebhookEndpoint() | KafkaTopic() | KinesisStream() | PubSubTopic():
            return Trigger.STAGE, "each row is checked by `narthex.admission`, as it comes"
        case Files():
            if source.bounded:
                return Trigger.BOUNDED, "files that do not grow are read once, by the backfill"
            return Trigger.MICRO_BATCH, "new files are looked for again and again"
        case Table():
            return Trigger.MICRO_BATCH, "new rows are asked for again and again"
        case _:
            assert_never(source.connector)


def _add_ingest(bill: Bill, endpoint: WebhookEndpoint) -> AssetRef:
    identity = f"{endpoint.webhook}/{endpoint.endpoint}"
    return bill.add(
        AssetKind.KAFKA_TOPIC,
        fingerprint("topic.ingest", identity),
        TopicSpec(role=TopicRole.INGEST, partitions=1, identity=identity),
        path=f"webhook/{identity}/ingest",
        label=f"ingest {identity}",
    )


def _add_checkpoint(bill: Bill, job: Fingerprint, path: str) -> AssetRef:
    return bill.add(
        AssetKind.CHECKPOINT,
        fingerprint("checkpoint", None, (job,)),
        CheckpointSpec(job=job.hex()),
        path=f"{path}/checkpoint",
        label=f"checkpoint of {path.removeprefix('job/')}",
    )


def _input(held: Held) -> PipelineInput:
    return PipelineInput(
        dataset=held.typed.dataset.name,
        log=held.plan.log,
        schema=held.typed.dataset.schema,
        correctable=held.typed.info.correctable,
    )


def _right_sides(names: tuple[str, ...], upstream: Mapping[str, Held]) -> list[Need]:
    needs: list[Need] = []
    for name in names:
        right = upstream[name]
        if right.index is not None:
            needs.append(Need(f"right:{name}", right.index))
        if right.touched is not None:
            needs.append(Need(f"touched:{name}", right.touched))
    return needs


def _left_indexes(bill: Bill, pipeline: Pipeline, stream: Held, *, path: str) -> list[Need]:
    needs: list[Need] = []
    for join, logged in joins_of(pipeline.terminal):
        more = f":{join.right.dataset}" if needs else ""
        by = tuple(column for column in logged if column is not None)
        index = _add_left_index(bill, stream, by, path=path, more=more)
        needs.append(Need(f"left{more}", index))
    return needs


def _add_left_index(
    bill: Bill, stream: Held, by: tuple[str, ...], *, path: str, more: str
) -> AssetRef:
    name = stream.typed.dataset.name
    spec = IndexSpec(log=stream.plan.log, by=by, correctable=stream.typed.info.correctable)
    index = bill.add(
        AssetKind.INDEX,
        fingerprint("index", spec, (stream.data,)),
        spec,
        path=f"{path}/left{more}",
        label=f"index of {name} by {', '.join(by)}",
    )
    add_index_feed(
        bill,
        index,
        FeedSpec(
            dataset=name,
            log=stream.plan.log,
            disorder_us=disorder_of(stream.typed.dataset),
        ),
        topic=stream.topic,
        touched=None,
        path=f"{path}/left_feed{more}",
    )
    return index

"""The assets that fill a dataset: the jobs of its sources and of its pipeline."""

from collections.abc import Collection, Mapping
from typing import TypeAlias

import attrs

from narthex._analysis.fingerprints import (
    ENGINE_SEMANTICS,
    fingerprint,
    source_fingerprint,
    source_id,
)
from narthex._analysis.graph import pipeline_reads
from narthex._analysis.schemas.join_sides import joins_of
from narthex._analysis.schemas.pipelines import all_steps, steps_of
from narthex._compiler.blueprint_builder import BlueprintBuilder
from narthex._compiler.dataset_assets import DatasetAssets, add_index_feed, disorder_of
from narthex._compiler.log_specs import final_aggregate
from narthex._compiler.state_requirements import state_requirements
from narthex._connectors.kinds import Input
from narthex._connectors.registry import source_kind
from narthex._ir.assets import (
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
from narthex._ir.code import UserCode
from narthex._ir.entities import Pipeline, Source, WebhookEndpoint, is_quarantined
from narthex._ir.node_schema import DatasetSchemaInfo
from narthex._ir.operators import (
    AssignCode,
    DatasetRef,
    Explode,
    Filter,
    Join,
    Operator,
    Transform,
)

RunAs: TypeAlias = tuple[Trigger, str]
"""The trigger of a live job, and the reason for it."""


def fill_from_source(
    builder: BlueprintBuilder, held: DatasetAssets, source: Source, *, position: int
) -> None:
    """Add the job that turns a source's raw rows into facts of the dataset, with its needs."""
    dataset = held.typed.dataset
    path = f"job/{dataset.name}/source/{position}"
    needs = [Need("output", held.topic), Need("quarantine", _add_quarantine(builder, held))]
    if isinstance(source.connector, WebhookEndpoint):
        needs.append(Need("input", _add_ingest(builder, source.connector)))
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
        enforced=dataset.enforced,
    )
    needs.append(Need("checkpoint", _add_checkpoint(builder, job, path)))
    label = f"source {spec.source_id} of {dataset.name}"
    builder.add(AssetKind.STREAM_JOB, job, spec, needs=tuple(needs), path=path, label=label)


def fill_from_pipeline(
    builder: BlueprintBuilder,
    held: DatasetAssets,
    pipeline: Pipeline,
    run_as: RunAs,
    *,
    upstream: Mapping[str, DatasetAssets],
) -> None:
    """Add the job that computes a pipeline into the dataset's log, with its needs."""
    dataset = held.typed.dataset
    path = f"job/{dataset.name}/pipeline/{pipeline.name}"
    aggregate = final_aggregate(dataset)
    names = pipeline_reads(pipeline)
    trigger, reason = run_as
    spec = PipelineJobSpec(
        dataset=dataset.name,
        pipeline=pipeline.name,
        operators=pipeline.terminal if aggregate is None else aggregate.input,
        inputs=tuple(_input(upstream[name]) for name in names),
        schema=dataset.schema,
        log=held.plan.log,
        trigger=trigger,
        reason=reason,
        along=None if aggregate is None else aggregate.along,
        enforced=dataset.enforced,
    )
    needs = [Need(f"input:{names[0]}", upstream[names[0]].topic), Need("output", held.topic)]
    if trigger is Trigger.STATEFUL:
        needs += [Need(f"input:{name}", upstream[name].topic) for name in names[1:]]
    else:
        needs += _right_sides(names[1:], upstream)
        needs += _left_indexes(builder, pipeline, upstream[names[0]], path=path)
    if may_fail(pipeline.terminal) or is_quarantined(dataset.enforced):
        needs.append(Need("quarantine", _add_quarantine(builder, held)))
    # The dataset's fingerprint includes the pipeline's; the trigger is not part of the identity.
    job = fingerprint("job.pipeline", None, (held.data,))
    needs.append(Need("checkpoint", _add_checkpoint(builder, job, path)))
    label = f"pipeline {dataset.name}.{pipeline.name}"
    builder.add(AssetKind.STREAM_JOB, job, spec, needs=tuple(needs), path=path, label=label)


def may_fail(terminal: Operator) -> bool:
    """Whether a pipeline has a step that may fail on a row: author code, or lists of two columns
    that explode together.
    """
    return any(_may_fail(step) for step in all_steps(terminal))


def _may_fail(step: Operator) -> bool:
    match step:
        case AssignCode() | Transform() | Filter(predicate=UserCode()):
            return True
        case Explode(columns=columns):
            return len(columns) > 1
        case _:
            return False


def pipeline_trigger(
    terminal: Operator,
    infos: Mapping[str, DatasetSchemaInfo],
    contributed: Collection[str],
    *,
    is_enforced: bool,
) -> RunAs:
    """Choose the trigger of a pipeline, real time if it has only expressions, and the reason.

    Args:
        terminal: Its last step.
        infos: The schemas of the datasets that it reads.
        contributed: Names of datasets whose logs hold contributions of aggregates.
        is_enforced: Whether its rows are judged by enforced expectations.
    """
    for requirement in state_requirements(terminal, infos, contributed, in_stage=is_enforced):
        return Trigger.STATEFUL, f"{requirement.title} has state"
    _, steps = steps_of(terminal)
    for step in steps:
        match step:
            case Join():
                reason = f"join `{step.right.dataset}` looks rows up in an index"
                return Trigger.STAGE, reason
            case AssignCode():
                return Trigger.STAGE, f"assign `{step.column.name}` runs Python"
            case Filter(predicate=UserCode()):
                return Trigger.STAGE, "a filter runs Python"
            case _:
                pass
    if is_enforced:
        return Trigger.STAGE, "expectations judge each row"
    return Trigger.REAL_TIME, "expressions only"


def _source_trigger(source: Source) -> tuple[Trigger, str]:
    kind = source_kind(source.connector)
    if kind.input is not Input.FILES:
        return Trigger.STAGE, kind.reason
    if source.bounded:
        return Trigger.BOUNDED, "the backfill reads files that do not grow once"
    return Trigger.MICRO_BATCH, kind.reason


def _add_ingest(builder: BlueprintBuilder, endpoint: WebhookEndpoint) -> AssetRef:
    identity = f"{endpoint.webhook}/{endpoint.endpoint}"
    return builder.add(
        AssetKind.KAFKA_TOPIC,
        fingerprint("topic.ingest", identity),
        TopicSpec(role=TopicRole.INGEST, partitions=1, identity=identity),
        path=f"webhook/{identity}/ingest",
        label=f"ingest {identity}",
    )


def _add_quarantine(builder: BlueprintBuilder, held: DatasetAssets) -> AssetRef:
    name = held.typed.dataset.name
    return builder.add(
        AssetKind.KAFKA_TOPIC,
        fingerprint("topic.quarantine", None, (held.data,)),
        TopicSpec(role=TopicRole.QUARANTINE, partitions=1, identity=held.data.hex()),
        path=f"dataset/{name}/quarantine",
        label=f"quarantine of {name}",
    )


def _add_checkpoint(builder: BlueprintBuilder, job: Fingerprint, path: str) -> AssetRef:
    return builder.add(
        AssetKind.CHECKPOINT,
        fingerprint("checkpoint", None, (job,)),
        CheckpointSpec(job=job.hex()),
        path=f"{path}/checkpoint",
        label=f"checkpoint of {path.removeprefix('job/')}",
    )


def _input(held: DatasetAssets) -> PipelineInput:
    dataset, log = held.typed.dataset, held.plan.log
    aggregate = final_aggregate(dataset)
    if aggregate is not None:
        # Contributions already have their places on the time axis. If they have validity
        # intervals, `along` additionally decides which rows count.
        along = aggregate.along if log.lives else None
        aggregate = attrs.evolve(aggregate, input=DatasetRef(dataset.name), along=along)
    node = held.typed.node
    return PipelineInput(
        dataset=dataset.name,
        log=log,
        schema=dataset.schema,
        correctable=held.typed.info.correctable,
        aggregate=aggregate,
        aggregates=() if aggregate is None or node is None else node.aggregates,
    )


def _right_sides(names: tuple[str, ...], upstream: Mapping[str, DatasetAssets]) -> list[Need]:
    needs: list[Need] = []
    for name in names:
        right = upstream[name]
        if right.index is not None:
            needs.append(Need(f"right:{name}", right.index))
        if right.invalidation_topic is not None:
            needs.append(Need(f"touched:{name}", right.invalidation_topic))
    return needs


def _left_indexes(
    builder: BlueprintBuilder, pipeline: Pipeline, stream: DatasetAssets, *, path: str
) -> list[Need]:
    needs: list[Need] = []
    for join, logged in joins_of(pipeline.terminal):
        more = f":{join.right.dataset}" if needs else ""
        by = tuple(column for column in logged if column is not None)
        index = _add_left_index(builder, stream, by, path=path, more=more)
        needs.append(Need(f"left{more}", index))
    return needs


def _add_left_index(
    builder: BlueprintBuilder, stream: DatasetAssets, by: tuple[str, ...], *, path: str, more: str
) -> AssetRef:
    name = stream.typed.dataset.name
    spec = IndexSpec(log=stream.plan.log, by=by, correctable=stream.typed.info.correctable)
    index = builder.add(
        AssetKind.INDEX,
        fingerprint("index", spec, (stream.data,)),
        spec,
        path=f"{path}/left{more}",
        label=f"index of {name} by {', '.join(by)}",
    )
    add_index_feed(
        builder,
        index,
        FeedSpec(
            dataset=name,
            log=stream.plan.log,
            disorder_us=disorder_of(stream.typed.dataset),
        ),
        topic=stream.topic,
        invalidation_topic=None,
        path=f"{path}/left_feed{more}",
    )
    return index

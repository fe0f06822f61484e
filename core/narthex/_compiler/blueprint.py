"""Compile definitions into the assets that they need and the read plan of each dataset."""

from collections.abc import Mapping, Sequence

from narthex._analysis.graph import TypedDataset, disorders, pipeline_reads, typed_datasets
from narthex._compiler.blueprint_builder import BlueprintBuilder
from narthex._compiler.dataset_assets import DatasetAssets, hold
from narthex._compiler.log_specs import final_aggregate, log_of, plan_of
from narthex._compiler.producer_jobs import (
    RunAs,
    fill_from_pipeline,
    fill_from_source,
    pipeline_trigger,
)
from narthex._compiler.sink_jobs import write_to_sink
from narthex._ir.assets import Blueprint, Trigger
from narthex._ir.entities import Definitions
from narthex._ir.node_schema import DatasetSchemaInfo


def compile_blueprint(definitions: Definitions) -> Blueprint:
    """Return all assets of definitions that passed `graph.check`, in dependency order.

    Equal meaning gives equal fingerprints, whatever the names; an asset that several parts need
    is listed once, with all its paths.
    """
    builder = BlueprintBuilder()
    made = assets_by_dataset(builder, definitions)
    plans = tuple(made[dataset.name].plan for dataset in definitions.datasets)
    return Blueprint(assets=builder.assets, datasets=plans)


def assets_by_dataset(
    builder: BlueprintBuilder, definitions: Definitions
) -> dict[str, DatasetAssets]:
    """Add all assets of checked definitions to the builder; return them for each dataset."""
    made: dict[str, DatasetAssets] = {}
    all_typed = typed_datasets(definitions)
    infos = {typed.dataset.name: typed.info for typed in all_typed}
    run_as = _run_as(all_typed, infos)
    joined = looked_up(all_typed, run_as)
    disorder_us = disorders(typed.dataset for typed in all_typed)
    for typed in all_typed:
        name = typed.dataset.name
        plan = plan_of(typed, log_of(typed, infos), disorder_us=disorder_us[name])
        stateful = any(
            run_as[name, pipeline.name][0] is Trigger.STATEFUL
            for pipeline in typed.dataset.pipelines
        )
        made[name] = hold(
            builder, typed, plan, upstream=made, joined=name in joined, stateful=stateful
        )
        _fill(builder, typed, run_as, made)
    return made


def _run_as(
    typed: Sequence[TypedDataset], infos: Mapping[str, DatasetSchemaInfo]
) -> dict[tuple[str, str], RunAs]:
    """Choose the trigger of each pipeline, by dataset and pipeline."""
    contributed = {one.dataset.name for one in typed if final_aggregate(one.dataset) is not None}
    return {
        (one.dataset.name, pipeline.name): pipeline_trigger(
            pipeline.terminal, infos, contributed, is_enforced=bool(one.dataset.enforced)
        )
        for one in typed
        for pipeline in one.dataset.pipelines
    }


def looked_up(
    typed: Sequence[TypedDataset], run_as: Mapping[tuple[str, str], RunAs]
) -> frozenset[str]:
    """Return the names of all datasets that jobs look up, which are right sides of joins.

    A stateful job keeps the rows of a right side itself.
    """
    return frozenset(
        name
        for one in typed
        for pipeline in one.dataset.pipelines
        if run_as[one.dataset.name, pipeline.name][0] is not Trigger.STATEFUL
        for name in pipeline_reads(pipeline)[1:]
    )


def _fill(
    builder: BlueprintBuilder,
    typed: TypedDataset,
    run_as: Mapping[tuple[str, str], RunAs],
    made: dict[str, DatasetAssets],
) -> None:
    held = made[typed.dataset.name]
    for position, source in enumerate(typed.dataset.sources):
        fill_from_source(builder, held, source, position=position)
    for pipeline in typed.dataset.pipelines:
        how = run_as[typed.dataset.name, pipeline.name]
        fill_from_pipeline(builder, held, pipeline, how, upstream=made)
    for position, sink in enumerate(typed.dataset.sinks):
        write_to_sink(builder, held, sink, position=position)

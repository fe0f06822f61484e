"""The entity graph: which entity feeds which, and all errors in it at once."""

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final

import attrs

from narthex._analysis.checks.data_files import data_file_errors
from narthex._analysis.checks.expectations import expectation_errors, feature_expectation_errors
from narthex._analysis.checks.features import feature_errors
from narthex._analysis.checks.histories import history_errors
from narthex._analysis.checks.sinks import sink_errors
from narthex._analysis.checks.sources import source_errors
from narthex._analysis.schemas.pipelines import all_steps, is_terminal, output_schema
from narthex._base.canonical import NotCanonicalError, encode
from narthex._base.patterns import ADVICE, PatternError, check_pattern
from narthex._ir.entities import Cdc, Dataset, Definitions, Featureset, Pipeline
from narthex._ir.node_schema import DatasetSchemaInfo, NodeSchema, did_you_mean, listed
from narthex._ir.operators import DatasetRef, Join, Union
from narthex._ir.schema import Column
from narthex._ir.type_names import type_name
from narthex._ir.types import Regex
from narthex.errors import (
    CdcMismatch,
    DefinitionError,
    EntityMissing,
    EntityTwice,
    EnvAmbiguous,
    GraphCycle,
    IndexInvalid,
    NameNotAllowed,
    OperatorInvalid,
    OwnerMissing,
    RestrictionInvalid,
    SchemaDiffers,
    SourceAndPipeline,
    in_source_order,
)

MOST_STEPS: Final = 200
"""The most steps of a pipeline, so that no analysis of one exhausts Python's stack."""


@attrs.frozen
class TypedDataset:
    """A dataset with the result of its pipeline; without a pipeline, `node` is None."""

    dataset: Dataset
    info: DatasetSchemaInfo
    node: NodeSchema | None


def check(definitions: Definitions) -> tuple[DefinitionError, ...]:
    """Return all errors of the entities of a commit, in source order.

    If a pipeline has too many steps, only such errors: other checks would need too much stack.
    """
    if too_long := [*_long_pipelines(definitions)]:
        return in_source_order(too_long)
    errors: list[DefinitionError] = [*_names(definitions)]
    by_name = {dataset.name: dataset for dataset in definitions.datasets}
    for dataset in definitions.datasets:
        errors += _dataset_errors(dataset, by_name)
        errors += history_errors(dataset)
        errors += source_errors(dataset)
        errors += sink_errors(dataset)
    try:
        typed = typed_datasets(definitions)
    except CycleError as error:
        errors.append(_cycle(error.args[1], by_name))
        typed = ()
    for one in typed:
        errors += _pipeline_errors(one)
        errors += expectation_errors(one.dataset)
    errors += feature_errors(definitions)
    for featureset in definitions.featuresets:
        errors += feature_expectation_errors(featureset)
    errors += data_file_errors(definitions)
    errors += _texts(definitions)
    errors += _patterns(definitions)
    return in_source_order(errors)


def _long_pipelines(definitions: Definitions) -> Iterator[DefinitionError]:
    for dataset in definitions.datasets:
        for pipeline in dataset.pipelines:
            steps, waiting = 0, [pipeline.terminal]
            while waiting and steps <= MOST_STEPS:
                step = waiting.pop()
                if not isinstance(step, DatasetRef):
                    steps += 1
                    waiting += [step.input, step.other] if isinstance(step, Union) else [step.input]
            if steps > MOST_STEPS:
                yield OperatorInvalid(
                    f"pipeline `{pipeline.name}` of `{dataset.name}` has more than {MOST_STEPS} "
                    "steps",
                    origin=pipeline.origin,
                    hint="let a dataset in between have some of the steps",
                )


def _texts(definitions: Definitions) -> Iterator[DefinitionError]:
    entities: tuple[Dataset | Featureset, ...] = (*definitions.datasets, *definitions.featuresets)
    for entity in entities:
        try:
            encode(entity)
        except NotCanonicalError as error:
            yield NameNotAllowed(
                f"in `{entity.name}`: {error}",
                origin=entity.origin,
                hint="write the character as one code point",
            )


def _patterns(definitions: Definitions) -> Iterator[DefinitionError]:
    """Check each pattern, as definitions that a client sends need not come from the SDK."""
    entities: tuple[Dataset | Featureset, ...] = (*definitions.datasets, *definitions.featuresets)
    for entity in entities:
        for pattern in dict.fromkeys(_patterns_in(entity)):
            try:
                check_pattern(pattern)
            except PatternError as error:
                yield RestrictionInvalid(
                    f"in `{entity.name}`: the pattern `{pattern}` of `regex` cannot be used: "
                    f"{error}",
                    origin=entity.origin,
                    hint=ADVICE,
                )


def _patterns_in(value: object) -> Iterator[str]:
    if isinstance(value, Regex):
        yield value.pattern
    elif isinstance(value, tuple):
        for member in value:
            yield from _patterns_in(member)
    else:
        for field in getattr(type(value), "__attrs_attrs__", ()):
            yield from _patterns_in(getattr(value, field.name))


def reads(dataset: Dataset) -> tuple[str, ...]:
    """Return the datasets that a dataset's pipelines read, each once, the stream sides first."""
    found: dict[str, None] = {}
    for pipeline in dataset.pipelines:
        found |= dict.fromkeys(pipeline_reads(pipeline))
    return tuple(found)


def disorders(datasets: Iterable[Dataset]) -> dict[str, int]:
    """Return the disorder of each dataset, by name: 0 for one without sources.

    It is the greatest of its own sources and of those of all datasets that it is computed from.

    Args:
        datasets: All datasets, each after those that it reads.
    """
    found: dict[str, int] = {}
    for dataset in datasets:
        own = [source.disorder_us for source in dataset.sources]
        found[dataset.name] = max([0, *own, *(found[name] for name in reads(dataset))])
    return found


def pipeline_reads(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the datasets that a pipeline reads: the stream sides, then the joined ones in
    order.
    """
    steps = all_steps(pipeline.terminal)
    streams = [step.dataset for step in steps if isinstance(step, DatasetRef)]
    joined = [step.right.dataset for step in steps if isinstance(step, Join)]
    return tuple(dict.fromkeys([*streams, *joined]))


def typed_datasets(definitions: Definitions) -> tuple[TypedDataset, ...]:
    """Return all datasets with the types of their pipelines' results, each after the datasets that
    it reads.

    Raises:
        CycleError: Datasets feed each other in a circle.
    """
    by_name = {dataset.name: dataset for dataset in definitions.datasets}
    order = TopologicalSorter({name: reads(dataset) for name, dataset in by_name.items()})
    infos: dict[str, DatasetSchemaInfo] = {}
    typed: list[TypedDataset] = []
    for name in order.static_order():
        if name in by_name:
            one = _typed(by_name[name], infos)
            infos[name] = one.info
            typed.append(one)
    return tuple(typed)


def _typed(dataset: Dataset, infos: Mapping[str, DatasetSchemaInfo]) -> TypedDataset:
    node = None
    terminal = False
    if dataset.pipelines:
        pipeline = dataset.pipelines[-1]
        if all(name in infos for name in pipeline_reads(pipeline)):
            node = output_schema(pipeline.terminal, infos)
        terminal = is_terminal(pipeline.terminal)
    info = DatasetSchemaInfo(
        name=dataset.name,
        schema=dataset.schema,
        terminal=terminal,
        correctable=bool(dataset.schema.keys) or (node is not None and node.correctable),
    )
    return TypedDataset(dataset, info, node)


def _names(definitions: Definitions) -> Iterator[DefinitionError]:
    seen: set[str] = set()
    entities: tuple[Dataset | Featureset, ...] = (*definitions.datasets, *definitions.featuresets)
    for entity in entities:
        if entity.name in seen:
            yield EntityTwice(f"`{entity.name}` is defined twice", origin=entity.origin)
        seen.add(entity.name)
        if not entity.metadata.owner:
            yield OwnerMissing(
                f"`{entity.name}` has no owner",
                origin=entity.origin,
                hint='add `@meta(owner="…@…")`, or `__owner__ = "…@…"` to the module',
            )


def _dataset_errors(dataset: Dataset, by_name: Mapping[str, Dataset]) -> Iterator[DefinitionError]:
    if dataset.sources and dataset.pipelines:
        yield SourceAndPipeline(
            f"dataset `{dataset.name}` has a source and a pipeline",
            origin=dataset.origin,
            hint="use sources or pipelines, not both",
        )
    if len(dataset.pipelines) > 1:
        names = [pipeline.name for pipeline in dataset.pipelines]
        yield EnvAmbiguous(
            f"dataset `{dataset.name}` has {len(names)} pipelines in one env: {listed(names)}",
            origin=dataset.pipelines[1].origin,
            hint="set an `env` on each, or keep one",
        )
    if dataset.index is not None and not dataset.schema.keys:
        yield IndexInvalid(
            f"dataset `{dataset.name}` has an index but no key",
            origin=dataset.origin,
            hint="mark its key with `field(key=True)`",
        )
    yield from _cdc_errors(dataset)
    for pipeline in dataset.pipelines:
        yield from _missing_inputs(dataset, pipeline, by_name)


def _cdc_errors(dataset: Dataset) -> Iterator[DefinitionError]:
    for source in dataset.sources:
        if dataset.schema.keys and source.cdc is Cdc.APPEND:
            yield CdcMismatch(
                f"dataset `{dataset.name}` has a key, but its source appends",
                origin=source.origin,
                hint='set `cdc="upsert"`, or remove the key',
            )
        elif not dataset.schema.keys and source.cdc is Cdc.UPSERT:
            yield CdcMismatch(
                f"dataset `{dataset.name}` has no key, but its source upserts",
                origin=source.origin,
                hint='set `cdc="append"`, or mark the key',
            )
        elif not dataset.schema.keys and source.cdc in {Cdc.DEBEZIUM, Cdc.NATIVE}:
            yield CdcMismatch(
                f"dataset `{dataset.name}` has no key, but its source sends row changes",
                origin=source.origin,
                hint="mark the key; a change or a delete needs it to find its row",
            )


def _missing_inputs(
    dataset: Dataset, pipeline: Pipeline, by_name: Mapping[str, Dataset]
) -> Iterator[DefinitionError]:
    for name in dict.fromkeys([*pipeline.inputs, *pipeline_reads(pipeline)]):
        if name not in by_name:
            guess = did_you_mean(name, by_name)
            yield EntityMissing(
                f"dataset `{name}` feeds `{dataset.name}.{pipeline.name}` but is not in the commit",
                origin=pipeline.origin,
                hint=guess or f"add `{name}` to the commit",
            )


def _cycle(names: list[str], by_name: Mapping[str, Dataset]) -> GraphCycle:
    path = " → ".join(f"`{name}`" for name in reversed(names))
    return GraphCycle(
        f"datasets depend on each other in a cycle: {path}", origin=by_name[names[0]].origin
    )


def _pipeline_errors(one: TypedDataset) -> Iterator[DefinitionError]:
    if one.node is None:
        return
    yield from one.node.errors
    pipeline = one.dataset.pipelines[-1]
    if not one.node.errors:
        yield from _schema_errors(one.dataset, pipeline, one.node)


def _schema_errors(
    dataset: Dataset, pipeline: Pipeline, node: NodeSchema
) -> Iterator[DefinitionError]:
    schema = dataset.schema
    yield from _columns_differ(dataset, pipeline, "key", schema.keys, node.keys)
    yield from _columns_differ(dataset, pipeline, "value", schema.values, node.values)
    if schema.timestamp != node.timestamp:
        yield SchemaDiffers(
            f"pipeline `{dataset.name}.{pipeline.name}` gives the event time `{node.timestamp}`; "
            f"`{dataset.name}` has `{schema.timestamp}`",
            origin=pipeline.origin,
            hint=f'rename it, `.rename({{"{node.timestamp}": "{schema.timestamp}"}})`',
        )


def _columns_differ(
    dataset: Dataset,
    pipeline: Pipeline,
    role: str,
    declared: tuple[Column, ...],
    given: tuple[Column, ...],
) -> Iterator[DefinitionError]:
    wanted = {column.name: column.type for column in declared}
    found = {column.name: column.type for column in given}
    title = f"pipeline `{dataset.name}.{pipeline.name}`"
    for name, of in found.items():
        if name not in wanted:
            yield SchemaDiffers(
                f"{title} gives the {role} `{name}`, which `{dataset.name}` does not declare",
                origin=pipeline.origin,
                hint=did_you_mean(name, wanted),
            )
        elif of != wanted[name]:
            yield SchemaDiffers(
                f"{title} gives the {role} `{name}` as `{type_name(of)}`; `{dataset.name}` "
                f"declares `{type_name(wanted[name])}`",
                origin=pipeline.origin,
            )
    for name in wanted:
        if name not in found:
            yield SchemaDiffers(
                f"{title} does not give the {role} `{name}` of `{dataset.name}`",
                origin=pipeline.origin,
                hint=did_you_mean(name, found),
            )

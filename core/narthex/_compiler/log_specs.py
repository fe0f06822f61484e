"""The format of the facts in a dataset's log, and the read plan of the dataset."""

from narthex._aggregates.tiles import DIVIDED_ABOVE, ladder, parts
from narthex._analysis.graph import TypedDataset
from narthex._analysis.schemas.pipelines import output_schema
from narthex._ir.aggregate_specs import ExpDecaySum, TypedAggregate
from narthex._ir.assets import VALIDITY_COLUMNS, DatasetPlan, Decay, LogShape, LogSpec
from narthex._ir.entities import Dataset
from narthex._ir.node_schema import DatasetSchemaInfo, NodeSchema
from narthex._ir.operators import Aggregate
from narthex._ir.schema import Column


def log_of(typed: TypedDataset, infos: dict[str, DatasetSchemaInfo]) -> LogSpec:
    """Return the log of a dataset: rows, keyed rows, or the inputs of its aggregates."""
    schema = typed.dataset.schema
    aggregate = final_aggregate(typed.dataset)
    if aggregate is not None:
        before = output_schema(aggregate.input, infos)
        return LogSpec(
            shape=LogShape.CONTRIBUTIONS,
            keys=schema.keys,
            values=(*_contributed(aggregate, before), *(VALIDITY_COLUMNS if before.keys else ())),
            time_field=schema.timestamp,
            along=bool(before.keys) and aggregate.along is not None,
        )
    return LogSpec(
        shape=LogShape.KEYED if schema.keys else LogShape.ROWS,
        keys=schema.keys,
        values=schema.values,
        time_field=schema.timestamp,
        decays=_decays(typed.dataset),
    )


def _decays(dataset: Dataset) -> tuple[Decay, ...]:
    """Return the decayed sums in the spans of groups, whose rows have the values of one instant."""
    return tuple(
        Decay(spec.into, spec.half_life_us)
        for pipeline in dataset.pipelines
        if isinstance(pipeline.terminal, Aggregate)
        for spec in pipeline.terminal.specs
        if isinstance(spec, ExpDecaySum)
    )


def final_aggregate(dataset: Dataset) -> Aggregate | None:
    """Return the aggregate whose contributions a dataset's log holds; None if it holds rows.

    If groups have a window, each of its spans is a row, and the log holds rows.
    """
    for pipeline in dataset.pipelines:
        if isinstance(pipeline.terminal, Aggregate) and pipeline.terminal.window is None:
            return pipeline.terminal
    return None


def _contributed(aggregate: Aggregate, before: NodeSchema) -> tuple[Column, ...]:
    columns = before.columns
    wanted = dict.fromkeys(spec.of for spec in aggregate.specs if spec.of is not None)
    return tuple(Column(name, columns[name]) for name in wanted)


def plan_of(typed: TypedDataset, log: LogSpec, *, disorder_us: int) -> DatasetPlan:
    """Return the storage and read plan of a dataset.

    Args:
        typed: The dataset.
        log: The format of its log.
        disorder_us: How far its watermark is behind its newest row, which only a history needs.
    """
    dataset = typed.dataset
    aggregates = _in_field_order(typed) if log.shape is LogShape.CONTRIBUTIONS else ()
    ladder_us = ladder(aggregates) if aggregates and not log.lives else ()
    return DatasetPlan(
        name=dataset.name,
        version=dataset.version,
        schema=dataset.schema,
        log=log,
        aggregates=aggregates,
        ladder_us=ladder_us,
        parts_us=parts(ladder_us),
        divided_above=DIVIDED_ABOVE if ladder_us else 0,
        online=dataset.index is not None and dataset.index.online,
        offline=dataset.index is not None and dataset.index.offline,
        expectations=dataset.expectations,
        history_us=dataset.history_us,
        disorder_us=0 if dataset.history_us is None else disorder_us,
    )


def _in_field_order(typed: TypedDataset) -> tuple[TypedAggregate, ...]:
    """Return the aggregates in the order of the dataset's value fields, which lookups use."""
    if typed.node is None:
        return ()
    by_field = {aggregate.spec.into: aggregate for aggregate in typed.node.aggregates}
    return tuple(by_field[column.name] for column in typed.dataset.schema.values if by_field)

"""Whole projects: sources, pipelines of any steps that fit, facts, and how they arrive."""

from collections.abc import Mapping

import attrs
from hypothesis import strategies as st
from numpy.random import default_rng

from narthex._analysis import longest_reach
from narthex._analysis.schemas import is_terminal, output_schema
from narthex._ir import (
    Dataset,
    DatasetRef,
    DatasetSchemaInfo,
    Datetime,
    Definitions,
    Field,
    Index,
    NodeSchema,
    Operator,
    Pipeline,
    Role,
    Schema,
)
from narthex_reference.conformance.arrivals import Sent, shuffled
from narthex_reference.generate.cells import SECOND, instants
from narthex_reference.generate.enforced import with_bounds, with_enforced
from narthex_reference.generate.growth import growth
from narthex_reference.generate.project import Project
from narthex_reference.generate.row_pipelines import RowPipeline, joinable, row_pipelines
from narthex_reference.generate.sources import OWNED, facts_of, source_datasets
from narthex_reference.generate.steps import InsertionPoint, steps

MOST_STEPS = 5
MOST_PARTITIONS = 4
_KINDS_OF_ROW_PIPELINES = (RowPipeline.EXPRESSIONS, *[RowPipeline.LOOKUPS] * 2)


@st.composite
def projects(draw: st.DrawFn, *, row_pipelines_of: float = 0.0) -> Project:
    """Return a project whose definitions are correct.

    Args:
        draw: Draws parts of it.
        row_pipelines_of: The share of the projects that have one pipeline more, of row steps alone,
            if they have a dataset for it.
    """
    kinds = draw(st.lists(st.booleans(), min_size=1, max_size=3))
    sources = [
        draw(with_bounds(draw(_with_history(draw(source_datasets(number=number, keyed=keyed))))))
        for number, keyed in enumerate(kinds)
    ]
    infos = {one.name: _info(one, None) for one in sources}
    grown = dict.fromkeys(infos, 1)
    made: list[Dataset] = []
    for number in range(draw(st.integers(1, 3))):
        dataset, schema = draw(_derived(infos, grown, number))
        dataset = draw(with_enforced(draw(_with_history(dataset))))
        infos[dataset.name] = _info(dataset, schema)
        grown[dataset.name] = growth(dataset.pipelines[-1].terminal, grown)
        made.append(dataset)
    if row_pipelines_of:
        made += draw(_of_row_steps(infos, len(made), share=row_pipelines_of))
    sent: list[Sent] = []
    for source in sources:
        sent += [(source.name, fact) for fact in draw(facts_of(source))]
    rng = default_rng(draw(st.integers(0, 2**16)))
    datasets = tuple(
        attrs.evolve(one, partitions=draw(st.integers(1, MOST_PARTITIONS)))
        for one in (*sources, *made)
    )
    return Project(
        definitions=Definitions(datasets=datasets, featuresets=()),
        sent=tuple(sent),
        arrival=shuffled(sent, rng),
        instants=tuple(draw(st.lists(instants(), max_size=3))),
    )


def _info(dataset: Dataset, schema: NodeSchema | None) -> DatasetSchemaInfo:
    return DatasetSchemaInfo(
        name=dataset.name,
        schema=dataset.schema,
        terminal=bool(dataset.pipelines) and is_terminal(dataset.pipelines[-1].terminal),
        correctable=bool(dataset.schema.keys) or (schema is not None and schema.correctable),
    )


@st.composite
def _with_history(draw: st.DrawFn, dataset: Dataset) -> Dataset:
    """Return a dataset, often with a history that is at least as long as its windows."""
    if dataset.index is None:
        return dataset
    seconds = draw(st.sampled_from([None, None, 0, 1, 7]))
    if seconds is None:
        return dataset
    return attrs.evolve(dataset, history_us=longest_reach(dataset) + max(seconds * SECOND, 1))


@st.composite
def _derived(
    draw: st.DrawFn,
    infos: Mapping[str, DatasetSchemaInfo],
    grown: Mapping[str, int],
    number: int,
) -> tuple[Dataset, NodeSchema]:
    """Return a dataset that a pipeline fills."""
    readable = {name: info for name, info in infos.items() if not info.terminal}
    last: Operator = DatasetRef(draw(st.sampled_from(sorted(readable))))
    for at in range(draw(st.integers(1, MOST_STEPS))):
        schema = output_schema(last, readable)
        if is_terminal(last):
            break
        last = draw(steps(InsertionPoint(last, schema, readable, grown, f"d{number}c{at}")))
    schema = output_schema(last, readable)
    return _dataset(f"D{number}", last, schema, tuple(readable)), schema


@st.composite
def _of_row_steps(
    draw: st.DrawFn, infos: Mapping[str, DatasetSchemaInfo], number: int, *, share: float
) -> list[Dataset]:
    """Return a dataset that a pipeline without state fills, or none."""
    readable = {name: info for name, info in infos.items() if not info.terminal}
    rows = sorted(name for name, info in readable.items() if not info.correctable)
    if not rows or draw(st.floats(0, 1)) >= share:
        return []
    kind = draw(st.sampled_from(_KINDS_OF_ROW_PIPELINES))
    if kind is RowPipeline.LOOKUPS:
        # A join of keyed rows needs state.
        keyless = [name for name in rows if not readable[name].schema.keys]
        joined = [name for name in keyless if joinable(_rows_of(name, readable), readable)]
        rows = joined or keyless or rows
    ref = DatasetRef(draw(st.sampled_from(rows)))
    place = InsertionPoint(
        ref, _rows_of(ref.dataset, readable), readable, dict.fromkeys(readable, 1), f"d{number}"
    )
    last = draw(row_pipelines(place, kind))
    if last is ref:
        return []
    made = _dataset(f"D{number}", last, output_schema(last, readable), tuple(readable))
    return [draw(with_enforced(made))]


def _rows_of(dataset: str, readable: Mapping[str, DatasetSchemaInfo]) -> NodeSchema:
    return output_schema(DatasetRef(dataset), readable)


def _dataset(name: str, last: Operator, schema: NodeSchema, inputs: tuple[str, ...]) -> Dataset:
    fields = [Field(name=c.name, type=c.type, role=Role.KEY) for c in schema.keys]
    fields += [Field(name=c.name, type=c.type) for c in schema.values]
    fields.append(Field(name=schema.timestamp, type=Datetime(), role=Role.TIMESTAMP))
    return Dataset(
        name=name,
        version=1,
        schema=Schema(tuple(fields)),
        index=Index(online=True, offline=True) if schema.keys else None,
        pipelines=(Pipeline(name="made", inputs=inputs, terminal=last),),
        metadata=OWNED,
    )

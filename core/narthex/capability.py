"""What a definition means but no job can carry out yet.

The language is checked by `narthex.graph`, and the reference engine and the in-process client
carry all of it out. Whoever creates assets asks here first, and refuses what would not be exact.
"""

from collections.abc import Iterator, Mapping

import attrs

from narthex.aggregate_specs import AggregateSpec, Quantile
from narthex.entities import Definitions, Pipeline
from narthex.errors import NotYetSupported, in_source_order
from narthex.graph import TypedDataset, typed_datasets
from narthex.join_sides import joins_of
from narthex.node_schema import DatasetSchemaInfo, NodeSchema, listed
from narthex.operators import (
    Aggregate,
    Changelog,
    DatasetRef,
    Dedup,
    Emit,
    Explode,
    First,
    Join,
    Latest,
    Operator,
    Transform,
    Union,
)
from narthex.schemas import all_steps, output_schema, steps_of
from narthex.source_capability import not_carried_out_at_edges
from narthex.windows import Continuous

_WAYS_OUT: Mapping[type[Operator], str] = {
    Transform: "use `assign`, `drop` and `rename`",
    Dedup: "use `groupby(…).latest()`",
    Explode: "send one row for each element",
    Union: "give one dataset both sources",
    Changelog: "read the keyless dataset instead",
    First: "use `latest`, or `Min` over what orders the rows",
}


@attrs.frozen(kw_only=True)
class _Known:
    """What is known of the datasets of a commit, by name; `infos` is what pipelines must know."""

    typed: Mapping[str, TypedDataset]
    infos: Mapping[str, DatasetSchemaInfo]

    def ends_in_aggregate(self, dataset: str) -> bool:
        """Whether the dataset has contributions in its log, and values only when read."""
        pipelines = self.typed[dataset].dataset.pipelines
        return any(isinstance(pipeline.terminal, Aggregate) for pipeline in pipelines)


def not_carried_out(definitions: Definitions) -> tuple[NotYetSupported, ...]:
    """Find everything that jobs cannot carry out yet, in source order.

    The definitions passed `narthex.graph.check`.
    """
    typed = {one.dataset.name: one for one in typed_datasets(definitions)}
    known = _Known(typed=typed, infos={name: one.info for name, one in typed.items()})
    found: list[NotYetSupported] = [*not_carried_out_at_edges(definitions)]
    for dataset in definitions.datasets:
        for pipeline in dataset.pipelines:
            found += _of_pipeline(pipeline, known)
    return tuple(error for error in in_source_order(found) if isinstance(error, NotYetSupported))


def _of_pipeline(pipeline: Pipeline, known: _Known) -> Iterator[NotYetSupported]:
    for step in all_steps(pipeline.terminal):
        if isinstance(step, DatasetRef):
            yield from _of_read(step, known)
            continue
        hint = _WAYS_OUT.get(type(step))
        if hint is not None:
            name = "a union" if isinstance(step, Union) else f"`{type(step).__name__.lower()}`"
            yield _not_yet(f"{name} is not carried out yet", step, hint)
        if isinstance(step.input, Aggregate):
            yield _not_yet(
                "a step after an aggregate is not carried out yet",
                step,
                "make the step before the aggregate",
            )
        if isinstance(step, Aggregate | Latest | Join):
            yield from _of_step(step, output_schema(step.input, known.infos), known)
    yield from _untraceable_joins(pipeline, known)


def _of_read(ref: DatasetRef, known: _Known) -> Iterator[NotYetSupported]:
    if known.ends_in_aggregate(ref.dataset):
        yield _not_yet(
            f"to read `{ref.dataset}`, which ends in an aggregate, is not carried out yet",
            ref,
            f"read the dataset that `{ref.dataset}` is made from",
        )


def _of_step(
    step: Aggregate | Latest | Join, before: NodeSchema, known: _Known
) -> Iterator[NotYetSupported]:
    match step:
        case Aggregate():
            yield from _of_aggregate(step, before)
        case Latest():
            if before.correctable:
                yield _not_yet(
                    "the latest row of rows that may still be corrected is not carried out yet",
                    step,
                    "take the latest row first, in a dataset of its own",
                )
        case Join():
            yield from _of_read(attrs.evolve(step.right, origin=step.origin), known)
            if before.keys:
                yield _not_yet(
                    "a join whose left side is keyed is not carried out yet; the left side has "
                    f"the key {_keys(before)}",
                    step,
                    "join the keyless rows first and make them keyed afterwards",
                )


def _of_aggregate(step: Aggregate, before: NodeSchema) -> Iterator[NotYetSupported]:
    if before.keys:
        yield _not_yet(
            "an aggregate over keyed rows is not carried out yet; the rows have the key "
            f"{_keys(before)}",
            step,
            "aggregate the keyless rows that the keyed dataset is made from",
        )
    if step.emit is Emit.FINAL:
        yield _not_yet('`emit="final"` is not carried out yet', step, "leave it out")
    if step.along is not None:
        yield _not_yet(
            "`along` is not carried out yet", step, "make the column the event time of its dataset"
        )
    if step.window is not None:
        yield _not_yet(
            "`groupby` with a window is not carried out yet", step, "give each aggregate its window"
        )
    for spec in step.specs:
        yield from _of_spec(spec, step)


def _of_spec(spec: AggregateSpec, step: Aggregate) -> Iterator[NotYetSupported]:
    if isinstance(spec, Quantile) and not spec.approx:
        # It keeps every value, so each batch would write its tiles anew as a whole.
        yield _not_yet(
            f"an exact quantile, as of `{spec.into}`, is not carried out yet",
            step,
            "set `approx=True`: exact up to 1,024 values, and within 1 % beyond",
        )
    if isinstance(spec.window, Continuous) and spec.window.max_error:
        yield _not_yet(
            f"a window with a `max_error`, as of `{spec.into}`, is not carried out yet",
            step,
            "leave it out: windows are exact",
        )


def _untraceable_joins(pipeline: Pipeline, known: _Known) -> Iterator[NotYetSupported]:
    """Find joins on columns that the stream's log does not have."""
    ref, _ = steps_of(pipeline.terminal)
    stream = known.typed[ref.dataset].dataset.schema
    for join, logged in joins_of(pipeline.terminal):
        for (left, _), column in zip(join.on, logged, strict=True):
            if column is None or column == stream.timestamp:
                yield _not_yet(
                    f"a join on `{left}`, which is not a value of `{ref.dataset}` itself, is not "
                    "carried out yet",
                    join,
                    f"make `{left}` a value in a dataset of its own, and join that",
                )


def _keys(before: NodeSchema) -> str:
    return listed([key.name for key in before.keys])


def _not_yet(message: str, step: Operator, hint: str) -> NotYetSupported:
    return NotYetSupported(message, origin=step.origin, hint=hint)

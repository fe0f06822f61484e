"""What a definition means but no job can carry out yet.

The language is checked by `narthex.graph`, and the reference engine and the in-process client
carry all of it out. Whoever creates assets asks here first, and refuses what would not be exact.
"""

from collections.abc import Iterator, Mapping

from narthex.aggregate_specs import AggregateSpec, ExpDecaySum
from narthex.entities import Definitions, Pipeline
from narthex.errors import NotYetSupported, in_source_order
from narthex.graph import typed_datasets
from narthex.keeping_state import Keeping, kept_for
from narthex.logs import final_aggregate
from narthex.node_schema import DatasetSchemaInfo
from narthex.operators import Aggregate, Operator
from narthex.schemas import all_steps
from narthex.source_capability import not_carried_out_at_edges

_WAYS_OUT: Mapping[Keeping, str] = {
    Keeping.TRANSFORM: "use `assign`, `drop` and `rename`",
    Keeping.DEDUP: "use `groupby(…).latest()`",
    Keeping.EXPLODE: "send one row for each element",
    Keeping.UNION: "give one dataset both sources",
    Keeping.CHANGELOG: "read the keyless dataset instead",
    Keeping.FIRST: "use `latest`, or `Min` over what orders the rows",
    Keeping.AFTER_AGGREGATE: "make the step before the aggregate",
    Keeping.READ_AGGREGATE: "read the dataset that `{name}` is made from",
    Keeping.LATEST_OF_CORRECTED: "take the latest row first, in a dataset of its own",
    Keeping.LATEST_AND_LEFT_OUT: "give `latest` a dataset of its own",
    Keeping.KEYED_JOIN: "join the keyless rows first and make them keyed afterwards",
    Keeping.KEYED_AGGREGATE: "aggregate the keyless rows that the keyed dataset is made from",
    Keeping.ALONG: "make the column the event time of its dataset",
    Keeping.GROUP_WINDOW: "give each aggregate its window",
    Keeping.COMPUTED_JOIN: "make `{name}` a value in a dataset of its own, and join that",
}
"""What a job with a state of its own does not carry out yet, and what to do instead; what is not
here it carries out."""


def not_carried_out(definitions: Definitions) -> tuple[NotYetSupported, ...]:
    """Find everything that jobs cannot carry out yet, in source order.

    The definitions passed `narthex.graph.check`.
    """
    typed = typed_datasets(definitions)
    infos = {one.dataset.name: one.info for one in typed}
    contributed = {one.dataset.name for one in typed if final_aggregate(one.dataset) is not None}
    found: list[NotYetSupported] = [*not_carried_out_at_edges(definitions)]
    for dataset in definitions.datasets:
        for pipeline in dataset.pipelines:
            found += _of_pipeline(pipeline, infos, contributed)
    return tuple(error for error in in_source_order(found) if isinstance(error, NotYetSupported))


def _of_pipeline(
    pipeline: Pipeline, infos: Mapping[str, DatasetSchemaInfo], contributed: set[str]
) -> Iterator[NotYetSupported]:
    for one in kept_for(pipeline.terminal, infos, contributed):
        hint = _WAYS_OUT.get(one.keeping)
        if hint is not None:
            detail = f"; {one.detail}" if one.detail else ""
            message = f"{one.title} is not carried out yet{detail}"
            yield _not_yet(message, one.step, hint.format(name=one.name))
    for step in all_steps(pipeline.terminal):
        if isinstance(step, Aggregate):
            for spec in step.specs:
                yield from _of_spec(spec, step)


def _of_spec(spec: AggregateSpec, step: Aggregate) -> Iterator[NotYetSupported]:
    if isinstance(spec, ExpDecaySum) and step.window is not None:
        # A span's row would have to be logged at every instant.
        yield _not_yet(
            f"a decaying sum in a `groupby` with a window, as of `{spec.into}`, is not carried "
            "out yet",
            step,
            "give the aggregate a window instead of the group",
        )


def _not_yet(message: str, step: Operator, hint: str) -> NotYetSupported:
    return NotYetSupported(message, origin=step.origin, hint=hint)

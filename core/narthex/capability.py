"""What a definition means but no job can carry out yet.

The language is checked by `narthex.graph`, and the reference engine and the in-process client
carry all of it out. Whoever creates assets asks here first, and refuses what would not be exact.
"""

from collections.abc import Iterator

from narthex.aggregate_specs import AggregateSpec, ExpDecaySum
from narthex.entities import Definitions, Pipeline
from narthex.errors import NotYetSupported, in_source_order
from narthex.operators import Aggregate, Operator
from narthex.schemas import all_steps
from narthex.source_capability import not_carried_out_at_edges


def not_carried_out(definitions: Definitions) -> tuple[NotYetSupported, ...]:
    """Find everything that jobs cannot carry out yet, in source order.

    The definitions passed `narthex.graph.check`.
    """
    found: list[NotYetSupported] = [*not_carried_out_at_edges(definitions)]
    for dataset in definitions.datasets:
        for pipeline in dataset.pipelines:
            found += _of_pipeline(pipeline)
    return tuple(error for error in in_source_order(found) if isinstance(error, NotYetSupported))


def _of_pipeline(pipeline: Pipeline) -> Iterator[NotYetSupported]:
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

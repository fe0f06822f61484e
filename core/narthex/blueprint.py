"""Compile definitions into the assets that they need, with how each dataset is read."""

from narthex.assets import Blueprint
from narthex.bill import Bill
from narthex.entities import Definitions
from narthex.filling import fill_from_pipeline, fill_from_source
from narthex.graph import TypedDataset, pipeline_reads, typed_datasets
from narthex.holding import Held, hold
from narthex.logs import log_of, plan_of
from narthex.node_schema import DatasetSchemaInfo


def compile_blueprint(definitions: Definitions) -> Blueprint:
    """Give all assets of definitions that passed `graph.check`, in dependency order.

    Equal meaning gives equal fingerprints, whatever things are called; an asset that several
    parts need is listed once, with all its paths.
    """
    bill = Bill()
    made: dict[str, Held] = {}
    infos: dict[str, DatasetSchemaInfo] = {}
    joined = joined_datasets(definitions)
    for typed in typed_datasets(definitions):
        name = typed.dataset.name
        plan = plan_of(typed, log_of(typed, infos))
        made[name] = hold(bill, typed, plan, upstream=made, joined=name in joined)
        infos[name] = typed.info
        _fill(bill, typed, made)
    plans = tuple(made[dataset.name].plan for dataset in definitions.datasets)
    return Blueprint(assets=bill.assets, datasets=plans)


def joined_datasets(definitions: Definitions) -> frozenset[str]:
    """Give the names of all datasets that are the right side of a join."""
    return frozenset(
        name
        for dataset in definitions.datasets
        for pipeline in dataset.pipelines
        for name in pipeline_reads(pipeline)[1:]
    )


def _fill(bill: Bill, typed: TypedDataset, made: dict[str, Held]) -> None:
    held = made[typed.dataset.name]
    for position, source in enumerate(typed.dataset.sources):
        fill_from_source(bill, held, source, position=position)
    for pipeline in typed.dataset.pipelines:
        fill_from_pipeline(bill, held, pipeline, upstream=made)

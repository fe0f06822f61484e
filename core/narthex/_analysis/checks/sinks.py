"""The checks of sinks: what their target accepts, and which datasets may have them."""

from collections.abc import Iterator

from narthex._analysis.checks.places import place_errors
from narthex._connectors.registry import kind_of, kinds
from narthex._ir.connections import Connector
from narthex._ir.entities import Cdc, Dataset, Sink
from narthex._ir.node_schema import did_you_mean, listed
from narthex._ir.schema import Schema
from narthex.errors import DefinitionError, SinkInvalid


def sink_errors(dataset: Dataset) -> Iterator[DefinitionError]:
    """Return all errors of the sinks of a dataset."""
    for sink in dataset.sinks:
        if dataset.sources:
            yield SinkInvalid(
                f"dataset `{dataset.name}` has a source and a sink",
                origin=sink.origin,
                hint="put the sink on another dataset, which a pipeline computes from this one",
            )
        yield from place_errors(sink.target, sink.origin)
        yield from sink_rule_errors(sink, dataset.schema)


def sink_rule_errors(sink: Sink, schema: Schema) -> Iterator[DefinitionError]:
    """Return the errors of one sink on a dataset of that schema."""
    for message in (*_target(sink), *_bounds(sink), *_renames(sink, schema)):
        yield SinkInvalid(message, origin=sink.origin)
    for name, _ in sink.renames:
        if name not in schema.columns:
            yield SinkInvalid(
                f"`renames` has `{name}`, which is not a field; there are {listed(schema.columns)}",
                origin=sink.origin,
                hint=did_you_mean(name, schema.columns),
            )


def _target(sink: Sink) -> Iterator[str]:
    kind = kind_of(sink.target).sink
    if kind is None:
        yield no_sink(sink.target)
        return
    for fault in kind.faults(sink.target):
        yield fault.message
    yield from _in_bulk(sink, kind.where) if kind.is_bulk else _by_row(sink, kind.where)


def no_sink(target: Connector) -> str:
    """Return the message for a connector that can only be read."""
    titles = [kind.sink.title for kind in kinds() if kind.sink is not None]
    listed_titles = f"{', '.join(titles[:-1])} or {titles[-1]}"
    return f"a sink writes to {listed_titles}; found `{kind_of(target).title}`"


def _by_row(sink: Sink, where: str) -> Iterator[str]:
    if sink.cdc is not Cdc.DEBEZIUM:
        found = "none" if sink.cdc is None else f"`{sink.cdc.value}`"
        yield f"`cdc` got {found}; a sink into {where} needs `debezium`"
    if sink.every_us is not None:
        yield f"a sink into {where} writes each row at once; it has no `every`"
    if sink.how not in {None, "incremental"}:
        yield f"a sink into {where} is `incremental`"
    if sink.renames:
        yield f"a sink into {where} has no `renames`"
    if sink.since_us is not None or sink.until_us is not None:
        yield f"a sink into {where} has no `since` and no `until`"


def _in_bulk(sink: Sink, where: str) -> Iterator[str]:
    if sink.cdc is not None:
        yield f"a sink into {where} has no `cdc`"
    if sink.how != "incremental":
        yield f'a sink into {where} needs `how="incremental"`'


def _bounds(sink: Sink) -> Iterator[str]:
    if sink.since_us is not None and sink.until_us is not None and sink.since_us >= sink.until_us:
        yield "`since` is not before `until`"


def _renames(sink: Sink, schema: Schema) -> Iterator[str]:
    renamed = dict(sink.renames)
    names = [renamed.get(name, name) for name in schema.columns]
    for name in dict.fromkeys(one for one in names if names.count(one) > 1):
        yield f"`renames` gives two fields the name `{name}`"

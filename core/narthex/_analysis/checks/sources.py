"""The checks of sources: their connector, their preproc, their `where`, their bounds."""

from collections.abc import Iterator
from typing import assert_never

from narthex._analysis.checks.places import place_errors
from narthex._analysis.fingerprints import source_id
from narthex._connectors.registry import is_polled, kinds, source_kind
from narthex._expr.expression_types import expression_type, misfit
from narthex._ir.aggregate_types import Misfit
from narthex._ir.connections import Files
from narthex._ir.entities import (
    Cdc,
    ColumnRef,
    Computed,
    ComputedByCode,
    Constant,
    Dataset,
    Preproc,
    Sample,
    Source,
    WhereByCode,
)
from narthex._ir.literals import is_literal_of
from narthex._ir.node_schema import did_you_mean, listed
from narthex._ir.schema import Schema
from narthex._ir.type_names import type_name
from narthex._ir.types import Bool, DataType, inner
from narthex.errors import (
    ConnectorInvalid,
    DefinitionError,
    EntityTwice,
    PreprocInvalid,
    SourceInvalid,
)


def source_errors(dataset: Dataset) -> Iterator[DefinitionError]:
    """Return all errors of the sources of a dataset."""
    seen: set[str] = set()
    for source in dataset.sources:
        identity = source_id(source)
        if identity in seen:
            yield EntityTwice(
                f"dataset `{dataset.name}` has the source `{identity}` twice", origin=source.origin
            )
        seen.add(identity)
        if source.disorder_us < 0:
            yield SourceInvalid("`disorder` is negative", origin=source.origin)
        yield from place_errors(source.connector, source.origin)
        yield from rule_errors(source, dataset.schema)
        yield from _preproc_errors(dataset, source)
        yield from _where_errors(source)


def rule_errors(source: Source, schema: Schema | None) -> Iterator[DefinitionError]:
    """Return the conflicts in a source; the schema of its dataset may be unknown."""
    for message in (*_bounds(source), *_cdc(source)):
        yield SourceInvalid(message, origin=source.origin)
    kind = source_kind(source.connector)
    for fault in kind.faults(source.connector):
        yield ConnectorInvalid(fault.message, origin=source.origin, hint=fault.hint)
    for name, entry in source.preproc:
        if isinstance(entry, ColumnRef) and entry.path:
            wrong = kind.no_members(source.connector)
            if wrong:
                yield PreprocInvalid(
                    f"`preproc` of `{name}` refers to a member of `{entry.column}`; {wrong}",
                    origin=source.origin,
                )
    if source.sample is not None:
        given = {name for name, _ in source.preproc}
        for message in _sample(source.sample, schema, given):
            yield SourceInvalid(message, origin=source.origin)


def _bounds(source: Source) -> Iterator[str]:
    since, until = source.since_us, source.until_us
    if since is not None and until is not None and since >= until:
        yield "`since` is not before `until`"
    connector = source.connector
    if isinstance(connector, Files) and connector.spread_us is not None and since is until is None:
        yield "`spread` requires `since` or `until`, which select files by the dates in their path"
    if source.bounded and source.idleness_us is None:
        yield (
            "a bounded source needs the time without rows after which it ends; "
            'give `idleness`, such as `idleness="1h"`'
        )
    if source.idleness_us is not None and source.idleness_us <= 0:
        yield "`idleness` must be above zero"
    if source.every_us is not None:
        yield from _every(source)


def _every(source: Source) -> Iterator[str]:
    if source.bounded:
        yield "a bounded source is read once; it has no `every`"
    elif not is_polled(source.connector, bounded=False):
        yield f"`{source_id(source)}` is read as rows arrive; such a source has no `every`"
    elif source.every_us is not None and source.every_us <= 0:
        yield "`every` must be above zero"


def _cdc(source: Source) -> Iterator[str]:
    kind = source_kind(source.connector)
    is_table = kind.has_change_log(source.connector)
    if is_table and source.cdc is not Cdc.NATIVE:
        yield f"`cdc` got `{source.cdc.value}`; files that are a table want `native`"
    elif source.cdc is Cdc.NATIVE and not is_table:
        yield "`cdc` got `native`; only files in the format `delta` or `hudi` have it"
    elif source.cdc not in kind.cdc:
        able = [other.title for other in kinds() if other.source and source.cdc in other.source.cdc]
        rows = "envelopes" if source.cdc is Cdc.DEBEZIUM else "such rows"
        yield (
            f"`cdc` got `{source.cdc.value}`; only {', '.join(able[:-1])} and {able[-1]} bring "
            f"{rows}"
        )


def _sample(sample: Sample, schema: Schema | None, given: set[str]) -> Iterator[str]:
    if not 0 <= sample.rate <= 1:
        yield f"the rate of `sample` is {sample.rate}; expected 0 to 1"
    if not sample.using:
        yield "`sample` does not name the fields that select rows"
    for name in sample.using:
        if name in given:
            yield f"`sample` selects by `{name}`, which `preproc` computes"
        elif schema is not None and name == schema.timestamp:
            yield f"`sample` selects by the timestamp `{name}`"
        elif schema is not None and name not in schema.columns:
            yield f"`sample` selects by `{name}`, which is not a field of the dataset"


def _preproc_errors(dataset: Dataset, source: Source) -> Iterator[DefinitionError]:
    columns = dataset.schema.columns
    for name, entry in source.preproc:
        if name not in columns:
            yield PreprocInvalid(
                f"`preproc` gives `{name}`, which `{dataset.name}` does not have; it has "
                f"{listed(columns)}",
                origin=source.origin,
                hint=did_you_mean(name, columns),
            )
            continue
        wrong = _entry_misfit(entry, columns[name])
        if name == dataset.schema.timestamp and isinstance(entry, Computed | ComputedByCode):
            wrong = "the timestamp cannot be computed; use a reference or a constant"
        if wrong is not None:
            yield PreprocInvalid(f"`preproc` of `{name}`: {wrong}", origin=source.origin)


def _entry_misfit(entry: Preproc, wanted: DataType) -> str | None:
    match entry:
        case ColumnRef() | ComputedByCode():
            return None
        case Constant(value=value):
            if is_literal_of(value, wanted):
                return None
            return f"the constant `{value!r}` is not of type `{type_name(wanted)}`"
        case Computed(expression=expression, schema=schema):
            return misfit(expression, {column.name: column.type for column in schema}, wanted)
        case _:
            assert_never(entry)


def _where_errors(source: Source) -> Iterator[DefinitionError]:
    if source.where is None or isinstance(source.where, WhereByCode):
        return
    columns = {column.name: column.type for column in source.where.schema}
    found = expression_type(source.where.expression, columns)
    if isinstance(found, Misfit):
        yield PreprocInvalid(f"`where`: {found.message}", origin=source.origin)
    elif not isinstance(inner(found), Bool):
        yield PreprocInvalid(
            f"`where` is of type `{type_name(found)}`, not `bool`", origin=source.origin
        )

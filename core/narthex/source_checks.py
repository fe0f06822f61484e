"""What can be wrong with a source: its preproc, its `where`, its bounds."""

from collections.abc import Iterator
from typing import assert_never

from narthex.aggregate_types import Misfit
from narthex.entities import ColumnRef, Computed, Constant, Dataset, KafkaTopic, Preproc, Source
from narthex.errors import (
    DefinitionError,
    EntityTwice,
    NotYetSupported,
    PreprocInvalid,
    SourceInvalid,
)
from narthex.expression_types import expression_type, misfit
from narthex.fingerprints import source_id
from narthex.literals import is_literal_of
from narthex.node_schema import did_you_mean, listed
from narthex.rendered_types import type_name
from narthex.types import Bool, DataType, inner


def source_errors(dataset: Dataset) -> Iterator[DefinitionError]:
    """Find everything that is wrong with the sources of a dataset."""
    seen: set[str] = set()
    for source in dataset.sources:
        identity = source_id(source)
        if identity in seen:
            yield EntityTwice(
                f"dataset `{dataset.name}` has the source `{identity}` twice", origin=source.origin
            )
        seen.add(identity)
        yield from _bounds(source)
        yield from _preproc_errors(dataset, source)
        yield from _where_errors(source)


def _bounds(source: Source) -> Iterator[DefinitionError]:
    if source.disorder_us < 0:
        yield SourceInvalid("`disorder` is negative", origin=source.origin)
    if (
        source.since_us is not None
        and source.until_us is not None
        and source.since_us > source.until_us
    ):
        yield SourceInvalid("`since` lies after `until`", origin=source.origin)
    if isinstance(source.connector, KafkaTopic) and source.connector.format != "json":
        yield NotYetSupported(
            f"the format `{source.connector.format}` of a Kafka topic is not read yet",
            origin=source.origin,
            hint='use `format="json"`',
        )


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
        if wrong is not None:
            yield PreprocInvalid(f"`preproc` of `{name}`: {wrong}", origin=source.origin)


def _entry_misfit(entry: Preproc, wanted: DataType) -> str | None:
    match entry:
        case ColumnRef():
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
    if source.where is None:
        return
    columns = {column.name: column.type for column in source.where.schema}
    found = expression_type(source.where.expression, columns)
    if isinstance(found, Misfit):
        yield PreprocInvalid(f"`where`: {found.message}", origin=source.origin)
    elif not isinstance(inner(found), Bool):
        yield PreprocInvalid(
            f"`where` is of type `{type_name(found)}`, not `bool`", origin=source.origin
        )

"""What the steps that end a group give: aggregates, and the latest row."""

from collections.abc import Iterator

import attrs

from narthex.aggregate_specs import AggregateSpec, TypedAggregate
from narthex.aggregate_types import Misfit, is_key, type_aggregate
from narthex.errors import (
    AggregateInvalid,
    ColumnExists,
    ColumnRoleWrong,
    DefinitionError,
    NotYetSupported,
    OperatorInvalid,
    WindowInvalid,
)
from narthex.node_schema import NodeSchema, column_missing, listed
from narthex.operators import Aggregate, Latest
from narthex.rendered_types import type_name
from narthex.schema import Column
from narthex.windows import Continuous, Hopping, Session, Tumbling


def aggregate_schema(aggregate: Aggregate, before: NodeSchema) -> NodeSchema:
    """Give the group keys and a value for each aggregate."""
    typed: list[TypedAggregate] = []
    errors: list[DefinitionError] = [*_group_errors(aggregate, before)]
    if not aggregate.specs:
        errors.append(AggregateInvalid("there is nothing to aggregate", origin=aggregate.origin))
    for spec in aggregate.specs:
        found = _typed(spec, aggregate, before)
        if isinstance(found, DefinitionError):
            errors.append(found)
        else:
            typed.append(found)
    errors += _window_errors(aggregate)
    errors += _name_errors(aggregate, before)
    if before.keys:
        errors.append(
            NotYetSupported(
                "an aggregate over keyed rows is not carried out yet; the rows have the key "
                f"{listed([key.name for key in before.keys])}",
                origin=aggregate.origin,
                hint="aggregate the keyless rows that the keyed dataset is made from",
            )
        )
    return attrs.evolve(
        before.with_errors(*errors),
        keys=_group_columns(aggregate.by, before),
        values=tuple(Column(one.spec.into, one.output) for one in typed),
        aggregates=tuple(typed),
    )


def latest_schema(latest: Latest, before: NodeSchema) -> NodeSchema:
    """Give the rows keyed by the group: its columns as keys, every other one as a value."""
    errors: list[DefinitionError] = [*_group_errors(latest, before)]
    if before.keys:
        errors.append(
            OperatorInvalid(
                "the latest row of a keyed dataset is the dataset itself; it has the key "
                f"{listed([key.name for key in before.keys])}",
                origin=latest.origin,
            )
        )
    elif before.correctable:
        errors.append(
            NotYetSupported(
                "the latest row of rows that a join may still correct is not carried out yet",
                origin=latest.origin,
                hint="take the latest row first, in a dataset of its own",
            )
        )
    keys = _group_columns(latest.by, before)
    return attrs.evolve(
        before.with_errors(*errors),
        keys=keys,
        values=tuple(column for column in before.values if column.name not in latest.by),
        correctable=True,
    )


def _group_columns(by: tuple[str, ...], before: NodeSchema) -> tuple[Column, ...]:
    columns = before.columns
    return tuple(Column(name, columns[name]) for name in by if name in columns)


def _group_errors(step: Aggregate | Latest, before: NodeSchema) -> Iterator[DefinitionError]:
    columns = before.columns
    if not step.by:
        yield OperatorInvalid("`groupby` names no column", origin=step.origin)
    for name in step.by:
        if name not in columns:
            yield column_missing(name, columns, where="the input of `groupby`", origin=step.origin)
        elif name == before.timestamp:
            yield ColumnRoleWrong(
                f"column `{name}` is the event time, which rows cannot be grouped by",
                origin=step.origin,
            )
        elif not is_key(columns[name]):
            yield ColumnRoleWrong(
                f"column `{name}` of type `{type_name(columns[name])}` cannot be a key",
                origin=step.origin,
                hint=f'drop nulls with `.dropnull("{name}")`; keys are int, str, bool, Decimal, '
                "date or datetime",
            )


def _typed(
    spec: AggregateSpec, aggregate: Aggregate, before: NodeSchema
) -> TypedAggregate | DefinitionError:
    columns = before.columns
    if spec.of is not None and spec.of not in columns:
        return column_missing(
            spec.of, columns, where="the input of the aggregate", origin=aggregate.origin
        )
    found = type_aggregate(spec, None if spec.of is None else columns[spec.of])
    if isinstance(found, Misfit):
        return AggregateInvalid(f"`{spec.into}`: {found.message}", origin=aggregate.origin)
    return found


def _window_errors(aggregate: Aggregate) -> Iterator[DefinitionError]:
    for spec in aggregate.specs:
        if isinstance(spec.window, Session):
            yield WindowInvalid(
                f"`{spec.into}` has a session window; an aggregate's window is continuous, "
                "hopping or tumbling",
                origin=aggregate.origin,
            )
        elif spec.window.duration is not None and spec.window.duration <= 0:
            yield WindowInvalid(f"`{spec.into}` has an empty window", origin=aggregate.origin)
    windows = [spec.window for spec in aggregate.specs]
    if len({isinstance(window, Continuous) for window in windows}) > 1:
        yield WindowInvalid(
            "some windows are continuous and some are discrete; all are of one kind",
            origin=aggregate.origin,
            hint="make a dataset for each kind",
        )
    lookbacks = {window.lookback for window in windows if isinstance(window, Tumbling | Hopping)}
    if len(lookbacks) > 1:
        yield WindowInvalid(
            "windows have different lookbacks; all have the same", origin=aggregate.origin
        )


def _name_errors(aggregate: Aggregate, before: NodeSchema) -> Iterator[DefinitionError]:
    seen = {*aggregate.by, before.timestamp}
    for spec in aggregate.specs:
        if spec.into in seen:
            yield ColumnExists(f"column `{spec.into}` is given twice", origin=aggregate.origin)
        seen.add(spec.into)

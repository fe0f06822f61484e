"""The output schemas of the steps that end a group: aggregates, and a whole row."""

from collections.abc import Iterator

import attrs

from narthex._analysis.schemas.window_checks import is_discrete, window_problems
from narthex._ir.aggregate_specs import AggregateSpec, ExpDecaySum, TypedAggregate
from narthex._ir.aggregate_types import Misfit, is_key, type_aggregate
from narthex._ir.node_schema import NodeSchema, column_missing, listed
from narthex._ir.operators import Aggregate, Emit, First, Latest
from narthex._ir.schema import Column
from narthex._ir.type_names import type_name
from narthex._ir.types import WINDOW, Datetime
from narthex._ir.windows import Continuous, Hopping, Session, Tumbling
from narthex.errors import (
    AggregateInvalid,
    ColumnExists,
    ColumnRoleWrong,
    DefinitionError,
    OperatorInvalid,
    WindowInvalid,
)

WINDOW_COLUMN = "window"
"""The key column that holds the span of a windowed group."""

_RESERVED = frozenset({"along", "emit"})


def is_live(aggregate: Aggregate) -> bool:
    """Whether values of an aggregate change at every instant, without a new row."""
    return any(
        isinstance(spec.window, Continuous) or isinstance(spec, ExpDecaySum)
        for spec in aggregate.specs
    )


def aggregate_schema(aggregate: Aggregate, before: NodeSchema) -> NodeSchema:
    """Return the group keys, its window if it has one, and a value for each aggregate."""
    typed: list[TypedAggregate] = []
    errors: list[DefinitionError] = [*_group_errors(aggregate, before)]
    if not aggregate.specs and aggregate.window is None:
        errors.append(AggregateInvalid("the aggregate has no input", origin=aggregate.origin))
    for spec in aggregate.specs:
        found = _typed(spec, aggregate, before)
        if isinstance(found, DefinitionError):
            errors.append(found)
        else:
            typed.append(found)
    errors += _window_errors(aggregate)
    errors += _group_window_errors(aggregate, before)
    errors += _time_errors(aggregate, before)
    errors += _keyed_errors(aggregate, before)
    errors += _name_errors(aggregate, before)
    span = () if aggregate.window is None else (Column(WINDOW_COLUMN, WINDOW),)
    return attrs.evolve(
        before.with_errors(*errors),
        keys=(*_group_columns(aggregate.by, before), *span),
        values=tuple(Column(one.spec.into, one.output) for one in typed),
        aggregates=tuple(typed),
    )


def whole_row_schema(step: First | Latest, before: NodeSchema) -> NodeSchema:
    """Return the rows keyed by the group: its columns as keys, every other one as a value."""
    errors: list[DefinitionError] = [*_group_errors(step, before)]
    if before.keys:
        name = type(step).__name__.lower()
        errors.append(
            OperatorInvalid(
                f"`{name}` is of keyless rows; these have the key "
                f"{listed([key.name for key in before.keys])}, and one row for each",
                origin=step.origin,
                hint="make them keyless with `changelog` first, or leave the step out",
            )
        )
    keys = _group_columns(step.by, before)
    return attrs.evolve(
        before.with_errors(*errors),
        keys=keys,
        values=tuple(column for column in before.values if column.name not in step.by),
        correctable=True,
    )


def _group_columns(by: tuple[str, ...], before: NodeSchema) -> tuple[Column, ...]:
    columns = before.columns
    return tuple(Column(name, columns[name]) for name in by if name in columns)


def _group_errors(
    step: Aggregate | First | Latest, before: NodeSchema
) -> Iterator[DefinitionError]:
    columns = before.columns
    if not step.by:
        yield OperatorInvalid("`groupby` has no columns", origin=step.origin)
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
                hint=f'drop nulls with `.dropnull("{name}")`; a float is compared exactly only as '
                "a `Decimal`",
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
        if aggregate.window is not None:
            if spec.window != aggregate.window:
                yield WindowInvalid(
                    f"`{spec.into}` has another window than its group",
                    origin=aggregate.origin,
                    hint="leave its `window` out",
                )
        elif isinstance(spec.window, Session):
            yield WindowInvalid(
                f"`{spec.into}` has a session window; an aggregate's window is continuous, "
                "hopping or tumbling",
                origin=aggregate.origin,
                hint="give the session to `groupby(…, window=Session(…))`",
            )
        else:
            for problem in window_problems(spec.window):
                yield WindowInvalid(
                    f"the window of `{spec.into}` {problem}", origin=aggregate.origin
                )
    windows = [spec.window for spec in aggregate.specs]
    if len({is_discrete(window) for window in windows}) > 1:
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


def _group_window_errors(aggregate: Aggregate, before: NodeSchema) -> Iterator[DefinitionError]:
    window = aggregate.window
    if window is None:
        return
    for problem in window_problems(window):
        yield WindowInvalid(f"the window of `groupby` {problem}", origin=aggregate.origin)
    if isinstance(window, Hopping) and window.duration is None:
        yield WindowInvalid(
            "the window of `groupby` has no beginning; a group for each span needs spans that end",
            origin=aggregate.origin,
            hint="give each aggregate the window instead",
        )
    if before.keys:
        yield OperatorInvalid(
            "`groupby` with a window is of keyless rows; these have the key "
            f"{listed([key.name for key in before.keys])}",
            origin=aggregate.origin,
            hint="make them keyless with `changelog` first",
        )


def _time_errors(aggregate: Aggregate, before: NodeSchema) -> Iterator[DefinitionError]:
    if aggregate.emit is Emit.FINAL:
        for spec in aggregate.specs:
            if isinstance(spec, ExpDecaySum):
                yield AggregateInvalid(
                    f"`{spec.into}` decays continuously, so it never has a final value",
                    origin=aggregate.origin,
                    hint='leave `emit="final"` out',
                )
    if aggregate.along is not None:
        yield from _along_errors(aggregate, aggregate.along, before)


def _along_errors(
    aggregate: Aggregate, along: str, before: NodeSchema
) -> Iterator[DefinitionError]:
    columns, origin = before.columns, aggregate.origin
    if along not in columns:
        yield column_missing(along, columns, where="the input of the aggregate", origin=origin)
    elif columns[along] != Datetime():
        yield AggregateInvalid(
            f"column `{along}` has type `{type_name(columns[along])}`; `along` is a datetime",
            origin=origin,
        )
    if aggregate.emit is Emit.FINAL:
        yield AggregateInvalid(
            '`along` and `emit="final"` do not go together: only event time closes a window',
            origin=origin,
        )
    if aggregate.window is not None:
        yield AggregateInvalid(
            "`along` and a window of `groupby` do not go together: its spans are of event time",
            origin=origin,
        )


def _keyed_errors(aggregate: Aggregate, before: NodeSchema) -> Iterator[DefinitionError]:
    if not before.keys or aggregate.along is not None:
        return
    for spec in aggregate.specs:
        if isinstance(spec.window, Continuous) or spec.window == aggregate.window:
            continue
        if isinstance(spec.window, Hopping) and spec.window.duration is None:
            continue
        yield WindowInvalid(
            f"`{spec.into}` has a window that rows leave; keyed rows are valid until they are "
            "replaced, and belong to no span",
            origin=aggregate.origin,
            hint='use `Hopping("forever", …)` or `along=`',
        )


def _name_errors(aggregate: Aggregate, before: NodeSchema) -> Iterator[DefinitionError]:
    seen = {*aggregate.by, before.timestamp}
    if aggregate.window is not None:
        if WINDOW_COLUMN in seen:
            yield ColumnExists(
                f"column `{WINDOW_COLUMN}` is given twice: a group with a window has it as a key",
                origin=aggregate.origin,
                hint=f"rename `{WINDOW_COLUMN}` first",
            )
        seen.add(WINDOW_COLUMN)
    for spec in aggregate.specs:
        if spec.into in _RESERVED:
            yield AggregateInvalid(
                f"`{spec.into}` is an argument of `aggregate` and cannot name a column",
                origin=aggregate.origin,
            )
        if spec.into in seen:
            yield ColumnExists(f"column `{spec.into}` is given twice", origin=aggregate.origin)
        seen.add(spec.into)

"""The output schema of a pipeline, step by step, and all of its errors."""

from collections.abc import Iterator, Mapping
from typing import assert_never

import attrs

from narthex._analysis.schemas.groups import aggregate_schema, is_live, whole_row_schema
from narthex._analysis.schemas.joins import join_schema
from narthex._analysis.schemas.reshaping import (
    changelog_schema,
    dedup_schema,
    explode_schema,
    transform_schema,
    union_schema,
)
from narthex._expr.expression_types import expression_type, misfit
from narthex._ir.aggregate_types import Misfit
from narthex._ir.code import UserCode
from narthex._ir.node_schema import (
    DatasetSchemaInfo,
    NodeSchema,
    column_missing,
    listed,
    of_dataset,
)
from narthex._ir.operators import (
    Aggregate,
    Assign,
    AssignCode,
    Changelog,
    DatasetRef,
    Dedup,
    Drop,
    DropNull,
    Emit,
    Explode,
    Filter,
    First,
    Join,
    Latest,
    Operator,
    Rename,
    Select,
    Transform,
    Union,
)
from narthex._ir.schema import Column
from narthex._ir.type_names import type_name
from narthex._ir.types import Bool, DataType, Optional, inner
from narthex.errors import (
    ColumnExists,
    ColumnRoleWrong,
    DefinitionError,
    EntityMissing,
    ExpressionTypeWrong,
    OperatorAfterTerminal,
    OperatorInvalid,
)

__all__ = [
    "DatasetSchemaInfo",
    "NodeSchema",
    "all_steps",
    "is_terminal",
    "output_schema",
    "schema_of_union",
    "step_schema",
    "steps_of",
]


def output_schema(operator: Operator, inputs: Mapping[str, DatasetSchemaInfo]) -> NodeSchema:
    """Return the schema of a pipeline's step; its `errors` lists all errors up to that step."""
    ref, steps = steps_of(operator)
    schema = _read(ref, inputs)
    if schema is None:
        return _nothing(ref)
    for step in steps:
        schema = step_schema(step, schema, inputs)
    return schema


def steps_of(operator: Operator) -> tuple[DatasetRef, tuple[Operator, ...]]:
    """Return the dataset whose rows a pipeline follows, and the steps after it, first to last.

    In a union, this follows the left side; the steps of the other side belong to the union.
    """
    steps: list[Operator] = []
    while not isinstance(operator, DatasetRef):
        steps.append(operator)
        operator = operator.input
    return operator, tuple(reversed(steps))


def all_steps(operator: Operator) -> tuple[Operator, ...]:
    """Return every step of a pipeline and the datasets that it reads, inputs before consumers.

    The right side of a join is part of the join; the other side of a union comes before it.
    """
    ref, steps = steps_of(operator)
    found: list[Operator] = [ref]
    for step in steps:
        if isinstance(step, Union):
            found += all_steps(step.other)
        found.append(step)
    return tuple(found)


def is_terminal(operator: Operator) -> bool:
    """Whether a dataset that ends in this step has values that change at every instant.

    No pipeline can read such a dataset: it has no log of rows.
    """
    return isinstance(operator, Aggregate) and is_live(operator)


def step_schema(
    step: Operator, before: NodeSchema, inputs: Mapping[str, DatasetSchemaInfo]
) -> NodeSchema:
    """Return the output schema of one step; the step's own errors come last in `errors`."""
    if not isinstance(step, DatasetRef):
        before = _continued(step, step.input, before)
    match step:
        case Join():
            return join_schema(step, before, inputs)
        case Aggregate():
            return aggregate_schema(step, before)
        case First() | Latest():
            return whole_row_schema(step, before)
        case DatasetRef():
            return before
        case Transform() | Dedup() | Explode() | Changelog() | Union():
            return _reshape(step, before, inputs)
        case _:
            return _row_step(step, before)


def schema_of_union(step: Union, left: NodeSchema, right: NodeSchema) -> NodeSchema:
    """Return the output schema of a union; `errors` contains the errors of both sides."""
    return union_schema(
        step, _continued(step, step.input, left), _continued(step, step.other, right)
    )


def _continued(step: Operator, last: Operator, before: NodeSchema) -> NodeSchema:
    """Return the output of the last step as the input of another pipeline."""
    if not isinstance(last, Aggregate):
        return before
    rows = attrs.evolve(before, aggregates=(), correctable=True)
    if last.emit is Emit.EAGER and is_live(last):
        return rows.with_errors(
            OperatorAfterTerminal(
                "no step can follow an aggregate over continuous windows",
                origin=step.origin,
                hint="make the step before the aggregate",
            )
        )
    return rows


def _reshape(
    step: Transform | Dedup | Explode | Changelog | Union,
    before: NodeSchema,
    inputs: Mapping[str, DatasetSchemaInfo],
) -> NodeSchema:
    match step:
        case Transform():
            return transform_schema(step, before)
        case Dedup():
            return dedup_schema(step, before)
        case Explode():
            return explode_schema(step, before)
        case Changelog():
            return changelog_schema(step, before)
        case Union():
            other = _continued(step, step.other, output_schema(step.other, inputs))
            return union_schema(step, before, other)
        case _:
            assert_never(step)


def _row_step(
    step: Filter | Assign | AssignCode | Select | Drop | Rename | DropNull, before: NodeSchema
) -> NodeSchema:
    match step:
        case Filter():
            return before.with_errors(*_filter_errors(step, before))
        case Assign():
            return _assign(step, before)
        case AssignCode():
            return _assign_code(step, before)
        case Select() | Drop():
            return _choose(step, before)
        case Rename():
            return _rename(step, before)
        case DropNull():
            return _drop_null(step, before)
        case _:
            assert_never(step)


def _read(ref: DatasetRef, inputs: Mapping[str, DatasetSchemaInfo]) -> NodeSchema | None:
    info = inputs.get(ref.dataset)
    if info is None:
        return None
    if not info.terminal:
        return of_dataset(info)
    return of_dataset(info).with_errors(
        OperatorAfterTerminal(
            f"dataset `{ref.dataset}` ends in an aggregate and cannot feed a pipeline",
            origin=ref.origin,
            hint="read the dataset that the aggregate reads",
        )
    )


def _nothing(ref: DatasetRef) -> NodeSchema:
    error = EntityMissing(
        f"dataset `{ref.dataset}` is read but is not an input of the pipeline",
        origin=ref.origin,
        hint=f"add `{ref.dataset}` to `@inputs`",
    )
    return NodeSchema(keys=(), values=(), timestamp="", errors=(error,))


def _filter_errors(step: Filter, before: NodeSchema) -> Iterator[DefinitionError]:
    if isinstance(step.predicate, UserCode):
        return
    found = expression_type(step.predicate, before.columns)
    if isinstance(found, Misfit):
        yield ExpressionTypeWrong(f"in `filter`: {found.message}", origin=step.origin)
    elif not isinstance(found, Bool):
        yield ExpressionTypeWrong(
            f"the expression of `filter` is of type `{type_name(found)}`, not `bool`",
            origin=step.origin,
            hint="replace nulls, `.fillnull(False)`" if inner(found) == Bool() else "",
        )


def _assign(step: Assign, before: NodeSchema) -> NodeSchema:
    columns = before.columns
    errors: list[DefinitionError] = []
    assigned: list[Column] = []
    for assignment in step.assignments:
        if _is_fixed(assignment.column, before):
            errors.append(_fixed(assignment.column, before, step))
            continue
        wrong = misfit(assignment.expression, columns, assignment.type)
        if wrong is not None:
            errors.append(
                ExpressionTypeWrong(
                    f"in `assign` of `{assignment.column}`: {wrong}", origin=step.origin
                )
            )
        assigned.append(Column(assignment.column, assignment.type))
    return _with_values(before, assigned).with_errors(*errors)


def _assign_code(step: AssignCode, before: NodeSchema) -> NodeSchema:
    if _is_fixed(step.column.name, before):
        return before.with_errors(_fixed(step.column.name, before, step))
    return _with_values(before, [step.column])


def _with_values(before: NodeSchema, assigned: list[Column]) -> NodeSchema:
    types: dict[str, DataType] = {column.name: column.type for column in before.values}
    types |= {column.name: column.type for column in assigned}
    return attrs.evolve(before, values=tuple(Column(name, of) for name, of in types.items()))


def _choose(step: Select | Drop, before: NodeSchema) -> NodeSchema:
    columns = before.columns
    errors: list[DefinitionError] = [
        column_missing(name, columns, where="the input", origin=step.origin)
        for name in step.columns
        if name not in columns
    ]
    named = frozenset(step.columns)
    if isinstance(step, Select):
        kept = tuple(column for column in before.values if column.name in named)
    else:
        kept = tuple(column for column in before.values if column.name not in named)
        errors += [_fixed(name, before, step) for name in step.columns if _is_fixed(name, before)]
    if not step.columns:
        errors.append(OperatorInvalid("the step has no columns", origin=step.origin))
    return attrs.evolve(before, values=kept).with_errors(*errors)


def _rename(step: Rename, before: NodeSchema) -> NodeSchema:
    columns = before.columns
    names = dict(step.names)
    errors: list[DefinitionError] = []
    kept = set(columns) - set(names)
    for old, new in step.names:
        if old not in columns:
            errors.append(column_missing(old, columns, where="the input", origin=step.origin))
        elif new in kept:
            errors.append(
                ColumnExists(
                    f"column `{old}` cannot become `{new}`: the input has a column `{new}`",
                    origin=step.origin,
                )
            )
        else:
            kept.add(new)
    if errors:
        return before.with_errors(*errors)
    return attrs.evolve(
        before,
        keys=tuple(Column(names.get(c.name, c.name), c.type) for c in before.keys),
        values=tuple(Column(names.get(c.name, c.name), c.type) for c in before.values),
        timestamp=names.get(before.timestamp, before.timestamp),
    )


def _drop_null(step: DropNull, before: NodeSchema) -> NodeSchema:
    columns = before.columns
    errors: list[DefinitionError] = []
    for name in step.columns:
        if name not in columns:
            errors.append(column_missing(name, columns, where="the input", origin=step.origin))
        elif not isinstance(columns[name], Optional):
            errors.append(
                OperatorInvalid(
                    f"column `{name}` has type `{type_name(columns[name])}`, which has no null "
                    "to drop",
                    origin=step.origin,
                )
            )
    if not step.columns:
        errors.append(
            OperatorInvalid("`dropnull` has no optional column in its input", origin=step.origin)
        )
    dropped = frozenset(step.columns)
    values = (
        Column(column.name, inner(column.type) if column.name in dropped else column.type)
        for column in before.values
    )
    return attrs.evolve(before, values=tuple(values)).with_errors(*errors)


def _is_fixed(name: str, before: NodeSchema) -> bool:
    return name == before.timestamp or any(key.name == name for key in before.keys)


def _fixed(name: str, before: NodeSchema, step: Assign | AssignCode | Drop) -> ColumnRoleWrong:
    role = "the event time" if name == before.timestamp else "a key"
    of = f" of `{step.input.dataset}`" if isinstance(step.input, DatasetRef) else ""
    verb = "assign" if isinstance(step, AssignCode) else type(step).__name__.lower()
    values = [column.name for column in before.values]
    return ColumnRoleWrong(
        f"column `{name}` is {role}{of}, which `{verb}` cannot change; "
        f"the values are {listed(values)}",
        origin=step.origin,
    )

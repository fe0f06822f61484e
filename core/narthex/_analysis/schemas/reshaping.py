"""The output schemas of transform, dedup, explode, union and changelog."""

from collections.abc import Iterator

import attrs

from narthex._analysis.schemas.window_checks import window_problems
from narthex._ir.node_schema import NodeSchema, column_missing, listed
from narthex._ir.operators import Changelog, Dedup, Explode, Transform, Union
from narthex._ir.schema import Column
from narthex._ir.type_names import type_name
from narthex._ir.types import Bool, DataType, List, inner, optional
from narthex._ir.windows import Tumbling
from narthex.errors import (
    ColumnExists,
    ColumnRoleWrong,
    DefinitionError,
    OperatorInvalid,
    WindowInvalid,
)


def transform_schema(step: Transform, before: NodeSchema) -> NodeSchema:
    """Return the columns that the author declares for the function's result."""
    fixed = {key.name for key in before.keys} | {before.timestamp}
    errors = tuple(
        ColumnRoleWrong(
            f"`transform` gives the value `{column.name}`, which is a key or the event time",
            origin=step.origin,
        )
        for column in step.columns
        if column.name in fixed
    )
    return attrs.evolve(before, values=step.columns).with_errors(*errors)


def dedup_schema(step: Dedup, before: NodeSchema) -> NodeSchema:
    """Return the same columns; a later row may still replace an earlier one."""
    errors = [*_keyless("dedup", before, step), *_dedup_columns(step, before)]
    if step.window is not None:
        errors += [
            WindowInvalid(f"the window of `dedup` {problem}", origin=step.origin)
            for problem in window_problems(step.window)
        ]
    if isinstance(step.window, Tumbling) and step.window.lookback:
        errors.append(
            WindowInvalid(
                "the window of `dedup` has a lookback, which has no effect there",
                origin=step.origin,
                hint="leave `lookback` out",
            )
        )
    return attrs.evolve(before, correctable=True).with_errors(*errors)


def _dedup_columns(step: Dedup, before: NodeSchema) -> Iterator[DefinitionError]:
    columns = before.columns
    for name in step.by:
        if name not in columns:
            yield column_missing(name, columns, where="the input of `dedup`", origin=step.origin)
        elif name == before.timestamp:
            yield ColumnRoleWrong(
                f"column `{name}` is the event time, which `dedup` compares anyway",
                origin=step.origin,
                hint=f"leave `{name}` out",
            )


def explode_schema(step: Explode, before: NodeSchema) -> NodeSchema:
    """Return the elements' types as nullable, as an empty list gives one row with null."""
    columns = before.columns
    errors: list[DefinitionError] = [*_keyless("explode", before, step)]
    exploded: dict[str, DataType] = {}
    if not step.columns:
        errors.append(OperatorInvalid("`explode` has no columns", origin=step.origin))
    for name in step.columns:
        if name not in columns:
            errors.append(
                column_missing(name, columns, where="the input of `explode`", origin=step.origin)
            )
            continue
        of = inner(columns[name])
        if isinstance(of, List):
            exploded[name] = optional(of.of)
        else:
            errors.append(
                OperatorInvalid(
                    f"column `{name}` has type `{type_name(columns[name])}`; `explode` takes lists",
                    origin=step.origin,
                )
            )
    values = tuple(Column(one.name, exploded.get(one.name, one.type)) for one in before.values)
    return attrs.evolve(before, values=values).with_errors(*errors)


def union_schema(step: Union, left: NodeSchema, right: NodeSchema) -> NodeSchema:
    """Return the schema that both sides have; `errors` contains the errors of both sides."""
    known = [error.render() for error in left.errors]
    errors: list[DefinitionError] = [error for error in right.errors if error.render() not in known]
    keyed = [*_keyless("a union", left, step)] or [*_keyless("a union", right, step)]
    errors += keyed
    if not keyed:
        errors += _union_differences(step, left, right)
    return attrs.evolve(left, correctable=left.correctable or right.correctable).with_errors(
        *errors
    )


def _union_differences(
    step: Union, left: NodeSchema, right: NodeSchema
) -> Iterator[DefinitionError]:
    one, other = left.columns, right.columns
    for name in dict.fromkeys([*one, *other]):
        if name not in one or name not in other:
            side = "left" if name in one else "right"
            yield OperatorInvalid(
                f"column `{name}` is only in the {side} side of the union",
                origin=step.origin,
                hint="make both sides alike with `select`, `assign` or `rename` first",
            )
        elif one[name] != other[name]:
            yield OperatorInvalid(
                f"column `{name}` has type `{type_name(one[name])}` in the left side of the union "
                f"and `{type_name(other[name])}` in the right",
                origin=step.origin,
            )
    if left.timestamp != right.timestamp and {left.timestamp, right.timestamp} <= one.keys():
        yield OperatorInvalid(
            f"the event time is `{left.timestamp}` in the left side of the union and "
            f"`{right.timestamp}` in the right",
            origin=step.origin,
        )


def changelog_schema(step: Changelog, before: NodeSchema) -> NodeSchema:
    """Return keys and values as values, with the column that marks inserts or deletes."""
    errors: list[DefinitionError] = []
    if not before.keys:
        errors.append(
            OperatorInvalid(
                "`changelog` needs a keyed dataset; these rows have no key and never end",
                origin=step.origin,
                hint="leave the step out",
            )
        )
    if step.column in before.columns:
        errors.append(
            ColumnExists(
                f"column `{step.column}` of `changelog` is in the input already",
                origin=step.origin,
            )
        )
    values = (*before.keys, *before.values, Column(step.column, Bool()))
    return attrs.evolve(before, keys=(), values=values, correctable=True).with_errors(*errors)


def _keyless(
    what: str, before: NodeSchema, step: Dedup | Explode | Union
) -> Iterator[DefinitionError]:
    if before.keys:
        keys = listed([key.name for key in before.keys])
        name = what if what.startswith("a ") else f"`{what}`"
        yield OperatorInvalid(
            f"{name} is of keyless rows; these have the key {keys}",
            origin=step.origin,
            hint="make them keyless with `changelog` first",
        )

"""The output schema of a join."""

from collections.abc import Iterator, Mapping

import attrs

from narthex._ir.node_schema import DatasetSchemaInfo, NodeSchema, column_missing, listed
from narthex._ir.operators import Join, JoinHow
from narthex._ir.schema import Column
from narthex._ir.type_names import type_name
from narthex._ir.types import DataType, Datetime, Optional, inner, optional, unrestricted
from narthex.errors import (
    ColumnExists,
    DefinitionError,
    EntityMissing,
    JoinInvalid,
    OperatorAfterTerminal,
)


def join_schema(
    join: Join, left: NodeSchema, inputs: Mapping[str, DatasetSchemaInfo]
) -> NodeSchema:
    """Return the left rows' schema with the columns that are taken from the right."""
    right = inputs.get(join.right.dataset)
    if right is None:
        return left.with_errors(
            EntityMissing(
                f"dataset `{join.right.dataset}` is joined but is not an input of the pipeline",
                origin=join.origin,
                hint=f"add `{join.right.dataset}` to `@inputs`",
            )
        )
    taken = _taken(join, right)
    known = left.columns
    fresh = tuple(column for column in taken if column.name not in known)
    return attrs.evolve(
        left.with_errors(*_sides(join, right), *_on(join, left, right), *_fields(join, right)),
        values=(*left.values, *fresh),
        correctable=True,
    ).with_errors(*_collisions(join, taken, known))


def _taken(join: Join, right: DatasetSchemaInfo) -> tuple[Column, ...]:
    types = _takeable(right)
    known = [name for name in join.fields if name in types]
    if join.how is JoinHow.LEFT:
        return tuple(Column(name, optional(types[name])) for name in known)
    return tuple(Column(name, types[name]) for name in known)


def _takeable(right: DatasetSchemaInfo) -> dict[str, DataType]:
    named = {column.name: column.type for column in right.schema.values}
    return {**named, right.schema.timestamp: Datetime()}


def _sides(join: Join, right: DatasetSchemaInfo) -> Iterator[DefinitionError]:
    if right.terminal:
        yield OperatorAfterTerminal(
            f"dataset `{right.name}` ends in an aggregate and cannot be joined",
            origin=join.origin,
            hint="look its values up in a featureset instead",
        )
    elif not right.schema.keys:
        yield JoinInvalid(
            f"dataset `{right.name}` has no key; only a keyed dataset can be joined",
            origin=join.origin,
            hint=f"mark the key of `{right.name}` with `field(key=True)`",
        )
    if join.within_high_us < 0 or (join.within_low_us is not None and join.within_low_us < 0):
        yield JoinInvalid("a bound of `within` is negative", origin=join.origin)


def _on(join: Join, left: NodeSchema, right: DatasetSchemaInfo) -> Iterator[DefinitionError]:
    keys = {column.name: column.type for column in right.schema.keys}
    joined = [name for _, name in join.on]
    if keys and sorted(joined) != sorted(keys):
        yield JoinInvalid(
            f"the join is on {listed(joined)}; the key of `{right.name}` is {listed(keys)}",
            origin=join.origin,
            hint="name each key of the right side once",
        )
    columns = left.columns
    for left_name, right_name in join.on:
        found = columns.get(left_name)
        if found is None:
            yield column_missing(left_name, columns, where="the left side", origin=join.origin)
        elif right_name in keys:
            yield from _key_types(
                join, Column(left_name, found), Column(right_name, keys[right_name])
            )


def _key_types(join: Join, left: Column, right: Column) -> Iterator[DefinitionError]:
    # In a left join a null matches nothing, and the row stays.
    if isinstance(left.type, Optional) and join.how is JoinHow.INNER:
        yield JoinInvalid(
            f"column `{left.name}` has type `{type_name(left.type)}`; a column that an inner "
            "join is on must not be optional",
            origin=join.origin,
            hint=f'drop its nulls first, `.dropnull("{left.name}")`',
        )
    elif unrestricted(inner(left.type)) != unrestricted(right.type):
        yield JoinInvalid(
            f"column `{left.name}` has type `{type_name(left.type)}`; the key `{right.name}` has "
            f"type `{type_name(right.type)}`",
            origin=join.origin,
        )


def _fields(join: Join, right: DatasetSchemaInfo) -> Iterator[DefinitionError]:
    known = _takeable(right)
    for name in join.fields:
        if name not in known:
            yield column_missing(
                name, known, where=f"the values of `{right.name}`", origin=join.origin
            )


def _collisions(
    join: Join, taken: tuple[Column, ...], known: Mapping[str, DataType]
) -> Iterator[DefinitionError]:
    for column in taken:
        if column.name in known:
            yield ColumnExists(
                f"column `{column.name}` of `{join.right.dataset}` is in the left side already",
                origin=join.origin,
                hint=f"rename `{column.name}` on the left side first, or leave it out of `fields`",
            )

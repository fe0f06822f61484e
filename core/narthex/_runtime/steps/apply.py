"""Apply any step of a pipeline to rows."""

from typing import TypeAlias, assert_never

import attrs

from narthex._formats.keys import key_encoder
from narthex._ir.node_schema import NodeSchema
from narthex._ir.operators import (
    Aggregate,
    Assign,
    AssignCode,
    Changelog,
    Dedup,
    Drop,
    DropNull,
    Explode,
    Filter,
    First,
    Join,
    Latest,
    Rename,
    Select,
    Transform,
    Union,
)
from narthex._ir.schema import Schema
from narthex._runtime.steps.joins import join
from narthex._runtime.steps.plain_groups import PlainGroups
from narthex._runtime.steps.reshaping import changelog, dedup, explode, first, latest, union
from narthex._runtime.steps.row_steps import StepContext, row_step
from narthex._runtime.steps.rows import RowBatch, keyed_ids
from narthex._runtime.steps.timelines import Timelines
from narthex._runtime.steps.windowed_groups import WindowedGroups

KernelStep: TypeAlias = (
    Filter
    | Assign
    | AssignCode
    | Select
    | Drop
    | Rename
    | DropNull
    | Transform
    | Dedup
    | Explode
    | Union
    | Changelog
    | Join
    | Aggregate
    | First
    | Latest
)
"""Each operator that has an input: all except the reference to a dataset."""


class SideMissingError(ValueError):
    """A union lacks its other rows, or a join its timelines."""


def apply_step(
    operator: KernelStep,
    rows: RowBatch,
    *,
    other: RowBatch | None = None,
    right: Timelines | None = None,
    schema: NodeSchema,
    context: StepContext,
) -> RowBatch:
    """Apply one step to rows; the step's own input in the tree is ignored.

    The result depends on the set of rows only: their order changes no row, only the order of some.

    Args:
        operator: The step.
        rows: All rows of its input, or all that it can combine with each other: those of a group
            (aggregate, first, latest, dedup), of a key (changelog, keyed rows), or one by one.
        other: The rows of the other side; of a union only.
        right: The right side; of a join only.
        schema: The schema of the result.
        context: The other needs of steps, besides rows.

    Raises:
        SideMissingError: `other` of a union, or `right` of a join, is None.
        UserCodeError: Author code failed, or lists of unequal length explode together, and
            `context` does not set failed rows apart.
    """
    match operator:
        case Join():
            if right is None:
                raise SideMissingError("a join has a right side")
            return join(operator, rows, right, schema)
        case Union():
            if other is None:
                raise SideMissingError("a union has another side")
            return union(rows, other, schema)
        case Aggregate(window=None):
            return PlainGroups(operator, rows, schema).versions()
        case Aggregate():
            return WindowedGroups(operator, rows, schema).rows
        case Explode() | Dedup() | Changelog() | First() | Latest():
            return _reshaped(operator, rows, schema, context)
        case _:
            return row_step(operator, rows, schema, context)


def _reshaped(
    step: Explode | Dedup | Changelog | First | Latest,
    rows: RowBatch,
    schema: NodeSchema,
    context: StepContext,
) -> RowBatch:
    match step:
        case Explode():
            return explode(step, rows, schema, context)
        case Dedup():
            return dedup(step, rows, schema)
        case Changelog():
            return changelog(step, rows, schema)
        case First():
            return first(step, rows, schema)
        case Latest():
            return latest(step, rows, schema)
        case _:
            assert_never(step)


def rows_of_dataset(rows: RowBatch, declared: Schema) -> RowBatch:
    """Return a pipeline's result with the keys in the dataset's order, also inside row ids."""
    keys = declared.keys
    schema = attrs.evolve(rows.schema, keys=keys, values=declared.values)
    if not keys:
        return attrs.evolve(rows, schema=schema)
    names = [column.name for column in rows.schema.keys]
    order = [names.index(column.name) for column in keys]
    encode = key_encoder(keys)
    gone = [tuple([absence.cells[at] for at in order]) for absence in rows.gone]
    ids = keyed_ids([encode(cells) for cells in gone], [absence.time for absence in rows.gone])
    return attrs.evolve(
        rows,
        schema=schema,
        ids=keyed_ids(rows.keys(keys), rows.times),
        gone=tuple(
            attrs.evolve(absence, id=row_id, cells=cells)
            for absence, row_id, cells in zip(rows.gone, ids, gone, strict=True)
        ),
    )

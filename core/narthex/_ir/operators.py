"""The steps of a pipeline, as frozen values; a pipeline is the tree that ends in its last step."""

import enum
from typing import TypeAlias

import attrs

from narthex._base.origin import NOWHERE, Origin
from narthex._base.records import DESCRIPTION, record
from narthex._ir.aggregate_specs import AggregateSpec
from narthex._ir.code import UserCode
from narthex._ir.expression_nodes import Node as ExprNode
from narthex._ir.schema import Column
from narthex._ir.types import DataType
from narthex._ir.windows import Hopping, Session, Tumbling


def _origin() -> Origin:
    return attrs.field(default=NOWHERE, metadata=DESCRIPTION, kw_only=True)


@record
@attrs.frozen
class DatasetRef:
    """The rows of a dataset that is an input of the pipeline."""

    dataset: str
    origin: Origin = _origin()


@record
@attrs.frozen
class Filter:
    """The rows for which the predicate is true; null counts as false."""

    input: "Operator"
    predicate: ExprNode | UserCode
    origin: Origin = _origin()


@record
@attrs.frozen
class Assignment:
    """A column and the expression that computes it."""

    column: str
    type: DataType
    expression: ExprNode


@record
@attrs.frozen
class Assign:
    """The rows with value columns added or replaced by expressions."""

    input: "Operator"
    assignments: tuple[Assignment, ...]
    origin: Origin = _origin()


@record
@attrs.frozen
class AssignCode:
    """The rows with one value column added or replaced by a Python function on a frame."""

    input: "Operator"
    column: Column
    code: UserCode
    origin: Origin = _origin()


@record
@attrs.frozen
class Select:
    """The rows with keys, timestamp and the named value columns only."""

    input: "Operator"
    columns: tuple[str, ...]
    origin: Origin = _origin()


@record
@attrs.frozen
class Drop:
    """The rows without the named value columns."""

    input: "Operator"
    columns: tuple[str, ...]
    origin: Origin = _origin()


@record
@attrs.frozen
class Rename:
    """The rows with columns renamed, as pairs (old, new)."""

    input: "Operator"
    names: tuple[tuple[str, str], ...]
    origin: Origin = _origin()


@record
@attrs.frozen
class DropNull:
    """The rows without nulls in the named columns, whose types are no longer Optional."""

    input: "Operator"
    columns: tuple[str, ...]
    origin: Origin = _origin()


@record
class JoinHow(enum.Enum):
    """The treatment of a left row without a match."""

    LEFT = "left"
    INNER = "inner"


@record
@attrs.frozen
class Join:
    """Each left row with the right dataset's row as of the left row's event time.

    While a keyed left row is valid, later right rows replace the one that it was joined with.

    Attributes:
        on: Pairs (left column, right key).
        within_low_us: How far before the left instant a right row may be; None is unbounded.
        within_high_us: How far after the left instant a right row may be.
        fields: The right columns to add (its timestamp may be one of them).
    """

    input: "Operator"
    right: DatasetRef
    how: JoinHow
    on: tuple[tuple[str, str], ...]
    within_low_us: int | None
    within_high_us: int
    fields: tuple[str, ...]
    origin: Origin = _origin()


@record
@attrs.frozen
class Transform:
    """The rows as a Python function on a frame returns them: the same number, other values.

    Attributes:
        columns: The value columns afterwards; keys and timestamp stay as they are.
    """

    input: "Operator"
    columns: tuple[Column, ...]
    code: UserCode
    origin: Origin = _origin()


@record
@attrs.frozen
class Dedup:
    """The last of the rows that are equal in some columns.

    Attributes:
        by: The columns; without a window, the instant is one of them.
        window: Rows count as equal only within one of its spans; None: only at the same instant.
    """

    input: "Operator"
    by: tuple[str, ...]
    window: Tumbling | Session | None = None
    origin: Origin = _origin()


@record
@attrs.frozen
class Explode:
    """A row per element of the named lists, in lockstep; an empty list yields one row with null."""

    input: "Operator"
    columns: tuple[str, ...]
    origin: Origin = _origin()


@record
@attrs.frozen
class Union:
    """The rows of both inputs, which share one schema; equal rows are both kept."""

    input: "Operator"
    other: "Operator"
    origin: Origin = _origin()


@record
class Change(enum.Enum):
    """The change of a keyed dataset that a column of its changelog marks with true."""

    INSERT = "insert"
    DELETE = "delete"


@record
@attrs.frozen
class Changelog:
    """A keyless row for each insert and each delete of a keyed dataset; an update is both.

    Attributes:
        column: The bool column that distinguishes inserts from deletes.
        change: The change for which the column is true.
    """

    input: "Operator"
    column: str
    change: Change
    origin: Origin = _origin()


@record
class Emit(enum.Enum):
    """When a group's value is emitted: at once with corrections, or when its window has closed."""

    EAGER = "eager"
    FINAL = "final"


@record
@attrs.frozen
class Aggregate:
    """The aggregates over the rows of each group.

    Attributes:
        along: A datetime column that is the time axis instead of the event time.
        window: Splits groups into its spans; the key column `window` holds the span.
    """

    input: "Operator"
    by: tuple[str, ...]
    specs: tuple[AggregateSpec, ...]
    along: str | None = None
    emit: Emit = Emit.EAGER
    window: Hopping | Tumbling | Session | None = None
    origin: Origin = _origin()


@record
@attrs.frozen
class First:
    """The whole row with the oldest event time per group; ties go to the first seen."""

    input: "Operator"
    by: tuple[str, ...]
    origin: Origin = _origin()


@record
@attrs.frozen
class Latest:
    """The whole row with the newest event time per group; ties go to the last seen."""

    input: "Operator"
    by: tuple[str, ...]
    origin: Origin = _origin()


Operator: TypeAlias = (
    DatasetRef
    | Filter
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

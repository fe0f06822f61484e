"""The steps of a pipeline, as frozen values; a pipeline is the tree that ends in its last step."""

import enum
from typing import TypeAlias

import attrs

from narthex.aggregate_specs import AggregateSpec
from narthex.code import UserCode
from narthex.expr.nodes import Node as ExprNode
from narthex.origin import NOWHERE, Origin
from narthex.records import DESCRIPTION, record
from narthex.schema import Column
from narthex.types import DataType


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
    """A column and the expression that gives it."""

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
    """The rows without a null in the named columns, whose types lose their Optional."""

    input: "Operator"
    columns: tuple[str, ...]
    origin: Origin = _origin()


@record
class JoinHow(enum.Enum):
    """What becomes of a left row without a match."""

    LEFT = "left"
    INNER = "inner"


@record
@attrs.frozen
class Join:
    """Each left row with the right dataset's row as of the left row's event time.

    Attributes:
        on: Pairs (left column, right key).
        within_low_us: How far before the left instant a right row may lie; None is forever.
        within_high_us: How far after it.
        fields: Right columns that are taken (its timestamp may be one of them).
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
class Aggregate:
    """Per group, the aggregates over its rows; always the last step of a pipeline here."""

    input: "Operator"
    by: tuple[str, ...]
    specs: tuple[AggregateSpec, ...]
    origin: Origin = _origin()


@record
@attrs.frozen
class Latest:
    """Per group, the whole row with the newest event time; ties go to the last seen."""

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
    | Join
    | Aggregate
    | Latest
)

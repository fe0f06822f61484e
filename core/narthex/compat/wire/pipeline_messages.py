"""Pipelines, their steps and their code as Fennel's client sends them."""

from collections.abc import Mapping
from typing import ClassVar

import attrs

from narthex.compat.wire.expression_messages import ExpressionMessage
from narthex.compat.wire.fields import at
from narthex.compat.wire.schema_messages import (
    DataTypeMessage,
    DurationMessage,
    EmptyMessage,
    MetadataMessage,
)

__all__ = [
    "AggregateStepMessage",
    "CodeMessage",
    "PipelineMessage",
    "SpecMessage",
    "StepMessage",
    "WindowMessage",
]


@attrs.frozen(kw_only=True)
class CodeMessage:
    """Code of an author: the text of one function, and the functions that it includes.

    Attributes:
        text: The function as its author wrote it, with decorators; or a lambda.
    """

    UNREAD: ClassVar = frozenset({2, 4, 6, 7})
    entry_point: str = at(1)
    text: str = at(3)
    includes: "tuple[CodeMessage, ...]" = at(5)


@attrs.frozen(kw_only=True)
class SlidingMessage:
    """A continuous window."""

    duration: DurationMessage = at(1)


@attrs.frozen(kw_only=True)
class TumblingMessage:
    """A tumbling window."""

    duration: DurationMessage = at(1)
    lookback: DurationMessage = at(2)


@attrs.frozen(kw_only=True)
class HoppingMessage:
    """A hopping window."""

    duration: DurationMessage = at(1)
    stride: DurationMessage = at(2)
    lookback: DurationMessage = at(3)


@attrs.frozen(kw_only=True)
class ForeverHoppingMessage:
    """A hopping window without a beginning."""

    stride: DurationMessage = at(1)
    lookback: DurationMessage = at(2)


@attrs.frozen(kw_only=True)
class SessionMessage:
    """A session window."""

    gap: DurationMessage = at(1)


@attrs.frozen(kw_only=True)
class WindowMessage:
    """A window: the field that is not None."""

    sliding: SlidingMessage | None = at(1)
    forever: EmptyMessage | None = at(2)
    session: SessionMessage | None = at(3)
    tumbling: TumblingMessage | None = at(4)
    hopping: HoppingMessage | None = at(5)
    forever_hopping: ForeverHoppingMessage | None = at(6)


@attrs.frozen(kw_only=True)
class SumMessage:
    """A sum."""

    of: str = at(1)
    into: str = at(2)
    window: WindowMessage = at(3)


@attrs.frozen(kw_only=True)
class DefaultedMessage:
    """An average, a least or greatest value, or a deviation: with the value without rows."""

    of: str = at(1)
    into: str = at(2)
    window: WindowMessage = at(3)
    default: float = at(4)
    is_default_null: bool = at(5)


@attrs.frozen(kw_only=True)
class CountMessage:
    """A count."""

    into: str = at(1)
    window: WindowMessage = at(2)
    unique: bool = at(3)
    approx: bool = at(4)
    of: str = at(5)
    dropnull: bool = at(6)


@attrs.frozen(kw_only=True)
class ListedMessage:
    """The first or the last values of a column."""

    of: str = at(1)
    into: str = at(2)
    limit: int = at(3)
    dedup: bool = at(4)
    window: WindowMessage = at(5)
    dropnull: bool = at(6)


@attrs.frozen(kw_only=True)
class DistinctMessage:
    """The distinct values of a column."""

    of: str = at(1)
    into: str = at(2)
    window: WindowMessage = at(3)
    dropnull: bool = at(4)


@attrs.frozen(kw_only=True)
class QuantileMessage:
    """A quantile."""

    of: str = at(1)
    into: str = at(2)
    window: WindowMessage = at(3)
    default: float | None = at(4)
    p: float = at(5)
    approx: bool = at(6)


@attrs.frozen(kw_only=True)
class DecayMessage:
    """A decayed sum."""

    of: str = at(1)
    into: str = at(2)
    window: WindowMessage = at(3)
    half_life_s: int = at(4)


@attrs.frozen(kw_only=True)
class SpecMessage:
    """An aggregate: the field that is not None."""

    sum: SumMessage | None = at(1)
    average: DefaultedMessage | None = at(2)
    count: CountMessage | None = at(3)
    last_k: ListedMessage | None = at(4)
    min: DefaultedMessage | None = at(5)
    max: DefaultedMessage | None = at(6)
    stddev: DefaultedMessage | None = at(7)
    distinct: DistinctMessage | None = at(8)
    quantile: QuantileMessage | None = at(9)
    decay: DecayMessage | None = at(10)
    first_k: ListedMessage | None = at(11)


@attrs.frozen(kw_only=True)
class AggregateStepMessage:
    """Aggregates of groups."""

    UNREAD: ClassVar = frozenset({4})
    operand: str = at(1)
    keys: tuple[str, ...] = at(2)
    specs: tuple[SpecMessage, ...] = at(3)
    along: str | None = at(5)
    emit: int = at(6)


@attrs.frozen(kw_only=True)
class JoinStepMessage:
    """A join with a dataset; without a lower bound, the bound is unlimited."""

    UNREAD: ClassVar = frozenset({4, 5})
    left: str = at(1)
    right: str = at(2)
    on: Mapping[str, str] = at(3)
    low: DurationMessage | None = at(6)
    high: DurationMessage | None = at(7)
    how: int = at(8)
    broadcast: bool = at(9)
    fields: tuple[str, ...] = at(10)


@attrs.frozen(kw_only=True)
class TransformStepMessage:
    """Columns computed by a function; without a schema, their types stay."""

    UNREAD: ClassVar = frozenset({4})
    operand: str = at(1)
    schema: Mapping[str, DataTypeMessage] = at(2)
    code: CodeMessage = at(3)


@attrs.frozen(kw_only=True)
class FilterStepMessage:
    """A filter by a function."""

    UNREAD: ClassVar = frozenset({3})
    operand: str = at(1)
    code: CodeMessage = at(2)


@attrs.frozen(kw_only=True)
class FilterExpressionMessage:
    """A filter by an expression."""

    UNREAD: ClassVar = frozenset({3})
    operand: str = at(1)
    expression: ExpressionMessage = at(2)


@attrs.frozen(kw_only=True)
class AssignStepMessage:
    """A column computed by a function."""

    UNREAD: ClassVar = frozenset({5})
    operand: str = at(1)
    code: CodeMessage = at(2)
    column: str = at(3)
    type: DataTypeMessage = at(4)


@attrs.frozen(kw_only=True)
class AssignExpressionMessage:
    """Columns computed by expressions."""

    UNREAD: ClassVar = frozenset({5})
    operand: str = at(1)
    expressions: Mapping[str, ExpressionMessage] = at(2)
    types: Mapping[str, DataTypeMessage] = at(3)


@attrs.frozen(kw_only=True)
class ColumnsStepMessage:
    """A step that names columns: `drop`, `dropnull`, `explode`, `first` or `latest`."""

    UNREAD: ClassVar = frozenset({3})
    operand: str = at(1)
    columns: tuple[str, ...] = at(2)


@attrs.frozen(kw_only=True)
class RenameStepMessage:
    """New names of columns."""

    UNREAD: ClassVar = frozenset({3})
    operand: str = at(1)
    names: Mapping[str, str] = at(2)


@attrs.frozen(kw_only=True)
class UnionStepMessage:
    """The rows of several inputs."""

    UNREAD: ClassVar = frozenset({2})
    operands: tuple[str, ...] = at(1)


@attrs.frozen(kw_only=True)
class DedupStepMessage:
    """The last of equal rows."""

    UNREAD: ClassVar = frozenset({3})
    operand: str = at(1)
    columns: tuple[str, ...] = at(2)
    window: WindowMessage | None = at(4)


@attrs.frozen(kw_only=True)
class ChangelogStepMessage:
    """The inserts and deletes of a keyed dataset."""

    UNREAD: ClassVar = frozenset({4})
    operand: str = at(1)
    column: str = at(2)
    is_of_deletes: bool = at(3)


@attrs.frozen(kw_only=True)
class WindowStepMessage:
    """A `groupby` with a window. The client leaves out the aggregates that follow it."""

    UNREAD: ClassVar = frozenset({2, 3, 4, 5, 6})
    operand: str = at(1)


@attrs.frozen(kw_only=True)
class DatasetStepMessage:
    """The rows of a dataset."""

    dataset: str = at(1)


@attrs.frozen(kw_only=True)
class StepMessage:
    """A step of a pipeline, which refers to its inputs by id: its kind is the field not None."""

    UNREAD: ClassVar = frozenset({11})
    id: str = at(1)
    is_last: bool = at(2)
    pipeline: str = at(3)
    dataset: str = at(4)
    aggregate: AggregateStepMessage | None = at(5)
    join: JoinStepMessage | None = at(6)
    transform: TransformStepMessage | None = at(7)
    union: UnionStepMessage | None = at(8)
    filter: FilterStepMessage | None = at(9)
    rows_of: DatasetStepMessage | None = at(10)
    rename: RenameStepMessage | None = at(12)
    drop: ColumnsStepMessage | None = at(13)
    explode: ColumnsStepMessage | None = at(14)
    dedup: DedupStepMessage | None = at(15)
    first: ColumnsStepMessage | None = at(16)
    assign: AssignStepMessage | None = at(17)
    dropnull: ColumnsStepMessage | None = at(18)
    window: WindowStepMessage | None = at(19)
    version: int = at(20)
    latest: ColumnsStepMessage | None = at(21)
    changelog: ChangelogStepMessage | None = at(22)
    assign_expression: AssignExpressionMessage | None = at(23)
    filter_expression: FilterExpressionMessage | None = at(24)


@attrs.frozen(kw_only=True)
class PipelineMessage:
    """A pipeline that its env selects; its steps are apart."""

    UNREAD: ClassVar = frozenset({3})
    name: str = at(1)
    dataset: str = at(2)
    metadata: MetadataMessage = at(4)
    inputs: tuple[str, ...] = at(5)
    version: int = at(6)
    code: CodeMessage = at(7)

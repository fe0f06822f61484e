# mypy: disable-error-code="explicit-any"
"""Pipelines from the messages of Fennel's client: steps that refer to each other by id."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from narthex._analysis.schemas.pipelines import output_schema
from narthex._authoring.error_collection import Reader
from narthex._base.origin import Origin
from narthex._ir.code import UserCode
from narthex._ir.entities import Pipeline
from narthex._ir.node_schema import DatasetSchemaInfo, NodeSchema
from narthex._ir.operators import (
    Aggregate,
    Assign,
    AssignCode,
    Assignment,
    Change,
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
    JoinHow,
    Latest,
    Operator,
    Rename,
    Transform,
    Union,
)
from narthex._ir.schema import Column, Metadata
from narthex._ir.windows import Session, Tumbling
from narthex.compat.wire.aggregates import spec_of, window_of
from narthex.compat.wire.code import CodeScope, OwnCode, user_code
from narthex.compat.wire.expressions import expression_of
from narthex.compat.wire.pipeline_messages import (
    AggregateStepMessage,
    AssignExpressionMessage,
    AssignStepMessage,
    ChangelogStepMessage,
    CodeMessage,
    ColumnsStepMessage,
    DedupStepMessage,
    FilterExpressionMessage,
    FilterStepMessage,
    JoinStepMessage,
    PipelineMessage,
    StepMessage,
    TransformStepMessage,
    UnionStepMessage,
)
from narthex.compat.wire.types import data_type
from narthex.errors import DefinitionError, NotTransmitted, PipelineInvalid, RecordNotUnderstood

MOST_STEPS: Final = 200
"""How many steps a pipeline may have."""

_COLUMNS: Final[Mapping[str, Callable[..., Operator]]] = {
    "drop": Drop,
    "dropnull": DropNull,
    "explode": Explode,
    "first": First,
    "latest": Latest,
}
_NOT_A_STEP: Final = frozenset({"id", "is_last", "pipeline", "dataset", "version"})


@attrs.frozen(kw_only=True)
class PipelineContext:
    """The definitions beside a pipeline.

    Attributes:
        datasets: The schemas of the datasets that it can read, by name.
        members: The fields of the dataset that it computes.
        class_text: The text of that dataset's class.
    """

    scope: CodeScope
    datasets: Mapping[str, DatasetSchemaInfo]
    members: frozenset[str]
    class_text: str
    metadata: Metadata


def pipeline_of(
    message: PipelineMessage, steps: Sequence[StepMessage], context: PipelineContext
) -> tuple[Pipeline | None, list[DefinitionError]]:
    """Return a pipeline; None, and all its errors, if the client's message does not describe it."""
    trace = _Trace(message, context, {step.id: step for step in steps})
    terminal = trace.terminal()
    if terminal is None or trace.reader.errors:
        return None, trace.reader.errors
    made = Pipeline(
        name=message.name,
        inputs=message.inputs,
        terminal=terminal,
        metadata=context.metadata,
        origin=trace.origin,
    )
    return made, []


class _Trace:
    """Builds the steps of one pipeline, each once, and collects the errors of all of them."""

    def __init__(
        self, message: PipelineMessage, context: PipelineContext, steps: Mapping[str, StepMessage]
    ) -> None:
        self._message = message
        self._context = context
        self._steps = steps
        self._built: dict[str, Operator] = {}
        self._open: set[str] = set()
        self.reader = Reader()
        self.origin = Origin(file=f"{message.dataset}.{message.name}", line=0)
        self.title = f"pipeline `{message.name}` of `{message.dataset}`"

    def terminal(self) -> Operator | None:
        """Return the last step with all steps before it; None if there is an error."""
        last = [step.id for step in self._steps.values() if step.is_last]
        if len(last) != 1 or len(self._steps) > MOST_STEPS:
            self.reader.errors.append(
                PipelineInvalid(
                    f"{self.title} has {len(self._steps)} steps, {len(last)} of them the last; "
                    f"expected one last step, and at most {MOST_STEPS}",
                    origin=self.origin,
                )
            )
            return None
        return self.reader.read(lambda: self._step(last[0]))

    def _step(self, number: str) -> Operator:
        if number in self._built:
            return self._built[number]
        step = self._steps.get(number)
        if step is None or number in self._open:
            raise RecordNotUnderstood(f"{self.title} has steps that refer to a missing step")
        self._open.add(number)
        kind, part = _kind_of(step)
        self._built[number] = self._read(kind, part)
        return self._built[number]

    def _read(self, kind: str, part: Any) -> Operator:
        """Return a step; in place of a step with an error, return its input."""
        match kind:
            case "rows_of":
                return DatasetRef(part.dataset, origin=self.origin)
            case "union":
                return self._union(part)
            case "join":
                before = self._step(part.left)
            case _:
                before = self._step(part.operand)
        made = self.reader.read(lambda: self._build(kind, before, part))
        return before if made is None else made

    def _union(self, part: UnionStepMessage) -> Operator:
        if not part.operands:
            raise RecordNotUnderstood(f"{self.title} has a union of nothing")
        first, *others = [self._step(operand) for operand in part.operands]
        for other in others:
            first = Union(first, other, origin=self.origin)
        return first

    def _build(self, kind: str, before: Operator, part: Any) -> Operator:
        try:
            if kind in _COLUMNS:
                return self._of_columns(kind, before, part)
            return _BUILDERS[kind](self, before, part)
        except DefinitionError as error:
            raise error.located(self.origin, subject=self.title) from None

    def _of_columns(self, kind: str, before: Operator, part: ColumnsStepMessage) -> Operator:
        if kind == "drop" and not part.columns:  # `select` of all columns
            return before
        return _COLUMNS[kind](before, part.columns, origin=self.origin)

    def schema(self, before: Operator) -> NodeSchema:
        """Return the schema of a step's input."""
        return output_schema(before, self._context.datasets)

    def code(self, message: CodeMessage, what: str) -> UserCode:
        """Return the code of a step."""
        own = OwnCode(
            what=f"{what} in {self.title}",
            origin=self.origin,
            members=self._context.members,
            class_text=self._context.class_text,
            includes=self._message.code.includes,
        )
        return user_code(message, self._context.scope, own)

    def right(self, part: JoinStepMessage) -> tuple[DatasetRef, DatasetSchemaInfo]:
        """Return the dataset of a join, and its schema.

        Raises:
            RecordNotUnderstood: It is not a dataset, or is neither in the commit nor deployed.
        """
        ref = self._step(part.right)
        info = self._context.datasets.get(ref.dataset) if isinstance(ref, DatasetRef) else None
        if not isinstance(ref, DatasetRef) or info is None:
            raise RecordNotUnderstood(
                f"it joins `{part.right}`, which is neither in the commit nor deployed",
                hint=f"add `{part.right}` to the commit",
            )
        return ref, info


def _kind_of(step: StepMessage) -> tuple[str, Any]:
    for field in attrs.fields(StepMessage):
        value = getattr(step, field.name)
        if field.name not in _NOT_A_STEP and value is not None:
            return field.name, value
    raise RecordNotUnderstood(f"a step of pipeline `{step.pipeline}` of `{step.dataset}` is empty")


def _aggregate(trace: _Trace, before: Operator, part: AggregateStepMessage) -> Operator:
    columns = trace.schema(before).columns
    return Aggregate(
        before,
        part.keys,
        tuple(spec_of(spec, columns) for spec in part.specs),
        along=part.along or None,
        emit=Emit.FINAL if part.emit else Emit.EAGER,
        origin=trace.origin,
    )


def _join(trace: _Trace, before: Operator, part: JoinStepMessage) -> Operator:
    ref, info = trace.right(part)
    keys = [column.name for column in info.schema.keys]
    pairs = sorted(part.on.items(), key=lambda pair: (pair[1] not in keys, pair[1]))
    return Join(
        before,
        ref,
        JoinHow.INNER if part.how else JoinHow.LEFT,
        tuple(pairs),
        None if part.low is None else part.low.micros,
        0 if part.high is None else part.high.micros,
        part.fields or tuple(column.name for column in info.schema.values),
        origin=trace.origin,
    )


def _transform(trace: _Trace, before: Operator, part: TransformStepMessage) -> Operator:
    given = trace.schema(before)
    fixed = {*(column.name for column in given.keys), given.timestamp}
    columns = given.values
    if part.schema:
        columns = tuple(
            Column(name, data_type(of)) for name, of in part.schema.items() if name not in fixed
        )
    return Transform(before, columns, trace.code(part.code, "`transform`"), origin=trace.origin)


def _filter(trace: _Trace, before: Operator, part: FilterStepMessage) -> Operator:
    return Filter(before, trace.code(part.code, "`filter`"), origin=trace.origin)


def _filter_by(trace: _Trace, before: Operator, part: FilterExpressionMessage) -> Operator:
    return Filter(before, expression_of(part.expression), origin=trace.origin)


def _assign(trace: _Trace, before: Operator, part: AssignStepMessage) -> Operator:
    column = Column(part.column, data_type(part.type))
    code = trace.code(part.code, f"`assign` of `{part.column}`")
    return AssignCode(before, column, code, origin=trace.origin)


def _assign_by(trace: _Trace, before: Operator, part: AssignExpressionMessage) -> Operator:
    missing = part.expressions.keys() - part.types.keys()
    if missing:
        raise RecordNotUnderstood(f"`assign` has no type of {', '.join(sorted(missing))}")
    assignments = tuple(
        Assignment(name, data_type(part.types[name]), expression_of(expression))
        for name, expression in part.expressions.items()
    )
    return Assign(before, assignments, origin=trace.origin)


def _rename(trace: _Trace, before: Operator, part: Any) -> Operator:
    return Rename(before, tuple(part.names.items()), origin=trace.origin)


def _dedup(trace: _Trace, before: Operator, part: DedupStepMessage) -> Operator:
    window = None if part.window is None else window_of(part.window)
    if window is not None and not isinstance(window, Tumbling | Session):
        raise RecordNotUnderstood("`dedup` has a window that is neither tumbling nor a session")
    return Dedup(before, part.columns, window, origin=trace.origin)


def _changelog(trace: _Trace, before: Operator, part: ChangelogStepMessage) -> Operator:
    change = Change.DELETE if part.is_of_deletes else Change.INSERT
    return Changelog(before, part.column, change, origin=trace.origin)


def _window(trace: _Trace, before: Operator, part: object) -> Operator:
    del before, part
    raise NotTransmitted(
        "it groups by a window, and Fennel's client leaves out the aggregates of such a group",
        origin=trace.origin,
        hint="give each aggregate its window, or commit with `narthex.client`",
    )


_BUILDERS: Final[Mapping[str, Callable[[_Trace, Operator, Any], Operator]]] = {
    "aggregate": _aggregate,
    "join": _join,
    "transform": _transform,
    "filter": _filter,
    "filter_expression": _filter_by,
    "assign": _assign,
    "assign_expression": _assign_by,
    "rename": _rename,
    "dedup": _dedup,
    "changelog": _changelog,
    "window": _window,
}

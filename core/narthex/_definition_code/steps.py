"""The steps of a pipeline as calls of methods."""

from collections.abc import Mapping
from typing import TypeAlias, assert_never

import attrs

from narthex._analysis.schemas import output_schema
from narthex._base.times import render_duration
from narthex._definition_code.layout import FunctionNames, bare, call, keywords, written
from narthex._expr.render import render, render_value
from narthex._ir import (
    Aggregate,
    AggregateSpec,
    Assign,
    AssignCode,
    Assignment,
    Changelog,
    Continuous,
    DatasetRef,
    DatasetSchemaInfo,
    DataType,
    Datetime,
    Dedup,
    Drop,
    DropNull,
    Emit,
    ExpDecaySum,
    Explode,
    Filter,
    First,
    Hopping,
    Join,
    Latest,
    LiteralValue,
    Max,
    Min,
    Operator,
    Rename,
    Select,
    Session,
    Transform,
    Tumbling,
    Union,
    UserCode,
    Window,
)
from narthex._ir.type_names import annotation
from narthex._ir.types import inner, unrestricted

_Step: TypeAlias = (
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
    | Changelog
    | Join
    | Aggregate
    | First
    | Latest
)
"""A step with one line of rows before it."""

_UNSAID = {"into", "window", "half_life_us"}
"""The attributes of an aggregate that are written in another way than by their name."""


@attrs.frozen
class PipelineWriter:
    """Writes the steps of one pipeline.

    Attributes:
        inputs: The parameters of its function, by the datasets that they are the rows of.
        functions: The names of the functions of authors in its dataset.
        schemas: The schemas of the datasets that it reads.
    """

    inputs: Mapping[str, str]
    functions: FunctionNames
    schemas: Mapping[str, DatasetSchemaInfo]

    def rows(self, operator: Operator) -> str:
        """Write an expression for the rows after a step, each step in a line of its own."""
        if isinstance(operator, DatasetRef):
            return self.inputs[operator.dataset]
        if isinstance(operator, Union):
            return f"({self.rows(operator.input)} + {self.rows(operator.other)})"
        return f"{self.rows(operator.input)}\n{self._step(operator)}"

    def _step(self, operator: _Step) -> str:
        match operator:
            case Filter() | Assign() | AssignCode() | Transform():
                return self._computed(operator)
            case Join():
                return self._join(operator)
            case Aggregate() | First() | Latest():
                return self._grouped(operator)
            case Rename(names=names):
                pairs = ", ".join(f"{written(old)}: {written(new)}" for old, new in names)
                return call(".rename", [f"{{{pairs}}}"])
            case Changelog(column=column, change=change):
                return call(".changelog", keywords({change.value: column}))
            case Dedup(by=by, window=window):
                return call(".dedup", [*map(written, by), *_window(window)])
            case Select() | Drop() | DropNull() | Explode():
                method = type(operator).__name__.lower()
                return call(f".{method}", [*map(written, operator.columns)])
            case _:
                assert_never(operator)

    def _computed(self, operator: Filter | Assign | AssignCode | Transform) -> str:
        match operator:
            case Filter(predicate=predicate):
                if isinstance(predicate, UserCode):
                    return call(".filter", [self.functions.of(predicate)])
                return call(".filter", [bare(render(predicate))])
            case Assign(assignments=assignments):
                return call(".assign", [_assignment(one) for one in assignments])
            case AssignCode(column=column, code=code):
                said = [written(column.name), annotation(column.type), self.functions.of(code)]
                return call(".assign", said)
            case Transform(code=code, columns=columns):
                before = output_schema(operator.input, self.schemas)
                types = {one.name: one.type for one in (*before.keys, *columns)}
                types[before.timestamp] = Datetime()
                pairs = ", ".join(
                    f"{written(name)}: {annotation(of)}" for name, of in types.items()
                )
                return call(".transform", [self.functions.of(code), f"schema={{{pairs}}}"])

    def _grouped(self, operator: Aggregate | First | Latest) -> str:
        by = [*map(written, operator.by)]
        if isinstance(operator, First | Latest):
            return f"{call('.groupby', by)}\n.{type(operator).__name__.lower()}()"
        columns = output_schema(operator.input, self.schemas).columns
        said = [aggregate_code(spec, columns) for spec in operator.specs]
        said += [] if operator.along is None else keywords({"along": operator.along})
        if operator.emit is Emit.FINAL or operator.window is not None:
            said += keywords({"emit": operator.emit.value})
        grouped = call(".groupby", [*by, *_window(operator.window)])
        return f"{grouped}\n{call('.aggregate', said)}"

    def _join(self, step: Join) -> str:
        same = all(left == right for left, right in step.on)
        said: dict[str, object] = {"how": step.how.value}
        if same:
            said["on"] = [left for left, _ in step.on]
        else:
            said["left_on"] = [left for left, _ in step.on]
            said["right_on"] = [right for _, right in step.on]
        within = f"within=({_duration(step.within_low_us)}, {_duration(step.within_high_us)})"
        fields = keywords({"fields": list(step.fields)})
        return call(".join", [self.inputs[step.right.dataset], *keywords(said), within, *fields])


def _assignment(one: Assignment) -> str:
    expression = render(one.expression)
    owner = f"({expression})" if expression.startswith(("-", "~")) else expression
    return f"{one.column}={owner}.astype({annotation(one.type)})"


def _window(window: Window | None) -> list[str]:
    return [] if window is None else [f"window={window_code(window)}"]


def window_code(window: Window) -> str:
    """Write a window, such as `Continuous("1h")`."""
    match window:
        case Continuous(duration=duration):
            said = [_duration(duration)]
        case Tumbling(duration=duration, lookback=lookback):
            said = [_duration(duration), *_lookback(lookback)]
        case Hopping(duration=length, stride=stride, lookback=lookback):
            said = [_duration(length), _duration(stride), *_lookback(lookback)]
        case Session(gap=gap):
            said = [_duration(gap)]
        case _:
            assert_never(window)
    if isinstance(window, Continuous) and window.max_error:
        said.append(f'max_error="{window.max_error * 100:.12g}%"')
    return f"{type(window).__name__}({', '.join(said)})"


def aggregate_code(spec: AggregateSpec, columns: Mapping[str, DataType]) -> str:
    """Write an aggregate as the keyword argument that names its column.

    Args:
        spec: The aggregate.
        columns: The types of the columns of its rows.
    """
    said = [
        f"{one.name}={_argument(spec, one.name, columns)}"
        for one in attrs.fields(type(spec))
        if one.name not in _UNSAID
        and (one.default is attrs.NOTHING or getattr(spec, one.name) != one.default)
    ]
    if isinstance(spec, ExpDecaySum):
        said.append(f"half_life={_duration(spec.half_life_us)}")
    said.append(f"window={window_code(spec.window)}")
    return f"{spec.into}={type(spec).__name__}({', '.join(said)})"


def _argument(spec: AggregateSpec, name: str, columns: Mapping[str, DataType]) -> str:
    """Write an argument; the default of a least or greatest value has the type of its column."""
    value: LiteralValue = getattr(spec, name)
    if name == "default" and isinstance(spec, Min | Max) and spec.of in columns:
        return render_value(value, unrestricted(inner(columns[spec.of])))
    return written(value)


def _duration(microseconds: int | None) -> str:
    return '"forever"' if microseconds is None else f'"{render_duration(microseconds)}"'


def _lookback(microseconds: int) -> list[str]:
    return [f"lookback={_duration(microseconds)}"] if microseconds else []

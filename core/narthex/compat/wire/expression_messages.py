"""Expressions as Fennel's client sends them."""

from collections.abc import Mapping

import attrs

from narthex.compat.wire.fields import at
from narthex.compat.wire.schema_messages import DataTypeMessage, EmptyMessage, StructMessage

__all__ = ["ExpressionMessage"]


@attrs.frozen(kw_only=True)
class NameMessage:
    """A name: of a column, a variable or a time zone; a separator, or a path."""

    name: str = at(1)


@attrs.frozen(kw_only=True)
class LiteralMessage:
    """A constant, as JSON."""

    json: str = at(1)
    type: DataTypeMessage = at(2)


@attrs.frozen(kw_only=True)
class UnaryMessage:
    """An operator before its operand."""

    operator: int = at(1)
    operand: "ExpressionMessage" = at(2)


@attrs.frozen(kw_only=True)
class BinaryMessage:
    """An operator between its operands."""

    left: "ExpressionMessage" = at(1)
    right: "ExpressionMessage" = at(2)
    operator: int = at(3)


@attrs.frozen(kw_only=True)
class BranchMessage:
    """A branch of a case."""

    when: "ExpressionMessage" = at(1)
    then: "ExpressionMessage" = at(2)


@attrs.frozen(kw_only=True)
class CaseMessage:
    """The first branch whose condition is true."""

    branches: tuple[BranchMessage, ...] = at(1)
    otherwise: "ExpressionMessage | None" = at(2)


@attrs.frozen(kw_only=True)
class OperandMessage:
    """A function of one expression: the operand of `isnull`, or an argument."""

    operand: "ExpressionMessage" = at(1)


@attrs.frozen(kw_only=True)
class FillNullMessage:
    """A value, or another one if it is null."""

    operand: "ExpressionMessage" = at(1)
    fill: "ExpressionMessage" = at(2)


@attrs.frozen(kw_only=True)
class BoundMessage:
    """An expression of a variable, for each item of a list."""

    variable: str = at(1)
    body: "ExpressionMessage" = at(2)


@attrs.frozen(kw_only=True)
class ListFunctionMessage:
    """A function of a list: the field that is not None."""

    len: EmptyMessage | None = at(1)
    item: "ExpressionMessage | None" = at(2)
    contains: OperandMessage | None = at(3)
    hasnull: EmptyMessage | None = at(4)
    sum: EmptyMessage | None = at(5)
    min: EmptyMessage | None = at(6)
    max: EmptyMessage | None = at(7)
    all: EmptyMessage | None = at(8)
    any: EmptyMessage | None = at(9)
    mean: EmptyMessage | None = at(10)
    filter: BoundMessage | None = at(11)
    map: BoundMessage | None = at(12)


@attrs.frozen(kw_only=True)
class ListCallMessage:
    """A call of a function of a list."""

    operand: "ExpressionMessage" = at(1)
    function: ListFunctionMessage = at(2)


@attrs.frozen(kw_only=True)
class RoundMessage:
    """A number of decimal places."""

    precision: int = at(1)


@attrs.frozen(kw_only=True)
class LogMessage:
    """The base of a logarithm."""

    base: float = at(1)


@attrs.frozen(kw_only=True)
class NumberFunctionMessage:
    """A function of a number: the field that is not None."""

    round: RoundMessage | None = at(1)
    abs: EmptyMessage | None = at(2)
    ceil: EmptyMessage | None = at(3)
    floor: EmptyMessage | None = at(4)
    to_string: EmptyMessage | None = at(5)
    pow: OperandMessage | None = at(6)
    log: LogMessage | None = at(7)
    sqrt: EmptyMessage | None = at(8)
    sin: EmptyMessage | None = at(9)
    cos: EmptyMessage | None = at(10)
    tan: EmptyMessage | None = at(11)
    arcsin: EmptyMessage | None = at(12)
    arccos: EmptyMessage | None = at(13)
    arctan: EmptyMessage | None = at(14)
    is_nan: EmptyMessage | None = at(15)
    is_infinite: EmptyMessage | None = at(16)


@attrs.frozen(kw_only=True)
class NumberCallMessage:
    """A call of a function of a number."""

    operand: "ExpressionMessage" = at(1)
    function: NumberFunctionMessage = at(2)


@attrs.frozen(kw_only=True)
class StructFunctionMessage:
    """A function of a struct."""

    member: str = at(1)


@attrs.frozen(kw_only=True)
class StructCallMessage:
    """A call of a function of a struct."""

    operand: "ExpressionMessage" = at(1)
    function: StructFunctionMessage = at(2)


@attrs.frozen(kw_only=True)
class EntryMessage:
    """The entry of a key, and the value if there is none."""

    key: "ExpressionMessage" = at(1)
    default: "ExpressionMessage | None" = at(3)


@attrs.frozen(kw_only=True)
class DictFunctionMessage:
    """A function of a mapping: the field that is not None."""

    len: EmptyMessage | None = at(1)
    get: EntryMessage | None = at(2)
    contains: OperandMessage | None = at(3)


@attrs.frozen(kw_only=True)
class DictCallMessage:
    """A call of a function of a mapping."""

    operand: "ExpressionMessage" = at(1)
    function: DictFunctionMessage = at(2)


@attrs.frozen(kw_only=True)
class FormatMessage:
    """A format of instants, and a time zone."""

    format: str = at(1)
    timezone: NameMessage | None = at(2)


@attrs.frozen(kw_only=True)
class ParsedMessage:
    """The type of a parsed text."""

    type: DataTypeMessage = at(1)


@attrs.frozen(kw_only=True)
class TextFunctionMessage:
    """A function of a text: the field that is not None."""

    len: EmptyMessage | None = at(1)
    lower: EmptyMessage | None = at(2)
    upper: EmptyMessage | None = at(3)
    contains: OperandMessage | None = at(4)
    startswith: OperandMessage | None = at(5)
    endswith: OperandMessage | None = at(6)
    concat: OperandMessage | None = at(7)
    strptime: FormatMessage | None = at(8)
    parse: ParsedMessage | None = at(9)
    split: NameMessage | None = at(10)
    json_extract: NameMessage | None = at(11)
    to_int: EmptyMessage | None = at(12)


@attrs.frozen(kw_only=True)
class TextCallMessage:
    """A call of a function of a text."""

    operand: "ExpressionMessage" = at(1)
    function: TextFunctionMessage = at(2)


@attrs.frozen(kw_only=True)
class SinceMessage:
    """The time since another instant, in a unit."""

    other: "ExpressionMessage" = at(1)
    unit: int = at(2)


@attrs.frozen(kw_only=True)
class UnitMessage:
    """A unit of time."""

    unit: int = at(1)


@attrs.frozen(kw_only=True)
class PartMessage:
    """A part of an instant in a time zone."""

    unit: int = at(1)
    timezone: NameMessage | None = at(2)


@attrs.frozen(kw_only=True)
class InstantFunctionMessage:
    """A function of an instant: the field that is not None."""

    since: SinceMessage | None = at(1)
    since_epoch: UnitMessage | None = at(2)
    strftime: FormatMessage | None = at(3)
    part: PartMessage | None = at(4)


@attrs.frozen(kw_only=True)
class InstantCallMessage:
    """A call of a function of an instant."""

    operand: "ExpressionMessage" = at(1)
    function: InstantFunctionMessage = at(2)


@attrs.frozen(kw_only=True)
class InstantLiteralMessage:
    """A time of a clock in a time zone."""

    year: int = at(1)
    month: int = at(2)
    day: int = at(3)
    hour: int = at(4)
    minute: int = at(5)
    second: int = at(6)
    microsecond: int = at(7)
    timezone: NameMessage | None = at(8)


@attrs.frozen(kw_only=True)
class MembersMessage:
    """A struct of expressions, or a list of structs of the items of lists."""

    struct: StructMessage = at(1)
    members: "Mapping[str, ExpressionMessage]" = at(2)


@attrs.frozen(kw_only=True)
class FromEpochMessage:
    """The instant at a time since 1970."""

    operand: "ExpressionMessage" = at(1)
    unit: int = at(2)


@attrs.frozen(kw_only=True)
class RepeatMessage:
    """A list that repeats a value."""

    operand: "ExpressionMessage" = at(1)
    count: "ExpressionMessage" = at(2)


@attrs.frozen(kw_only=True)
class ExpressionMessage:
    """An expression: the field that is not None."""

    ref: NameMessage | None = at(1)
    literal: LiteralMessage | None = at(2)
    unary: UnaryMessage | None = at(4)
    case: CaseMessage | None = at(5)
    binary: BinaryMessage | None = at(6)
    isnull: OperandMessage | None = at(7)
    fillnull: FillNullMessage | None = at(8)
    list: ListCallMessage | None = at(9)
    number: NumberCallMessage | None = at(10)
    struct: StructCallMessage | None = at(11)
    dict: DictCallMessage | None = at(12)
    text: TextCallMessage | None = at(13)
    instant: InstantCallMessage | None = at(14)
    instant_literal: InstantLiteralMessage | None = at(15)
    make_struct: MembersMessage | None = at(16)
    from_epoch: FromEpochMessage | None = at(17)
    var: NameMessage | None = at(18)
    now: EmptyMessage | None = at(19)
    zip: MembersMessage | None = at(20)
    repeat: RepeatMessage | None = at(21)

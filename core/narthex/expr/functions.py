"""Every function of expressions, defined once: its types, its nulls, its promise.

Evaluators render these definitions; a name here is stable, it travels in commits. Three rules
hold for all of them, in every engine:

- A function never fails on a row. Where it has no value (`undefined` says when), it gives null,
  whatever its type says; a null in a column that is not Optional makes a row mistyped, and the
  row is quarantined by the step that meets it.
- An int is 64 bits; a result beyond them is null. A decimal is 28 digits; likewise.
- NaN is never a result: where arithmetic gives NaN there is no value. A NaN that came from user
  code equals itself and is greater than every other number.

Float is IEEE-754 double; an int meets a float by becoming the nearest double.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType

import attrs

from narthex.expr import rules
from narthex.expr.nodes import Call
from narthex.expr.rules import Rule, Wrong, gives
from narthex.types import (
    Bool,
    DataType,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Map,
    Null,
    Optional,
    Str,
    base_type,
    inner,
    optional,
)


class Nulls(enum.Enum):
    """What a null argument does.

    PROPAGATE: any null argument makes the result null.
    KLEENE: null is unknown: `false & null` is false, `true | null` is true, else null.
    OWN: the function says so itself.
    """

    PROPAGATE = "propagate"
    KLEENE = "kleene"
    OWN = "own"


@attrs.frozen(kw_only=True)
class Function:
    """One function.

    Attributes:
        arguments: The least and the greatest number of them; None is any number.
        rule: From argument types to the result's.
        promise: What it gives, in one sentence.
        undefined: When it has no value, and so gives null; empty is never.
        options: Names of constants that a call carries beside its arguments.
        symbol: How an author writes it, for binary operators.
    """

    name: str
    arguments: tuple[int, int | None]
    rule: Rule
    promise: str
    example: str
    nulls: Nulls = Nulls.PROPAGATE
    undefined: str = ""
    options: tuple[str, ...] = ()
    symbol: str = ""

    def result(self, call: Call, arguments: tuple[DataType, ...]) -> DataType | Wrong:
        """Give the type of a call whose arguments have these types."""
        least, greatest = self.arguments
        if len(arguments) < least or (greatest is not None and len(arguments) > greatest):
            return Wrong(f"`{self.name}` has {len(arguments)} arguments")
        plain = tuple(base_type(argument) for argument in arguments)
        if self.nulls is Nulls.OWN:
            return self.rule(call, plain)
        result = self.rule(call, tuple(inner(argument) for argument in plain))
        if isinstance(result, Wrong):
            return result
        nullable = any(isinstance(argument, Optional | Null) for argument in plain)
        return optional(result) if nullable else result


_NUMBER = (Int, Float)
_TOO_BIG = "an int result needs more than 64 bits, or a decimal one more than 28 digits"
_NAN = "the result is NaN"


def _operators() -> tuple[Function, ...]:
    def binary(name: str, symbol: str, rule: Rule, promise: str, **other: str) -> Function:
        example = other.get("example", f'col("a") {symbol} col("b")')
        return Function(
            name=name,
            arguments=(2, 2),
            rule=rule,
            promise=promise,
            example=example,
            undefined=other.get("undefined", ""),
            symbol=symbol,
        )

    no_sum = f"{_TOO_BIG}; {_NAN}"
    no_quotient = f"the divisor is 0; {no_sum}"
    return (
        binary("add", "+", rules.arithmetic("+"), "The sum, or two texts joined", undefined=no_sum),
        binary("sub", "-", rules.arithmetic("-"), "The difference", undefined=no_sum),
        binary("mul", "*", rules.arithmetic("*"), "The product", undefined=no_sum),
        binary(
            "div",
            "/",
            rules.division,
            "The quotient; x / 0 is infinite",
            undefined=f"0 / 0; {_NAN}",
        ),
        binary(
            "floordiv",
            "//",
            rules.arithmetic("//"),
            "The quotient, rounded down: the floor of the rounded quotient for floats",
            undefined=no_quotient,
        ),
        binary(
            "mod",
            "%",
            rules.arithmetic("%"),
            "The remainder, with the divisor's sign: exact, as C's fmod, "
            "plus the divisor where signs differ",
            undefined=no_quotient,
        ),
        binary("eq", "==", rules.equality, "Whether both are equal"),
        binary("ne", "!=", rules.equality, "Whether both differ"),
        binary("lt", "<", rules.ordering, "Whether the left is less; text by code point"),
        binary("le", "<=", rules.ordering, "Whether the left is less or equal"),
        binary("gt", ">", rules.ordering, "Whether the left is greater"),
        binary("ge", ">=", rules.ordering, "Whether the left is greater or equal"),
    )


def _logic() -> tuple[Function, ...]:
    return (
        Function(
            name="neg",
            arguments=(1, 1),
            rule=rules.same_number,
            promise="The number with its sign changed",
            example='-col("a")',
            undefined=_TOO_BIG,
        ),
        Function(
            name="and",
            arguments=(2, 2),
            rule=gives(Bool(), (Bool,), (Bool,)),
            promise="Whether both hold",
            example='col("p") & col("q")',
            nulls=Nulls.KLEENE,
            symbol="&",
        ),
        Function(
            name="or",
            arguments=(2, 2),
            rule=gives(Bool(), (Bool,), (Bool,)),
            promise="Whether one of both holds",
            example='col("p") | col("q")',
            nulls=Nulls.KLEENE,
            symbol="|",
        ),
        Function(
            name="not",
            arguments=(1, 1),
            rule=gives(Bool(), (Bool,)),
            promise="Whether it does not hold",
            example='~col("p")',
        ),
        Function(
            name="isnull",
            arguments=(1, 1),
            rule=lambda _call, _found: Bool(),
            promise="Whether there is no value",
            example='col("a").isnull()',
            nulls=Nulls.OWN,
        ),
        Function(
            name="fillnull",
            arguments=(2, 2),
            rule=rules.fillnull,
            promise="The value, or another one where there is none",
            example='col("a").fillnull(0)',
            nulls=Nulls.OWN,
        ),
        Function(
            name="cast",
            arguments=(1, 1),
            rule=rules.cast,
            promise="The same value as the target type, to which it is promotable",
            example='col("a").astype(float)',
            nulls=Nulls.OWN,
            undefined="a decimal result needs more than 28 digits",
        ),
        Function(
            name="is_in",
            arguments=(2, None),
            rule=rules.equality,
            promise="Whether it equals one of the literals",
            example='col("code").is_in(["a", "b"])',
        ),
        Function(
            name="now",
            arguments=(0, 0),
            rule=gives(Datetime()),
            promise="The instant of the question; in a pipeline, the row's processing time",
            example="now()",
        ),
        Function(
            name="from_epoch",
            arguments=(1, 1),
            rule=gives(Datetime(), (Int,)),
            promise="The instant that many units after 1970-01-01T00:00Z",
            example='from_epoch(col("a"), unit="second")',
            undefined=_TOO_BIG,
            options=("unit",),
        ),
    )


def _numbers() -> tuple[Function, ...]:
    def unary(name: str, rule: Rule, promise: str, undefined: str = "") -> Function:
        return Function(
            name=f"num.{name}",
            arguments=(1, 1),
            rule=rule,
            promise=promise,
            example=f'col("x").num.{name}()',
            undefined=undefined,
            options={"round": ("precision",), "log": ("base",)}.get(name, ()),
        )

    to_float, to_int = gives(Float(), _NUMBER), gives(Int(), _NUMBER)
    return (
        unary("abs", rules.same_number, "The distance from 0", _TOO_BIG),
        unary(
            "round",
            rules.rounded,
            "The nearest number with `precision` digits after the point, halves away from 0; "
            "decided on the shortest decimal text of a float",
            _TOO_BIG,
        ),
        unary("ceil", to_int, "The least int that is not less", _TOO_BIG),
        unary("floor", to_int, "The greatest int that is not greater", _TOO_BIG),
        unary("sqrt", to_float, "The square root", _NAN),
        unary("log", to_float, "ln x, or ln x / ln base; of 0 it is -infinity", _NAN),
        unary("sin", to_float, "The sine of radians", _NAN),
        unary("cos", to_float, "The cosine of radians", _NAN),
        unary("tan", to_float, "The tangent of radians", _NAN),
        unary("arcsin", to_float, "The angle in radians with that sine", _NAN),
        unary("arccos", to_float, "The angle in radians with that cosine", _NAN),
        unary("arctan", to_float, "The angle in radians with that tangent", _NAN),
        unary("is_nan", gives(Bool(), _NUMBER), "Whether it is NaN"),
        unary("is_infinite", gives(Bool(), _NUMBER), "Whether it is infinite"),
        unary(
            "to_string",
            gives(Str(), (Int, Float, Decimal)),
            "Its shortest decimal text that reads back equal, written as Python writes it",
        ),
        Function(
            name="num.pow",
            arguments=(2, 2),
            rule=rules.power,
            promise="The number to that power",
            example='col("x").num.pow(2)',
            undefined=f"an int to a negative power; {_TOO_BIG}; {_NAN}",
        ),
    )


def _texts() -> tuple[Function, ...]:
    def text(name: str, result: DataType, promise: str, more: int = 0, **other: str) -> Function:
        options = tuple(other["options"].split()) if "options" in other else ()
        return Function(
            name=f"str.{name}",
            arguments=(1 + more, 1 + more),
            rule=rules.parsed if name == "parse" else gives(result, (Str,), (Str,)),
            promise=promise,
            example=f'col("s").str.{name}({other.get("example", "")})',
            undefined=other.get("undefined", ""),
            options=options,
        )

    return (
        text("len", Int(), "The number of characters (code points)"),
        text("lower", Str(), "The text in lower case"),
        text("upper", Str(), "The text in upper case"),
        text("concat", Str(), "Both texts joined", 1, example='col("t")'),
        text("contains", Bool(), "Whether the other occurs in it", 1, example='"a"'),
        text("startswith", Bool(), "Whether it begins with the other", 1, example='"a"'),
        text("endswith", Bool(), "Whether it ends with the other", 1, example='"a"'),
        text("split", List(Str()), "The parts between separators", options="sep", example='","'),
        text(
            "strptime",
            Datetime(),
            "The instant that it names in that format, UTC; digits stand in full width",
            options="format",
            example='"%Y-%m-%d"',
            undefined="the text is not of that format, or names no instant",
        ),
        text(
            "parse",
            Str(),
            "The value that it says as JSON; a number for an int is cut at its point",
            example="int",
            undefined="the text is not JSON, or says a value of another type",
        ),
    )


_PARTS = {
    "year": "The year",
    "month": "The month, 1 to 12",
    "week": "The ISO week of the year, 1 to 53",
    "day": "The day of the month",
    "hour": "The hour, 0 to 23",
    "minute": "The minute, 0 to 59",
    "second": "The second, 0 to 59",
    "millisecond": "The whole milliseconds of the second",
    "microsecond": "The microseconds of the second",
}
_BEYOND = "the instant is not within the years 1 to 9999"


def _times() -> tuple[Function, ...]:
    def time(name: str, result: DataType, promise: str, more: int = 0, **other: str) -> Function:
        return Function(
            name=f"dt.{name}",
            arguments=(1 + more, 1 + more),
            rule=gives(result, (Datetime,), (Datetime,)),
            promise=promise,
            example=f'col("t").dt.{other.get("example", name)}',
            undefined=other.get("undefined", _TOO_BIG),
            options=tuple(other.get("options", "").split()),
        )

    parts = tuple(
        time(name, Int(), f"{promise}, UTC", undefined=_BEYOND) for name, promise in _PARTS.items()
    )
    return (
        *parts,
        time(
            "since",
            Int(),
            "Whole units from the other instant on",
            1,
            options="unit",
            example='since(col("u"), unit="day")',
        ),
        time(
            "since_epoch",
            Int(),
            "Whole units from 1970 on",
            options="unit",
            example="since_epoch()",
        ),
        time(
            "strftime",
            Str(),
            "The instant in that format, UTC",
            options="format",
            undefined=_BEYOND,
            example='strftime("%Y-%m-%d")',
        ),
        time(
            "add",
            Datetime(),
            "The instant a duration later",
            options="duration_us",
            example='add("1d")',
        ),
        time(
            "sub",
            Datetime(),
            "The instant a duration earlier",
            options="duration_us",
            example='sub("1d")',
        ),
    )


def _lists() -> tuple[Function, ...]:
    def of_list(
        name: str, rule: Rule, promise: str, more: int = 0, undefined: str = ""
    ) -> Function:
        arguments = {"at": "0", "contains": '"a"'}.get(name, "")
        return Function(
            name=f"list.{name}",
            arguments=(1 + more, 1 + more),
            rule=rule,
            promise=promise,
            example=f'col("l").list.{name}({arguments})',
            undefined=undefined,
        )

    by = rules.of_items
    return (
        of_list("len", by(lambda _item, _rest: Int()), "The number of items"),
        of_list("at", by(rules.list_at), "The item there, from the end if negative, or null", 1),
        of_list(
            "contains",
            by(rules.list_contains),
            "Whether an item equals it; null items are unknown",
            1,
        ),
        of_list("hasnull", by(lambda _item, _rest: Bool()), "Whether an item is null"),
        of_list(
            "sum",
            by(rules.list_sum),
            "The sum of the items, left to right; 0 of none; null with a null",
            undefined=f"{_TOO_BIG}; {_NAN}",
        ),
        of_list("min", by(rules.list_extreme), "The least item; null of none or with a null"),
        of_list("max", by(rules.list_extreme), "The greatest item; null of none or with a null"),
        of_list(
            "mean",
            by(rules.list_mean),
            "The sum of the items as floats by their number; null of none or with a null",
        ),
        of_list("all", by(rules.list_quantifier), "Whether all items hold; null is unknown"),
        of_list("any", by(rules.list_quantifier), "Whether an item holds; null is unknown"),
    )


def _records() -> tuple[Function, ...]:
    return (
        Function(
            name="struct.get",
            arguments=(1, 1),
            rule=rules.struct_member,
            promise="The member of that name",
            example='col("s").struct.get("x")',
            options=("field",),
        ),
        Function(
            name="dict.get",
            arguments=(2, 3),
            rule=_dict_get,
            promise="The entry of that key; without one the default, or null",
            example='col("d").dict.get("k")',
            nulls=Nulls.OWN,
        ),
        Function(
            name="dict.len",
            arguments=(1, 1),
            rule=gives(Int(), (Map,)),
            promise="The number of entries",
            example='col("d").dict.len()',
        ),
        Function(
            name="dict.contains",
            arguments=(2, 2),
            rule=gives(Bool(), (Map,), (Str,)),
            promise="Whether there is an entry of that key",
            example='col("d").dict.contains("k")',
        ),
    )


def _dict_get(call: Call, found: tuple[DataType, ...]) -> DataType | Wrong:
    nullable = isinstance(found[0], Optional) or isinstance(found[1], Optional)
    result = rules.dict_get(call, (inner(found[0]), inner(found[1]), *found[2:]))
    return optional(result) if nullable and not isinstance(result, Wrong) else result


FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        function.name: function
        for group in (_operators, _logic, _numbers, _texts, _times, _lists, _records)
        for function in group()
    }
)
"""All functions by name."""

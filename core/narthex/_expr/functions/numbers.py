"""Operators, logic and `num.*`."""

from narthex._expr import type_rules
from narthex._expr.functions.definition import NOT_A_NUMBER, TOO_BIG, Function, Nulls
from narthex._expr.type_rules import Rule, gives
from narthex._ir.types import Bool, Decimal, Float, Int, Str

_NUMBER = (Int, Float)


def operators() -> tuple[Function, ...]:
    """Return the binary operators on numbers and on ordered types."""

    def binary(
        name: str, symbol: str, rule: Rule, promise: str, *, undefined: str = "", example: str = ""
    ) -> Function:
        both = "any two of a common type → `bool`" if rule is type_rules.equality else ""
        return Function(
            name=name,
            arguments=(2, 2),
            rule=rule,
            form=f"a {symbol} b",
            promise=promise,
            example=example or f'col("a") {symbol} col("b")',
            types=both,
            undefined=undefined,
            symbol=symbol,
        )

    no_sum = f"{TOO_BIG}; {NOT_A_NUMBER}"
    no_quotient = f"the divisor is 0; {no_sum}"
    return (
        binary(
            "add", "+", type_rules.arithmetic("+"), "The sum, or two texts joined", undefined=no_sum
        ),
        binary("sub", "-", type_rules.arithmetic("-"), "The difference", undefined=no_sum),
        binary("mul", "*", type_rules.arithmetic("*"), "The product", undefined=no_sum),
        binary(
            "div",
            "/",
            type_rules.division,
            "The quotient; x / 0 is infinite",
            undefined=f"0 / 0; {NOT_A_NUMBER}",
        ),
        binary(
            "floordiv",
            "//",
            type_rules.arithmetic("//"),
            "The quotient, rounded down; for floats the floor of the rounded quotient",
            undefined=no_quotient,
        ),
        binary(
            "mod",
            "%",
            type_rules.arithmetic("%"),
            "The remainder, with the divisor's sign: exact, as C's fmod, "
            "plus the divisor where signs differ",
            undefined=no_quotient,
        ),
        binary("eq", "==", type_rules.equality, "Whether both are equal"),
        binary("ne", "!=", type_rules.equality, "Whether both differ"),
        binary(
            "lt",
            "<",
            type_rules.ordering,
            "Whether the left is less; text by code point",
            example='col("s") < col("word")',
        ),
        binary("le", "<=", type_rules.ordering, "Whether the left is less or equal"),
        binary(
            "gt",
            ">",
            type_rules.ordering,
            "Whether the left is greater",
            example='col("t") > datetime(2013, 1, 1)',
        ),
        binary("ge", ">=", type_rules.ordering, "Whether the left is greater or equal"),
    )


def logic() -> tuple[Function, ...]:
    """Return the functions on bools, nulls and types."""
    return (
        Function(
            name="neg",
            arguments=(1, 1),
            rule=type_rules.same_number,
            form="-a",
            promise="The number with its sign changed",
            example='-col("a")',
            undefined=TOO_BIG,
        ),
        Function(
            name="and",
            arguments=(2, 2),
            rule=gives(Bool(), (Bool,), (Bool,)),
            form="p & q",
            promise="Whether both hold",
            example='col("yes") & col("unknown")',
            nulls=Nulls.KLEENE,
            symbol="&",
        ),
        Function(
            name="or",
            arguments=(2, 2),
            rule=gives(Bool(), (Bool,), (Bool,)),
            form="p | q",
            promise="Whether one of both holds",
            example='col("yes") | col("unknown")',
            nulls=Nulls.KLEENE,
            symbol="|",
        ),
        Function(
            name="not",
            arguments=(1, 1),
            rule=gives(Bool(), (Bool,)),
            form="~p",
            promise="Whether it does not hold",
            example='~col("yes")',
        ),
        Function(
            name="isnull",
            arguments=(1, 1),
            rule=lambda _call, _found: Bool(),
            form="a.isnull()",
            promise="Whether there is no value; never null itself",
            example='col("missing").isnull()',
            types="anything → `bool`",
            nulls=Nulls.OWN,
        ),
        Function(
            name="fillnull",
            arguments=(2, 2),
            rule=type_rules.fillnull,
            form="a.fillnull(value)",
            promise="The value, or another one where there is none",
            example='col("missing").fillnull(0)',
            types="`T?`, `U` → what both have in common",
            nulls=Nulls.OWN,
        ),
        Function(
            name="cast",
            arguments=(1, 1),
            rule=type_rules.cast,
            form="a.astype(T)",
            promise="The same value as a type to which it is promotable; the last call of all",
            example='col("a").astype(float)',
            types="`T` → a type to which it is promotable",
            nulls=Nulls.OWN,
            undefined="a decimal result needs more than 28 digits",
        ),
        Function(
            name="is_in",
            arguments=(2, None),
            rule=type_rules.equality,
            form="a.is_in([...])",
            promise="Whether it equals one of the values; null if one is null",
            example='col("word").is_in(["maybe", "never"])',
            types="as `==`, with each value → `bool`",
        ),
    )


def numbers() -> tuple[Function, ...]:
    """Return the functions of `num.*`."""

    def unary(
        name: str, rule: Rule, promise: str, undefined: str = "", *, column: str = "x"
    ) -> Function:
        return Function(
            name=f"num.{name}",
            arguments=(1, 1),
            rule=rule,
            form=f"a.num.{name}()",
            promise=promise,
            example=f'col("{column}").num.{name}()',
            undefined=undefined,
        )

    to_float, to_int = gives(Float(), _NUMBER), gives(Int(), _NUMBER)
    return (
        unary("abs", type_rules.same_number, "The distance from 0; also `a.abs()`", TOO_BIG),
        Function(
            name="num.round",
            arguments=(1, 1),
            rule=type_rules.rounded,
            form="a.num.round(precision=0)",
            promise="The nearest number with `precision` digits after the point, halves away from "
            "0; decided on the shortest decimal text of a float; also `a.round(precision)`",
            example='col("x").num.round()',
            undefined=TOO_BIG,
            options=("precision",),
        ),
        unary("ceil", to_int, "The least int that is not less; also `a.ceil()`", TOO_BIG),
        unary("floor", to_int, "The greatest int that is not greater; also `a.floor()`", TOO_BIG),
        unary("sqrt", to_float, "The square root", NOT_A_NUMBER),
        Function(
            name="num.log",
            arguments=(1, 1),
            rule=to_float,
            form="a.num.log(base=None)",
            promise="ln a, or ln a / ln base; of 0 it is -infinity",
            example="lit(100).num.log(10)",
            undefined=NOT_A_NUMBER,
            options=("base",),
        ),
        unary("sin", to_float, "The sine of radians", NOT_A_NUMBER),
        unary("cos", to_float, "The cosine of radians", NOT_A_NUMBER),
        unary("tan", to_float, "The tangent of radians", NOT_A_NUMBER),
        unary(
            "arcsin", to_float, "The angle in radians with that sine", NOT_A_NUMBER, column="half"
        ),
        unary(
            "arccos", to_float, "The angle in radians with that cosine", NOT_A_NUMBER, column="half"
        ),
        unary("arctan", to_float, "The angle in radians with that tangent", NOT_A_NUMBER),
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
            rule=type_rules.power,
            form="a.num.pow(exponent)",
            promise="The number to that power",
            example='col("a").num.pow(2)',
            undefined=f"an int to a negative power; {TOO_BIG}; {NOT_A_NUMBER}",
        ),
    )

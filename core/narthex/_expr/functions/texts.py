"""`str.*`."""

from narthex._expr import type_rules
from narthex._expr.functions.definition import Function
from narthex._expr.type_rules import Rule, gives
from narthex._ir.types import Bool, DataType, Datetime, Int, List, Optional, Str

_ACCENT = '"é"'


def _pure(name: str, result: DataType, promise: str, *others: str) -> Function:
    """Define a function of texts that is defined for every text."""
    return Function(
        name=f"str.{name}",
        arguments=(1 + len(others),) * 2,
        rule=gives(result, (Str,), (Str,)),
        form=f"s.str.{name}({', '.join(others)})",
        promise=promise,
        example=f'col("s").str.{name}({_ACCENT if others else ""})',
    )


def _read(  # noqa: PLR0913 (the parts of a definition)
    name: str,
    rule: Rule,
    *,
    form: str,
    promise: str,
    example: str,
    undefined: str,
    types: str = "",
) -> Function:
    """Define a function that parses a text."""
    return Function(
        name=f"str.{name}",
        arguments=(1, 1),
        rule=rule,
        form=form,
        promise=promise,
        example=example,
        types=types,
        undefined=undefined,
        options={"strptime": ("format", "timezone"), "json_extract": ("path",)}.get(name, ()),
    )


def texts() -> tuple[Function, ...]:
    """Return the functions of `str.*`."""
    return (
        _pure("len", Int(), "The number of characters (code points)"),
        _pure("lower", Str(), "The text in lower case, by the table of Unicode 14"),
        _pure("upper", Str(), "The text in upper case, by the table of Unicode 14"),
        _pure("concat", Str(), "Both texts joined", "other"),
        _pure("contains", Bool(), "Whether the other occurs in it", "other"),
        _pure("startswith", Bool(), "Whether it begins with the other", "other"),
        _pure("endswith", Bool(), "Whether it ends with the other", "other"),
        Function(
            name="str.split",
            arguments=(1, 1),
            rule=gives(List(Str()), (Str,)),
            form="s.str.split(sep)",
            promise="The parts between separators; of an empty text, one empty part",
            example='col("s").str.split(", ")',
            options=("sep",),
        ),
        _read(
            "json_extract",
            gives(Optional(Str()), (Str,)),
            form="s.str.json_extract(path)",
            promise="The first value that the path leads to in JSON: a text as it is, anything "
            "else as JSON; null is null",
            example='col("json").str.json_extract("$.Ada.tags[-1]")',
            undefined="the text is not JSON; the path leads to nothing",
        ),
        _read(
            "strptime",
            type_rules.in_zone(gives(Datetime(), (Str,))),
            form='s.str.strptime(format, timezone="UTC")',
            promise="The instant that it names in that format; where clocks of the zone show the "
            "time twice, the first one",
            example='col("day").str.strptime("%Y-%m-%d", "Europe/Paris")',
            undefined="the text is not of that format; it names no instant, or a time that clocks "
            "of the zone never show",
        ),
        _read(
            "parse",
            type_rules.parsed,
            form="s.str.parse(T)",
            promise="The value that it holds as JSON; a number for an int is cut at its point, "
            "instants, days and decimals are written as where rows enter; an Optional member that "
            "is missing is null",
            example='col("json").str.parse(Dict[str, Visitor])',
            types="`str` → `T`, any type but `bytes`",
            undefined="the text is not JSON, or holds a value of another type",
        ),
    )

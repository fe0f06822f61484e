"""An expression as an author would write it, for messages; it parses back to the same value."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias, assert_never

from narthex._base.times import DAY_US, HOUR_US, MINUTE_US, SECOND_US, from_micros
from narthex._expr.functions import FUNCTIONS
from narthex._expr.time_zones import has_year
from narthex._ir.expression_nodes import Call, Case, Literal, LiteralValue, Node, Ref, Var
from narthex._ir.type_names import type_name
from narthex._ir.types import (
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    Members,
    Null,
    Str,
    Struct,
    TypeMapper,
)

_Write: TypeAlias = Callable[[LiteralValue], str]
"""Renders a constant of one type as Python."""

_DURATIONS = {"d": DAY_US, "h": HOUR_US, "m": MINUTE_US}
_OWN_TYPE: Mapping[type, type] = MappingProxyType(
    {bool: Bool, int: Int, float: Float, str: Str, bytes: Bytes, type(None): Null}
)


def render(node: Node) -> str:
    """Render an expression as Python."""
    match node:
        case Ref(name=name):
            return f"col({_quoted(name)})"
        case Var(name=name):
            return f"var({_quoted(name)})"
        case Literal():
            return render_literal(node)
        case Call():
            return _render_call(node)
        case Case():
            branches = ".".join(
                f"when({render(branch.condition)}).then({render(branch.value)})"
                for branch in node.branches
            )
            return f"{branches}.otherwise({render(node.otherwise)})"
        case _:
            assert_never(node)


def render_literal(literal: Literal) -> str:
    """Render a constant, with its type if the value does not show it."""
    dtype, value = literal.type, literal.value
    if isinstance(dtype, Datetime) and isinstance(value, int):
        if not has_year(value):
            return f'from_epoch(lit({value}), unit="microsecond")'
        instant = from_micros(value)
        parts = [instant.hour, instant.minute, instant.second, instant.microsecond]
        while parts and parts[-1] == 0:
            parts.pop()
        clock = [instant.year, instant.month, instant.day, *parts]
        return f"datetime({', '.join(map(str, clock))})"
    written = _VALUES(dtype)(value)
    own = isinstance(dtype, Date) or _OWN_TYPE.get(type(value)) is type(dtype)
    if isinstance(dtype, Decimal) and isinstance(value, int):
        own = value % 10 != 0 or dtype.scale == 1
    return f"lit({written})" if own else f"lit({written}, {type_name(dtype)})"


def render_value(value: LiteralValue, dtype: DataType) -> str:
    """Render a value of a type as Python, such as `datetime.fromisoformat("…")` for an instant."""
    return "None" if value is None else _VALUES(dtype)(value)


def _written_datetime(value: LiteralValue) -> str:
    if not isinstance(value, int):
        return _quoted(value)
    return f'datetime.fromisoformat("{from_micros(value).isoformat()}")'


def _written_date(value: LiteralValue) -> str:
    if not isinstance(value, int):
        return _quoted(value)
    return f'date.fromisoformat("{from_micros(value * DAY_US).date().isoformat()}")'


def _written_decimal(dtype: Decimal) -> _Write:
    def write(value: LiteralValue) -> str:
        if not isinstance(value, int):
            return _quoted(value)
        return f'decimal("{_unscaled(value, dtype.scale)}")'

    return write


def _written_list(_: List | Embedding, item: _Write) -> _Write:
    def write(value: LiteralValue) -> str:
        if not isinstance(value, tuple):
            return _quoted(value)
        return f"[{', '.join(map(item, value))}]"

    return write


def _written_map(_: Map, member: _Write) -> _Write:
    def write(value: LiteralValue) -> str:
        if not isinstance(value, tuple):
            return _quoted(value)
        pairs = [entry for entry in value if isinstance(entry, tuple)]
        return f"{{{', '.join(f'{_quoted(key)}: {member(item)}' for key, item in pairs)}}}"

    return write


def _written_struct(_: Struct, members: Members[_Write]) -> _Write:
    def write(value: LiteralValue) -> str:
        if not isinstance(value, tuple):
            return _quoted(value)
        pairs = zip(members.items(), value, strict=True)
        inside = (f"{_quoted(name)}: {member(item)}" for (name, member), item in pairs)
        return f"{{{', '.join(inside)}}}"

    return write


def _unscaled(value: int, scale: int) -> str:
    digits = str(abs(value)).rjust(scale + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _quoted(value: LiteralValue) -> str:
    if isinstance(value, str):
        quoted = repr(value)
        return quoted if '"' in value else '"' + quoted[1:-1].replace("\\'", "'") + '"'
    if isinstance(value, float) and repr(value) in {"inf", "-inf", "nan"}:
        return f'float("{value!r}")'
    return repr(value)


_VALUES: TypeMapper[_Write] = TypeMapper(
    int=_quoted,
    float=_quoted,
    bool=_quoted,
    str=_quoted,
    bytes=_quoted,
    datetime=_written_datetime,
    date=_written_date,
    decimal=_written_decimal,
    list=_written_list,
    map=_written_map,
    embedding=_written_list,
    struct=_written_struct,
    null=lambda: _quoted,
)


def _render_call(call: Call) -> str:  # noqa: C901 (one case a form)
    arguments = [render(argument) for argument in call.arguments]
    function = FUNCTIONS.get(call.function)
    if function is not None and function.symbol and len(arguments) == 2:  # noqa: PLR2004 (binary)
        return f"({arguments[0]} {function.symbol} {arguments[1]})"
    match call.function, arguments:
        case "neg", [only]:
            return f"-{only}"
        case "not", [only]:
            return f"~{only}"
        case "now", []:
            return "now()"
        case "cast", [only]:
            return only
        case "is_in", [first, *rest]:
            return f"{_owner(first)}.is_in([{', '.join(rest)}])"
        case "repeat", [value, by]:
            return f"repeat({value}, {by})"
        case (("struct.make" | "list.zip"), _):
            return _render_members(call, arguments)
        case "from_epoch", [only]:
            return f"from_epoch({only}, {_options(call)})"
        case _:
            return _render_method(call, arguments)


def _render_members(call: Call, arguments: list[str]) -> str:
    target = call.target
    fields = target.fields if isinstance(target, Struct) else ()
    members = ", ".join(
        f"{field.name}={argument}" for field, argument in zip(fields, arguments, strict=False)
    )
    maker = "expr" if call.function == "struct.make" else "zip"
    return f"{'?' if target is None else type_name(target)}.{maker}({members})"


def _options(call: Call) -> str:
    return ", ".join(f"{option}={_quoted(value)}" for option, value in call.options)


def _render_method(call: Call, arguments: list[str]) -> str:
    options = dict(call.options)
    owner, inside = (_owner(arguments[0]), arguments[1:]) if arguments else ("?", [])
    space, _, name = call.function.partition(".")
    zone = options.pop("timezone", None)
    if space == "dt":
        space += "" if zone is None else f".with_tz({_quoted(zone)})"
        if not inside and not options:
            return f"{owner}.{space}.{name}"
    elif zone is not None:
        options["timezone"] = zone
    if call.target is not None:
        inside.append(type_name(call.target))
    if "var" in options:
        inside.insert(0, _quoted(options.pop("var")))
    if isinstance(duration := options.pop("duration_us", None), int):
        inside.append(f'"{_duration(duration)}"')
    inside += [f"{option}={_quoted(value)}" for option, value in options.items()]
    method = f"{space}.{name}" if name else space
    return f"{owner}.{method}({', '.join(inside)})"


def _owner(written: str) -> str:
    """Return an expression for use before a dot, which binds tighter than a sign."""
    return f"({written})" if written.startswith(("-", "~")) else written


def _duration(span_us: int) -> str:
    parts: list[str] = []
    for unit, unit_us in _DURATIONS.items():
        count, span_us = divmod(span_us, unit_us)
        parts += [f"{count}{unit}"] if count else []
    seconds, micros = divmod(span_us, SECOND_US)
    if span_us or not parts:
        fraction = f".{micros:06}".rstrip("0") if micros else ""
        parts.append(f"{seconds}{fraction}s")
    return " ".join(parts)

"""An expression as an author would write it, for messages."""

from typing import assert_never

from narthex.expr.functions import FUNCTIONS
from narthex.expr.nodes import Call, Case, Literal, LiteralValue, Node, Ref
from narthex.rendered_types import type_name
from narthex.times import from_micros
from narthex.types import Date, Datetime, Decimal

_DURATION = "duration_us"
_EPOCH_DAY_US = 86_400_000_000


def render(node: Node) -> str:
    """Render an expression as Python; it reads back as the same expression where it can."""
    match node:
        case Ref(name=name):
            return f'col("{name}")'
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
    """Render a constant; instants and days as ISO text."""
    value = literal.value
    if isinstance(value, int) and not isinstance(value, bool):
        match literal.type:
            case Datetime():
                return f"lit({from_micros(value).isoformat()})"
            case Date():
                return f"lit({from_micros(value * _EPOCH_DAY_US).date().isoformat()})"
            case Decimal(scale=scale):
                return f"lit({value}e-{scale})"
            case _:
                return f"lit({value})"
    return f"lit({_quoted(value)})"


def _quoted(value: LiteralValue) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


def _render_call(call: Call) -> str:
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
            return f"{first}.is_in([{', '.join(rest)}])"
        case _:
            return _render_method(call, arguments)


def _render_method(call: Call, arguments: list[str]) -> str:
    name = call.function.removeprefix("num.") if call.function == "num.abs" else call.function
    inside = arguments[1:]
    if call.target is not None:
        inside.append(type_name(call.target))
    inside += [f"{option}={_quoted(value)}" for option, value in call.options]
    if call.function == "from_epoch":
        return f"from_epoch({', '.join([*arguments[:1], *inside])})"
    owner = arguments[0] if arguments else "?"
    return f"{owner}.{name}({', '.join(inside)})"

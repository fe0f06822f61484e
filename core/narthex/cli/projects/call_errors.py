# mypy: disable-error-code="explicit-any"
"""Calls of an author's file whose arguments do not fit one of our functions."""

import inspect
import re
import traceback
from collections.abc import Callable
from typing import Final

import attrs

from narthex._ir.node_schema import did_you_mean, listed

_MISSING: Final = re.compile(r"(?:\w+\.)*(\w+)\(\) missing \d+ required [\w-]+ arguments?: (.+)")
_UNKNOWN: Final = re.compile(r"(?:\w+\.)*(\w+)\(\) got an unexpected keyword argument '(\w+)'")
_NAME: Final = re.compile(r"'(\w+)'")


@attrs.frozen
class CallError:
    """The mistake in a call, and the remedy."""

    message: str
    hint: str


def explain_call(error: TypeError) -> CallError | None:
    """Explain an error of Python about the arguments of a call of ours; None for other calls."""
    text = str(error)
    missing, unknown = _MISSING.fullmatch(text), _UNKNOWN.match(text)
    if missing is not None:
        function = _called(error, missing[1])
        names = _NAME.findall(missing[2])
        if function is None or not names:
            return None
        meaning = _documented(function, names[0])
        return CallError(
            f"`{missing[1]}` needs {listed(names)}",
            f"pass `{names[0]}`{meaning and f': {meaning}'}",
        )
    if unknown is not None:
        function = _called(error, unknown[1])
        if function is None:
            return None
        known = [name for name in inspect.signature(function).parameters if name != "self"]
        return CallError(
            f"`{unknown[1]}` has no argument `{unknown[2]}`",
            did_you_mean(unknown[2], known) or f"its arguments are {listed(known)}",
        )
    return None


def _called(error: TypeError, name: str) -> Callable[..., object] | None:
    """Return our function of that name that the author's file calls."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        found = frame.f_globals.get(name)
        if callable(found) and str(getattr(found, "__module__", "")).startswith("narthex."):
            function: Callable[..., object] = found
            return function
    return None


def _documented(function: Callable[..., object], parameter: str) -> str:
    """Return the description of a parameter in a docstring; empty without one."""
    described = re.search(
        rf"^    {parameter}: (.+(?:\n {{6,}}.+)*)", inspect.getdoc(function) or "", re.MULTILINE
    )
    if described is None:
        return ""
    text = " ".join(described[1].split()).rstrip(".")
    return text[0].lower() + text[1:]

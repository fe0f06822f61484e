# mypy: disable-error-code="explicit-any"
"""Text of an author's code as functions, executed anew for each call; nothing else does that."""

import functools
import traceback
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Final, TypeAlias

FILE: Final = "<author>"
"""What the text that travelled is called in tracebacks."""

KEPT: Final = 256
"""How many texts are kept in compiled form."""

Entry: TypeAlias = Callable[..., object]
"""A function of an author."""


def entry_of(header: Mapping[str, object]) -> Entry:
    """Return the function of a call, from a namespace that no other call has.

    So what a call leaves in its module's names is gone with it.
    """
    namespace: dict[str, object] = {"__name__": "author", "__builtins__": __builtins__}
    exec(_compiled(str(header["source"])), namespace)  # noqa: S102
    return callable_in(namespace, str(header["entry"]))


@functools.lru_cache(maxsize=KEPT)
def _compiled(source: str) -> CodeType:
    return compile(source, FILE, "exec", dont_inherit=True)


def callable_in(namespace: dict[str, object], name: str) -> Entry:
    """Return the function of that name that a module defines."""
    entry = namespace[name]
    if not callable(entry):
        message = f"`{name}` is not a function"
        raise TypeError(message)
    return entry


def outputs_of(header: Mapping[str, object]) -> list[list[object]]:
    """Return the declared columns of a call: pairs of a name and an Arrow type as text."""
    declared = header["outputs"]
    return declared if isinstance(declared, list) else []


def told(error: BaseException, header: Mapping[str, object]) -> dict[str, object]:
    """Describe an error of an author's code by its line in the text that travelled."""
    if isinstance(error, SyntaxError) and error.filename == FILE:
        line = error.lineno or 0
    else:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [one.lineno or 0 for one in frames if one.filename == FILE]
        line = lines[-1] if lines else 0
    return {
        "kind": "error",
        "error": type(error).__name__[:200],
        "message": str(error)[:2000],
        "line": line,
        "text": _text(header, line),
    }


def _text(header: Mapping[str, object], line: int) -> str:
    lines = str(header.get("source", "")).splitlines()
    return lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ""

# mypy: disable-error-code="explicit-any"
"""The only place that executes the text of author code, anew for each call."""

import functools
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Final, TypeAlias

FILE: Final = "<author>"
"""The file name of author code in tracebacks."""

KEPT: Final = 256
"""The number of texts that are cached in compiled form."""

GREATEST_MESSAGE: Final = 2000
"""The number of characters that are sent of an error's message."""
GREATEST_ERRORS_BYTES: Final = 1 << 15
"""The size of all errors of one answer, as JSON: half of the greatest header of an answer."""

Entry: TypeAlias = Callable[..., object]
"""A function of an author."""


def entry_of(header: Mapping[str, object]) -> Entry:
    """Return the function of a call, in a namespace that no other call shares.

    So the changes of a call to its module's names end with the call.
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
    """Return the declared columns of a call as pairs of a name and an Arrow type as text."""
    declared = header["outputs"]
    return declared if isinstance(declared, list) else []


def describe_error(error: BaseException, header: Mapping[str, object]) -> dict[str, object]:
    """Describe an error of author code by its line in the text that was sent."""
    if isinstance(error, SyntaxError) and error.filename == FILE:
        line = error.lineno or 0
    else:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno or 0 for frame in frames if frame.filename == FILE]
        line = lines[-1] if lines else 0
    return {
        "kind": "error",
        "error": type(error).__name__[:200],
        "message": str(error)[:GREATEST_MESSAGE],
        "line": line,
        "text": _text(header, line),
    }


def shorten_errors(errors: Sequence[tuple[int, dict[str, object]]]) -> list[list[object]]:
    """Return the errors of single rows, each as place, type, message, line and its text.

    Messages and texts are cut until all of them fit into the header of one answer.
    """
    most = GREATEST_MESSAGE
    while True:
        found: list[list[object]] = [
            [at, _cut(e["error"], most), _cut(e["message"], most), e["line"], _cut(e["text"], most)]
            for at, e in errors
        ]
        if most == 0 or len(json.dumps(found)) <= GREATEST_ERRORS_BYTES:
            return found
        most //= 2


def _cut(text: object, most: int) -> str:
    return str(text)[:most]


def _text(header: Mapping[str, object], line: int) -> str:
    lines = str(header.get("source", "")).splitlines()
    return lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ""

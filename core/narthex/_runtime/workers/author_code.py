# mypy: disable-error-code="explicit-any"
"""The only place that executes the text of author code, anew for each call."""

import functools
import itertools
import json
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


def describe_error(error: BaseException) -> dict[str, object]:
    """Describe an error of author code by the place in the text that ran.

    `place` has the first and last line of the expression that failed, and its first and last
    column; each is 0 if it is not known.
    """
    return {
        "kind": "error",
        "error": type(error).__name__[:200],
        "message": str(error)[:GREATEST_MESSAGE],
        "place": _place_of(error),
    }


def _place_of(error: BaseException) -> list[int]:
    if isinstance(error, SyntaxError) and error.filename == FILE:
        line = error.lineno or 0
        return [line, line, 0, 0]
    found = [0, 0, 0, 0]
    at = error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        if code.co_filename == FILE:
            span = next(itertools.islice(code.co_positions(), at.tb_lasti // 2, None))
            found = [one or 0 for one in span]
        at = at.tb_next
    return found


def shorten_errors(errors: Sequence[tuple[int, dict[str, object]]]) -> list[list[object]]:
    """Return the errors of single rows, each as its number, type, message and place.

    Messages are cut until all of them fit into the header of one answer.
    """
    most = GREATEST_MESSAGE
    while True:
        found: list[list[object]] = [
            [at, _cut(e["error"], most), _cut(e["message"], most), e["place"]] for at, e in errors
        ]
        if most == 0 or len(json.dumps(found)) <= GREATEST_ERRORS_BYTES:
            return found
        most //= 2


def _cut(text: object, most: int) -> str:
    return str(text)[:most]

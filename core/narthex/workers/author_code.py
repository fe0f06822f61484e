# mypy: disable-error-code="explicit-any"
"""Text of an author's code as functions, each module executed once; the one place that does so."""

import traceback
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

FILE: Final = "<author>"
"""What the text that travelled is called in tracebacks."""

Entry: TypeAlias = Callable[..., object]
"""A function of an author."""


class Codes:
    """Authors' modules, each executed once."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.sources: dict[str, str] = {}

    def entry(self, header: Mapping[str, object]) -> Entry:
        """Give the function of a call; its source comes with the first one."""
        key = str(header["tree"])
        if key not in self.entries:
            source, name = str(header["source"]), str(header["entry"])
            namespace: dict[str, object] = {"__name__": "author", "__builtins__": __builtins__}
            exec(compile(source, FILE, "exec", dont_inherit=True), namespace)  # noqa: S102
            self.entries[key] = callable_in(namespace, name)
        self.sources[key] = str(header["source"])
        return self.entries[key]


def callable_in(namespace: dict[str, object], name: str) -> Entry:
    """Give the function of that name that a module defines."""
    entry = namespace[name]
    if not callable(entry):
        message = f"`{name}` is no function"
        raise TypeError(message)
    return entry


def outputs_of(header: Mapping[str, object]) -> list[list[object]]:
    """Give the declared columns of a call: pairs of a name and an Arrow type as text."""
    declared = header["outputs"]
    return declared if isinstance(declared, list) else []


def told(error: BaseException, codes: Codes, header: Mapping[str, object]) -> dict[str, object]:
    """Describe an error of an author's code by its line in the text that travelled."""
    if isinstance(error, SyntaxError) and error.filename == FILE:
        line = error.lineno or 0
    else:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [one.lineno or 0 for one in frames if one.filename == FILE]
        line = lines[-1] if lines else 0
    return {
        "kind": "error",
        "error": type(error).__name__,
        "message": str(error)[:2000],
        "line": line,
        "text": _text(codes, header, line),
    }


def _text(codes: Codes, header: Mapping[str, object], line: int) -> str:
    source = codes.sources.get(str(header["tree"]), str(header.get("source", "")))
    lines = source.splitlines()
    return lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ""

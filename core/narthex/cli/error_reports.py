"""Errors as a terminal shows them: with the line of the author's file, and without tracebacks."""

import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from narthex.errors import DefinitionErrors, NarthexError, count_of_mistakes

_QUOTED: Final = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"")
_TOKEN: Final = re.compile(r"(--token[ =])\S+")
_PLACE: Final = "  --> "
_RED, _BLUE, _BOLD, _PLAIN = "\x1b[31m", "\x1b[34m", "\x1b[1m", "\x1b[0m"


def shown_error(error: NarthexError | DefinitionErrors) -> str:
    """Render an error, or all errors of definitions, for stderr."""
    if isinstance(error, DefinitionErrors):
        return shown_errors(error.exceptions_flat())
    return _shown(error, has_colour(sys.stderr, os.environ))


def shown_errors(errors: Sequence[NarthexError]) -> str:
    """Render many errors for stderr: each in full, then their number."""
    in_colour = has_colour(sys.stderr, os.environ)
    return "\n\n".join(
        [*(_shown(error, in_colour) for error in errors), *count_of_mistakes(errors)]
    )


def has_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether a stream shows colours: a terminal does unless `NO_COLOR` is set."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def log_crash(error: Exception) -> str:
    """Write the traceback of an unforeseen error into a file, and return the message about it."""
    called = _TOKEN.sub(r"\1…", " ".join(sys.argv[1:]))
    descriptor, name = tempfile.mkstemp(prefix="narthex-", suffix=".log")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"narthex {called}\n")
        file.writelines(traceback.format_exception(error))
    return (
        f"narthex failed, which is a mistake of its own: {type(error).__name__}: {error}\n\n"
        f"hint: report it with the file {name}"
    )


def excerpt(error: NarthexError) -> tuple[str, ...]:
    """Return the line that an error is about, and a mark below what its message names in it.

    The result is empty if the file is not on this machine.
    """
    source = _source_line(Path(error.origin.file), error.origin.line)
    if source is None:
        return ()
    number = str(error.origin.line)
    margin = " " * len(number)
    lines = [f"{margin} |", f"{number} | {source}"]
    marked = _mark(source, error.message)
    if marked:
        lines.append(f"{margin} | {marked}")
    return tuple(lines)


def _shown(error: NarthexError, in_colour: bool) -> str:
    lines: list[str] = []
    for line in error.render().splitlines():
        lines.append(line)
        if line.startswith(_PLACE):
            lines += excerpt(error)
    return "\n".join(_coloured(lines, error) if in_colour else lines)


def _coloured(lines: Iterable[str], error: NarthexError) -> Iterable[str]:
    code = f"[{error.code}]"
    for line in lines:
        bar, _, rest = line.partition(" | ")
        if line.startswith(code):
            yield f"{_RED}{_BOLD}{code}{_PLAIN}{_BOLD}{line.removeprefix(code)}{_PLAIN}"
        elif line.startswith(_PLACE):
            yield f"{_BLUE}{_PLACE}{_PLAIN}{line.removeprefix(_PLACE)}"
        elif rest and not rest.strip(" ^"):
            yield f"{_BLUE}{bar} |{_PLAIN} {_RED}{rest}{_PLAIN}"
        else:
            yield line


def _source_line(file: Path, number: int) -> str | None:
    if file.suffix != ".py" or number < 1:
        return None
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    return lines[number - 1].expandtabs() if number <= len(lines) else None


def _mark(source: str, message: str) -> str:
    """Return carets below the last thing that a message quotes and the line has.

    Messages go from the operator or the argument to what is wrong with it.
    """
    for quoted in reversed(list(_QUOTED.finditer(message))):
        text = quoted[1] or quoted[2]
        found = re.search(rf"(?<!\w){re.escape(text)}(?!\w)", source)
        if found:
            return " " * found.start() + "^" * len(text)
    return ""

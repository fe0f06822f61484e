"""The output of commands: tables, facts and sentences for people, JSON for programs.

Data goes to stdout, everything else to stderr. Texts may be other people's, so characters that
control a terminal are shown as escapes.
"""

import json
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final

import typer

from narthex._base.records import Json

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
AsJsonLines = Annotated[
    bool, typer.Option("--json", help="Print one JSON object per line on stdout.")
]

_GAP: Final = "  "
_CONTROL: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS: Final = "\u200c\u200d"
"""Parts of words and emojis, which control nothing."""


def print_line(line: str) -> None:
    """Print one line of data on stdout; it may have tabs."""
    text = "\t".join(map(printable, line.split("\t")))
    sys.stdout.write(f"{text}\n")


def print_json(value: Json) -> None:
    """Print data as a JSON document on stdout."""
    sys.stdout.write(f"{json.dumps(value, indent=2)}\n")


def print_json_line(value: Json) -> None:
    """Print one JSON object of a stream, on one line of stdout."""
    print_line(json.dumps(value))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Json]], *, empty: str) -> None:
    """Print a table on stdout, or, without rows, the sentence `empty` on stderr."""
    lines = [*rows]
    if not lines:
        tell(empty)
        return
    for line in table(headings, lines):
        print_line(line)


def print_facts(facts: Iterable[tuple[str, Json]]) -> None:
    """Print the names and values of one thing on stdout, a line each; empty values are left out.

    A pair without a name continues the one before.
    """
    shown = [(name.replace("_", " "), cell(value)) for name, value in facts]
    kept = [(printable(name), text) for name, text in shown if text]
    width = max((_width(name) for name, _ in kept), default=0)
    for name, text in kept:
        print_line(f"{_padded(name, width)}{_GAP}{text}")


def print_done(done: Json, message: str, *, as_json: bool) -> None:
    """Print what a command did: the answer as JSON on stdout, or a sentence on stderr."""
    if as_json:
        print_json(done)
    else:
        tell(message)


def tell(message: str) -> None:
    """Print a message for people on stderr."""
    sys.stderr.write(f"{message}\n")


def table(headings: Sequence[str], rows: Sequence[Sequence[Json]]) -> Iterator[str]:
    """Yield the lines of a table: headings, then rows; columns of numbers are on the right."""
    texts = [[printable(one) for one in headings], *([cell(one) for one in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*texts, strict=True)]
    numeric = [all(map(_is_number, column)) for column in zip(*rows, strict=True)]
    for line in texts:
        yield _GAP.join(
            _padded(text, width, to_the_right=right)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()


def cell(value: Json) -> str:
    """Return a value as people read it: a list of words as its words, an object as JSON."""
    match value:
        case None:
            return ""
        case str():
            return printable(value)
        case list() if not any(isinstance(one, list | dict) for one in value):
            return ", ".join(map(cell, value))
        case _:
            return json.dumps(value)


def printable(text: str) -> str:
    """Return a text in which every character that controls a terminal is an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def objects_of(value: Json) -> list[dict[str, Json]]:
    """Return the objects of a list in an answer; none if it is not a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def object_of(value: Json) -> Mapping[str, Json]:
    """Return an object in an answer; an empty one if it is something else."""
    return value if isinstance(value, dict) else {}


def list_of(value: Json) -> list[Json]:
    """Return a list in an answer; an empty one if it is something else."""
    return value if isinstance(value, list) else []


def _visible(character: str) -> str:
    if unicodedata.category(character) not in _CONTROL or character in _JOINERS:
        return character
    return character.encode("unicode_escape").decode()


def _is_number(value: Json) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _width(text: str) -> int:
    """Return how many columns of a terminal a text fills."""
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(one) in "WF" else not unicodedata.combining(one)
        for one in text
    )


def _padded(text: str, width: int, *, to_the_right: bool = False) -> str:
    space = " " * (width - _width(text))
    return f"{space}{text}" if to_the_right else f"{text}{space}"

"""Map a place in the text that ran to the line of the author's file."""

import ast
import functools
from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from narthex._base.canonical_source import canonical_tree
from narthex._base.origin import Origin
from narthex._ir.code import UserCode

Place: TypeAlias = tuple[int, int, int, int]
"""An expression in a text: its first and last line, its first and last column; 0 if unknown."""

UNKNOWN: Final[Place] = (0, 0, 0, 0)

_SHOWN: Final = 200


@attrs.frozen
class AuthorLine:
    """A line of an author.

    Attributes:
        origin: Its place in the author's file; for a line of a function that the entry uses, the
            entry's.
        text: The line, without margins; empty if it is not known.
    """

    origin: Origin
    text: str


def author_line(code: UserCode, place: Place) -> AuthorLine:
    """Return the author's line for a place in the text that ran."""
    line = _author_line(code, place) if code.written else place[0]
    lines = code.author_text.splitlines()
    text = lines[line - 1].strip()[:_SHOWN] if 0 < line <= len(lines) else ""
    span = _entry_lines(code.author_text, code.entry)
    if span is None or not span[0] <= line <= span[1]:
        return AuthorLine(code.origin, text)
    origin = Origin(file=code.origin.file, line=code.origin.line + line - span[0])
    return AuthorLine(origin, text)


def _author_line(code: UserCode, place: Place) -> int:
    """Return the author's line of an expression, or else of the last one that begins before it."""
    lines = _lines(code.source, code.written)
    if place in lines or place == UNKNOWN:
        return lines.get(place, 0)
    before = [pair for pair in lines.items() if pair[0][0] <= place[0]]
    return max(before, default=(UNKNOWN, 0))[1]


@functools.lru_cache(maxsize=256)
def _lines(source: str, written: str) -> Mapping[Place, int]:
    """Return the author's line for each place of a statement or an expression in the text."""
    pairs = zip(ast.walk(canonical_tree(source)), ast.walk(canonical_tree(written)), strict=True)
    return {
        (ran.lineno, ran.end_lineno or 0, ran.col_offset, ran.end_col_offset or 0): _line(author)
        for ran, author in pairs
        if isinstance(ran, ast.stmt | ast.expr) and isinstance(author, ast.stmt | ast.expr)
    }


def _line(node: ast.stmt | ast.expr) -> int:
    """Return the line that Python names for a node: that of the method's name for its call."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.end_lineno or node.lineno
    return node.lineno


@functools.lru_cache(maxsize=256)
def _entry_lines(source: str, entry: str) -> tuple[int, int] | None:
    for node in reversed(ast.parse(source).body):
        names = [node.name] if isinstance(node, ast.FunctionDef) else _targets(node)
        if entry in names:
            return node.lineno, node.end_lineno or node.lineno
    return None


def _targets(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []

"""Map a line of the text that was sent to the line in the author's file."""

import ast
import functools

from narthex._base.origin import Origin
from narthex._ir.code import UserCode


def place_of(code: UserCode, line: int) -> Origin:
    """Return the author's line; for a line of a function that the entry uses, the entry's line."""
    span = _entry_lines(code.source, code.entry)
    if span is None or not span[0] <= line <= span[1]:
        return code.origin
    return Origin(file=code.origin.file, line=code.origin.line + line - span[0])


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

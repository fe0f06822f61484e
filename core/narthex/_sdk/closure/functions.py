"""Find the source of a function: its file and its lines."""

import ast
import functools
import linecache
import textwrap
from types import CodeType, FunctionType
from typing import TypeAlias

import attrs

from narthex._authoring.source_locations import parsed, place
from narthex._base.origin import Origin
from narthex.errors import CodeNotFound

SourceSpan: TypeAlias = tuple[int | None, int | None, int | None, int | None]


@attrs.frozen(kw_only=True, eq=False)
class SourceFile:
    """A file with its syntax tree.

    Attributes:
        lines: Its text, each line with its end.
        functions: All functions, at any depth.
    """

    file: str
    tree: ast.Module
    lines: tuple[str, ...]
    functions: tuple[ast.FunctionDef | ast.Lambda, ...]

    def segment(self, node: ast.stmt | ast.expr, *, decorators: bool = False) -> str:
        """Return the text of a node, moved to the left edge."""
        first = node.lineno
        if decorators and isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([first, *(decorator.lineno for decorator in node.decorator_list)])
        last = node.end_lineno or first
        return textwrap.dedent("".join(self.lines[first - 1 : last])).rstrip() + "\n"

    def expression(self, node: ast.expr) -> str:
        """Return the text of an expression alone."""
        if node.end_lineno is None or node.end_col_offset is None:
            return ast.unparse(node)
        lines = [line.encode() for line in self.lines[node.lineno - 1 : node.end_lineno]]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"".join(lines).decode()

    def assignments(self, name: str) -> list[ast.Assign | ast.AnnAssign | None]:
        """Return the statements that bind a name at the top of the file; None represents any other
        statement.
        """
        statements: list[ast.Assign | ast.AnnAssign | None] = []
        for node in _module_level(self.tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                    statements.append(node)
                case ast.AnnAssign(target=ast.Name(id=target)) if target == name:
                    statements.append(node)
                case ast.stmt() if name in _stored(node):
                    statements.append(None)
        return statements


def _module_level(tree: ast.Module) -> list[ast.stmt]:
    return [
        node
        for node in tree.body
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)
    ]


def _stored(node: ast.stmt) -> frozenset[str]:
    return frozenset(
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    )


@functools.lru_cache(maxsize=64)
def _parsed(file: str, text: str) -> SourceFile | None:
    tree = parsed(text)
    if tree is None:
        return None
    return SourceFile(
        file=file,
        tree=tree,
        lines=tuple(f"{line}\n" for line in text.split("\n")),
        functions=tuple(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda)),
    )


def source_file(file: str, *, origin: Origin, what: str) -> SourceFile:
    """Read an author's file.

    Raises:
        CodeNotFound: The text does not exist.
    """
    text = "".join(linecache.getlines(file))
    found = _parsed(file, text) if text else None
    if found is None:
        raise CodeNotFound(
            f"the source of {what} cannot be read",
            origin=origin,
            hint="write the definition in a file",
        )
    return found


def find_function(function: FunctionType) -> tuple[SourceFile, ast.FunctionDef | ast.Lambda]:
    """Find the source text of a function.

    A lambda is found by the exact positions of its code, so two on one line are distinguished.

    Raises:
        CodeNotFound: The text does not exist, or the position in it is ambiguous.
    """
    code = function.__code__
    origin = place(code.co_filename, code.co_firstlineno)
    what = f"`{function.__name__}`"
    file = source_file(code.co_filename, origin=origin, what=what)
    found = _lambdas(file, code) if function.__name__ == "<lambda>" else _defs(file, code)
    if len(found) != 1:
        raise CodeNotFound(
            f"the source of {what} is not clear: the file has {len(found)} functions there",
            origin=origin,
            hint="define the function with `def` and pass its name",
        )
    return file, found[0]


def _lambdas(file: SourceFile, code: CodeType) -> list[ast.FunctionDef | ast.Lambda]:
    spans: set[SourceSpan] = set(code.co_positions())
    nearby = [
        node
        for node in file.functions
        if isinstance(node, ast.Lambda) and node.lineno <= code.co_firstlineno + 1
    ]
    exact = [node for node in nearby if _span(node.body) in spans]
    outermost = [node for node in exact if not any(_inside(node, other) for other in exact)]
    if outermost:
        return [*outermost]
    return [node for node in nearby if node.lineno == code.co_firstlineno]


def _span(node: ast.expr) -> SourceSpan:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _inside(node: ast.Lambda, other: ast.Lambda) -> bool:
    return node is not other and any(inner is node for inner in ast.walk(other.body))


def _defs(file: SourceFile, code: CodeType) -> list[ast.FunctionDef | ast.Lambda]:
    return [
        node
        for node in file.functions
        if isinstance(node, ast.FunctionDef)
        and node.name == code.co_name
        and code.co_firstlineno
        == min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    ]


def find_class(cls: type) -> tuple[SourceFile, ast.ClassDef] | None:
    """Return the text of a class at the top of its module."""
    module = linecache.getlines(_file_of(cls)) if _file_of(cls) else []
    file = _parsed(_file_of(cls), "".join(module)) if module else None
    if file is None:
        return None
    for node in file.tree.body:
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            return file, node
    return None


def _file_of(cls: type) -> str:
    for member in vars(cls).values():
        if isinstance(member, FunctionType) and member.__module__ == cls.__module__:
            return member.__code__.co_filename
    return ""

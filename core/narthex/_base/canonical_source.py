"""The text of author code that is hashed, stored, shown and run: one text, in one form.

A commit's server writes the text of an author anew from its syntax tree, once. The written text
has no comments, no docstrings and one layout, so that these change no fingerprint; whatever else
an author may write is in it, and nothing is executed but it. Annotations of parameters, results
and variables are dropped where nothing can read them, and every text begins with the `__future__`
import of annotations, so that those that stay are never evaluated.
"""

import ast
from collections.abc import Iterator
from typing import Final, TypeVar

from typing_extensions import override

_Scope = TypeVar("_Scope", ast.FunctionDef, ast.ClassDef)

HEADER: Final = "from __future__ import annotations\n"
"""The first line of each text."""

_STATEMENTS: Final = (
    ast.FunctionDef,
    ast.ClassDef,
    ast.Return,
    ast.Delete,
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.For,
    ast.While,
    ast.If,
    ast.With,
    ast.Match,
    ast.Raise,
    ast.Try,
    ast.Assert,
    ast.Import,
    ast.ImportFrom,
    ast.Nonlocal,
    ast.Expr,
    ast.Pass,
    ast.Break,
    ast.Continue,
)
"""The statements that author code may have."""

_READERS: Final = frozenset(
    {
        "__annotations__",
        "get_annotations",
        "get_type_hints",
        "inspect",
        "register",
        "singledispatch",
        "singledispatchmethod",
    }
)
"""Names by which code can read the annotations of functions."""

_PLAIN_DECORATORS: Final = frozenset({"classmethod", "property", "staticmethod"})
"""Decorators that read no annotation."""


class UnknownSyntaxError(ValueError):
    """The code has a construct that author code may not use.

    Attributes:
        construct: Its name in Python's grammar.
        line: Its line in the text.
    """

    def __init__(self, construct: str, line: int) -> None:
        super().__init__(f"`{construct}` is not allowed in user code")
        self.construct = construct
        self.line = line


def canonical_source(text: str) -> str:
    """Write a module's text in the one form that is hashed and run.

    Writing the result again yields the same text.

    Raises:
        UnknownSyntaxError: The text has a construct that author code may not use.
        SyntaxError: The text is not Python.
        ValueError: Its tree cannot be written as a text that has the same meaning.
        RecursionError: It nests too deeply.
    """
    tree = canonical_tree(text)
    written = f"{HEADER}{ast.unparse(tree)}\n"
    if ast.dump(canonical_tree(written)) != ast.dump(tree):
        raise ValueError("Python cannot write the text of its syntax tree")
    return written


def canonical_tree(text: str) -> ast.Module:
    """Parse a text and leave out what its canonical form lacks; nodes keep their positions.

    Raises:
        UnknownSyntaxError: The text has a construct that author code may not use.
        SyntaxError: The text is not Python.
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        _check(node)
    tree.body = [one for one in tree.body if not _is_future(one)]
    names = {_name_of(node) for node in ast.walk(tree)}
    return _Canonical(drops=_READERS.isdisjoint(names)).written(tree)


def _check(node: ast.AST) -> None:
    is_unknown = isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS)
    is_asynchronous = isinstance(node, ast.Await) or bool(getattr(node, "is_async", 0))
    if is_unknown or is_asynchronous or getattr(node, "type_params", None):
        raise UnknownSyntaxError(type(node).__name__, getattr(node, "lineno", 0))


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__" and not node.level


def _name_of(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name):
            return name
        case ast.alias(name=name):
            return name.split(".")[-1]
        case _:
            return ""


class _Canonical(ast.NodeTransformer):
    """Drops docstrings, and annotations that nothing reads."""

    def __init__(self, *, drops: bool) -> None:
        self._drops = drops
        self._in_class = False

    def written(self, tree: ast.Module) -> ast.Module:
        tree.body = [self._kept(one) for one in tree.body]
        return tree

    def _kept(self, node: ast.stmt) -> ast.stmt:
        found = self.visit(node)
        assert isinstance(found, ast.stmt)  # noqa: S101 (no visitor drops a statement)
        return found

    @override
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = _without_docstring(node.body)
        if self._drops and all(map(_is_plain, node.decorator_list)):
            node.returns = None
            for one in _parameters(node.args):
                one.annotation = None
        return self._inside(node, in_class=False)

    @override
    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.body = _without_docstring(node.body)
        return self._inside(node, in_class=True)

    def _inside(self, node: _Scope, *, in_class: bool) -> _Scope:
        before, self._in_class = self._in_class, in_class
        self.generic_visit(node)
        self._in_class = before
        return node

    @override
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        # The annotations of a class body declare fields, as of a dataclass.
        self.generic_visit(node)
        if self._in_class or not self._drops or node.value is None:
            return node
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)

    @override
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        node.kind = None
        return node


def _parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (one for one in (arguments.vararg, arguments.kwarg) if one is not None)


def _is_plain(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id in _PLAIN_DECORATORS


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a body without its docstring; an empty body becomes a `pass`."""
    match body:
        case [ast.Expr(value=ast.Constant(value=str())) as first, *rest]:
            # A further text would become the docstring.
            return _without_docstring(rest) or [ast.copy_location(ast.Pass(), first)]
        case _:
            return body

"""The fingerprint of code: a hash of its syntax tree in Narthex's own encoding.

It ignores positions, comments, docstrings, annotations of signatures, and the order of definitions
and imports. The encoding never depends on how a Python version prints a tree.
"""

import ast
import hashlib
import struct
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

TREE_VERSION: Final = b"nx-code-1"

# A kind's number never changes and is never reused; new kinds go at the end.
_KINDS: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "FunctionDef": (1, ("name", "args", "body", "decorator_list")),
    "ClassDef": (2, ("name", "bases", "keywords", "body", "decorator_list")),
    "Return": (3, ("value",)),
    "Delete": (4, ("targets",)),
    "Assign": (5, ("targets", "value")),
    "AugAssign": (6, ("target", "op", "value")),
    "AnnAssign": (7, ("target", "annotation", "value", "simple")),
    "For": (8, ("target", "iter", "body", "orelse")),
    "While": (9, ("test", "body", "orelse")),
    "If": (10, ("test", "body", "orelse")),
    "With": (11, ("items", "body")),
    "Match": (12, ("subject", "cases")),
    "Raise": (13, ("exc", "cause")),
    "Try": (14, ("body", "handlers", "orelse", "finalbody")),
    "Assert": (15, ("test", "msg")),
    "Import": (16, ("names",)),
    "ImportFrom": (17, ("module", "names", "level")),
    "Nonlocal": (18, ("names",)),
    "Expr": (19, ("value",)),
    "Pass": (20, ()),
    "Break": (21, ()),
    "Continue": (22, ()),
    "BoolOp": (30, ("op", "values")),
    "NamedExpr": (31, ("target", "value")),
    "BinOp": (32, ("left", "op", "right")),
    "UnaryOp": (33, ("op", "operand")),
    "Lambda": (34, ("args", "body")),
    "IfExp": (35, ("test", "body", "orelse")),
    "Dict": (36, ("keys", "values")),
    "Set": (37, ("elts",)),
    "ListComp": (38, ("elt", "generators")),
    "SetComp": (39, ("elt", "generators")),
    "DictComp": (40, ("key", "value", "generators")),
    "GeneratorExp": (41, ("elt", "generators")),
    "Yield": (42, ("value",)),
    "YieldFrom": (43, ("value",)),
    "Compare": (44, ("left", "ops", "comparators")),
    "Call": (45, ("func", "args", "keywords")),
    "FormattedValue": (46, ("value", "conversion", "format_spec")),
    "JoinedStr": (47, ("values",)),
    "Constant": (48, ("value",)),
    "Attribute": (49, ("value", "attr")),
    "Subscript": (50, ("value", "slice")),
    "Starred": (51, ("value",)),
    "Name": (52, ("id",)),
    "List": (53, ("elts",)),
    "Tuple": (54, ("elts",)),
    "Slice": (55, ("lower", "upper", "step")),
    "comprehension": (60, ("target", "iter", "ifs", "is_async")),
    "ExceptHandler": (61, ("type", "name", "body")),
    "arguments": (
        62,
        ("posonlyargs", "args", "vararg", "kwonlyargs", "kw_defaults", "kwarg", "defaults"),
    ),
    "arg": (63, ("arg", "annotation")),
    "keyword": (64, ("arg", "value")),
    "alias": (65, ("name", "asname")),
    "withitem": (66, ("context_expr", "optional_vars")),
    "match_case": (67, ("pattern", "guard", "body")),
    "MatchValue": (70, ("value",)),
    "MatchSingleton": (71, ("value",)),
    "MatchSequence": (72, ("patterns",)),
    "MatchMapping": (73, ("keys", "patterns", "rest")),
    "MatchClass": (74, ("cls", "patterns", "kwd_attrs", "kwd_patterns")),
    "MatchStar": (75, ("name",)),
    "MatchAs": (76, ("pattern", "name")),
    "MatchOr": (77, ("patterns",)),
    "And": (80, ()),
    "Or": (81, ()),
    "Add": (82, ()),
    "Sub": (83, ()),
    "Mult": (84, ()),
    "MatMult": (85, ()),
    "Div": (86, ()),
    "Mod": (87, ()),
    "Pow": (88, ()),
    "LShift": (89, ()),
    "RShift": (90, ()),
    "BitOr": (91, ()),
    "BitXor": (92, ()),
    "BitAnd": (93, ()),
    "FloorDiv": (94, ()),
    "Invert": (95, ()),
    "Not": (96, ()),
    "UAdd": (97, ()),
    "USub": (98, ()),
    "Eq": (99, ()),
    "NotEq": (100, ()),
    "Lt": (101, ()),
    "LtE": (102, ()),
    "Gt": (103, ()),
    "GtE": (104, ()),
    "Is": (105, ()),
    "IsNot": (106, ()),
    "In": (107, ()),
    "NotIn": (108, ()),
}
_READS_ANNOTATIONS = frozenset({"get_type_hints", "__annotations__", "get_annotations", "inspect"})


class UnknownSyntaxError(ValueError):
    """The code has a construct that the fingerprint does not support.

    Attributes:
        construct: Its name in Python's grammar.
        line: Its line in the text.
    """

    def __init__(self, construct: str, line: int) -> None:
        super().__init__(f"`{construct}` is not allowed in user code")
        self.construct = construct
        self.line = line


@attrs.frozen(kw_only=True)
class _Encoder:
    annotations: bool

    def node(self, node: ast.AST) -> bytes:
        name = type(node).__name__
        kind = _KINDS.get(name)
        if kind is None or getattr(node, "type_params", None):
            raise UnknownSyntaxError(name, getattr(node, "lineno", 0))
        number, fields = kind
        parts = [self.value(self._field(node, field)) for field in fields]
        return b"N" + _framed(struct.pack(">H", number) + b"".join(parts))

    def _field(self, node: ast.AST, field: str) -> object:
        found: object = getattr(node, field)
        if field == "annotation" and isinstance(node, ast.arg) and not self.annotations:
            return None
        if field == "body" and isinstance(node, ast.FunctionDef | ast.ClassDef):
            return without_docstring(node.body)
        return found

    def value(self, value: object) -> bytes:  # noqa: C901 (one case a type)
        match value:
            case None:
                return b"0"
            case ast.AST():
                return self.node(value)
            case list() | tuple():
                return b"L" + _framed(b"".join(self.value(item) for item in value))
            case frozenset():
                return b"Z" + _framed(b"".join(sorted(self.value(item) for item in value)))
            case bool():
                return b"T" if value else b"F"
            case int():
                return b"I" + _framed(str(value).encode())
            case float():
                return b"D" + struct.pack(">d", value)
            case complex():
                return b"C" + struct.pack(">dd", value.real, value.imag)
            case str():
                return b"S" + _framed(value.encode("utf-8", "surrogatepass"))
            case bytes():
                return b"B" + _framed(value)
            case _:
                return b"E"  # Ellipsis is the only other constant in the grammar.


def _framed(content: bytes) -> bytes:
    return struct.pack(">Q", len(content)) + content


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a body without its docstring; an empty body becomes a `pass`."""
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest or [ast.Pass()]
        case _:
            return body


def _names_used(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def bindings(  # noqa: C901 (one case a statement)
    tree: ast.Module,
) -> Iterator[tuple[str, ast.AST]]:
    """Yield each name that a module binds at its top, with the statement that binds it.

    Imports are split into single names, in the form `from module import name`.

    Raises:
        UnknownSyntaxError: A top-level statement does not bind a name that can be carried.
    """
    for statement in tree.body:
        match statement:
            case ast.ImportFrom(module="__future__"):
                continue
            case ast.Import(names=names):
                for alias in names:
                    yield (alias.asname or alias.name.split(".")[0]), ast.Import(names=[alias])
            case ast.ImportFrom(names=names):
                for alias in names:
                    yield (
                        (alias.asname or alias.name),
                        ast.ImportFrom(module=statement.module, names=[alias], level=0),
                    )
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, statement
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name, statement
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, ast.Assign(targets=[ast.Name(id=name)], value=value)
            case _:
                raise UnknownSyntaxError(type(statement).__name__, statement.lineno)


def tree_of(source: str, entry: str) -> bytes:
    """Return the fingerprint of code: 32 bytes that comments, layout and order do not change.

    Raises:
        UnknownSyntaxError: The code has a construct that user code may not use.
        SyntaxError: The text is not Python.
    """
    tree = ast.parse(source)
    encoder = _Encoder(annotations=not _READS_ANNOTATIONS.isdisjoint(_names_used(tree)))
    items = sorted(_encoded(encoder, bindings(tree)))
    return hashlib.sha256(TREE_VERSION + encoder.value(entry) + b"".join(items)).digest()


def _encoded(encoder: _Encoder, items: Iterable[tuple[str, ast.AST]]) -> Iterator[bytes]:
    for name, statement in items:
        yield encoder.value(name) + encoder.node(statement)

# ruff: noqa: INP001
"""The public modules as values: names, signatures as their authors wrote them, and docstrings.

Annotations and defaults are taken from the source, so that `Window | None` is not rewritten. The
definition of a named type is listed with it.
"""

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from types import FunctionType, ModuleType
from typing import Final

import attrs

MODULES: Final = (
    *("narthex.datasets", "narthex.featuresets", "narthex.connectors", "narthex.expr"),
    *("narthex.dtypes", "narthex.lib", "narthex.client", "narthex.testing"),
    "narthex.integrations.aws",
)
NOT_MADE_BY_AUTHORS: Final = frozenset(
    {"Dataset", "Expr", "Featureset", "ReadInfo", "Response", "Rows", "Groups", "TypedExpr"}
    | {"Clock", "DataFile", "Feature", "Field", "TrainingSet"}
)
"""Classes whose values come from a call or a decorator; their constructors are not public."""

INTERNAL: Final = frozenset(
    {"build", "build_of", "operator", "node_schema", "is_known", "__test__"}
)
"""Methods that the compiler calls."""


@attrs.frozen(kw_only=True)
class Entry:
    """A public name.

    Attributes:
        parameters: As written; None if the name cannot be called.
        gives: The type of a call's result or of an attribute; empty if it is not annotated.
    """

    name: str
    kind: str
    parameters: tuple[str, ...] | None = None
    gives: str = ""
    doc: str = ""
    members: tuple["Entry", ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()


def names_of(module: ModuleType) -> list[str]:
    """Return a module's public names: `__all__`, or what it defines itself."""
    listed = getattr(module, "__all__", None)
    own = (
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )
    return sorted(listed if listed is not None else own, key=str.lower)


@cache
def entries(module_name: str) -> tuple[Entry, ...]:
    """Return everything public of a module, by name."""
    module = importlib.import_module(module_name)
    return tuple(entry_of(name, getattr(module, name)) for name in names_of(module))


def entry_of(name: str, value: object) -> Entry:
    """Return a public name as a value."""
    doc = inspect.getdoc(value) or ""
    if isinstance(value, ModuleType):
        inner = [one for one in names_of(value) if isinstance(getattr(value, one), FunctionType)]
        members = tuple(entry_of(one, getattr(value, one)) for one in inner if one == "get")
        return Entry(name=name, kind="module", doc=doc, members=members)
    if isinstance(value, type):
        return _class(name, value, doc)
    if isinstance(value, FunctionType):
        return _function(name, value, "function")
    raise TypeError(f"`{name}` is neither a class nor a function nor a module")


def _function(name: str, function: FunctionType, kind: str, *, bound: bool = False) -> Entry:
    tree = _tree(function)
    if not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
        raise TypeError(f"`{name}` was not written with `def`")
    gives = "" if tree.returns is None else _text(tree.returns)
    return Entry(
        name=name,
        kind="async" if isinstance(tree, ast.AsyncFunctionDef) else kind,
        parameters=tuple(_parameters(tree.args, function.__globals__, bound=bound)),
        gives=gives,
        doc=inspect.getdoc(function) or "",
        aliases=tuple(_aliases(_annotations(tree), function.__module__)),
    )


def _class(name: str, cls: type, doc: str) -> Entry:
    parameters: tuple[str, ...] | None = None
    fields = tuple(_fields(cls)) if attrs.has(cls) else ()
    aliases: tuple[tuple[str, str], ...] = ()
    inherited = cls.__init__ is object.__init__ or issubclass(cls, Exception)
    if name not in NOT_MADE_BY_AUTHORS and not hasattr(cls, "__members__") and not inherited:
        if fields:
            parameters = tuple(_made_of(cls))
        elif isinstance(vars(cls).get("__init__"), FunctionType):
            made = _function(name, vars(cls)["__init__"], "method", bound=True)
            parameters, aliases = made.parameters, made.aliases
    members = [*(_attribute(cls, field) for field in fields), *_enumerated(cls), *_members(cls)]
    written = [tree for _, tree in fields]
    aliases = aliases or tuple(_aliases(written, cls.__module__))
    return Entry(
        name=name,
        kind="class",
        parameters=parameters,
        doc=doc,
        members=tuple(members if parameters is None or not fields else members[len(fields) :]),
        aliases=aliases,
    )


def _enumerated(cls: type) -> Iterator[Entry]:
    for name in getattr(cls, "__members__", ()):
        yield Entry(name=name, kind="attribute")


def _members(cls: type) -> Iterator[Entry]:
    """Yield public methods and properties, including those of private base classes."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("narthex") or issubclass(cls, Exception):
            continue
        if base is not cls and _is_public(base):
            return
        for name, value in vars(base).items():
            function = getattr(value, "fget", getattr(value, "__func__", value))
            known = name.startswith("_") or name in INTERNAL or name in seen
            if known or not isinstance(function, FunctionType) or _is_overriding(cls, base, name):
                continue
            seen.add(name)
            kind = "property" if isinstance(value, property) else "method"
            found = _function(name, function, kind, bound=not isinstance(value, staticmethod))
            yield attrs.evolve(found, parameters=None) if kind == "property" else found


def _is_overriding(cls: type, base: type, name: str) -> bool:
    above = cls.__mro__[cls.__mro__.index(base) + 1 :]
    return any(_is_public(one) and hasattr(one, name) for one in above)


@cache
def _is_public(cls: type) -> bool:
    modules = [importlib.import_module(module) for module in MODULES]
    return any(getattr(module, cls.__name__, None) is cls for module in modules)


def _fields(cls: type) -> Iterator[tuple[attrs.Attribute, ast.expr]]:  # type: ignore[type-arg]
    bodies = [_tree(one) for one in cls.__mro__ if attrs.has(one)]
    written = {
        line.target.id: line.annotation
        for body in reversed(bodies)
        if isinstance(body, ast.ClassDef)
        for line in body.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }
    for field in attrs.fields(cls):
        if not field.name.startswith("_"):
            yield field, _taken(field.converter) or written[field.name]


def _taken(converter: object) -> ast.expr | None:
    """Return the type that a converter takes, which is what authors may write."""
    if not isinstance(converter, FunctionType):
        return None
    tree = _tree(converter)
    return tree.args.args[0].annotation if isinstance(tree, ast.FunctionDef) else None


def _attribute(cls: type, field: tuple[attrs.Attribute, ast.expr]) -> Entry:  # type: ignore[type-arg]
    about, written = field
    aliases = tuple(_aliases([written], cls.__module__))
    return Entry(name=about.name, kind="attribute", gives=_text(written), aliases=aliases)


def _made_of(cls: type) -> Iterator[str]:
    """Yield the parameters of a class that attrs makes: by position first, then by name."""
    fields = [pair for pair in _fields(cls) if pair[0].init]
    named = [pair for pair in fields if pair[0].kw_only]
    yield from (_field_text(*pair) for pair in fields if not pair[0].kw_only)
    if named:
        yield "*"
    yield from (_field_text(*pair) for pair in named)


def _field_text(field: attrs.Attribute, written: ast.expr) -> str:  # type: ignore[type-arg]
    text = f"{field.alias}: {_text(written)}"
    if field.default is attrs.NOTHING:
        return text
    made = isinstance(field.default, attrs.Factory)  # type: ignore[arg-type]
    return f"{text} = {'…' if made else repr(field.default)}"


def _parameters(
    arguments: ast.arguments, scope: Mapping[str, object], *, bound: bool
) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    free = len(positional) - len(arguments.defaults)
    for at, one in enumerate(positional):
        if at or not bound:
            yield _parameter(one, arguments.defaults[at - free] if at >= free else None, scope)
        if arguments.posonlyargs and at == len(arguments.posonlyargs) - 1:
            yield "/"
    if arguments.vararg is not None:
        yield f"*{_parameter(arguments.vararg, None, scope)}"
    elif arguments.kwonlyargs:
        yield "*"
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(one, default, scope)
    if arguments.kwarg is not None:
        yield f"**{_parameter(arguments.kwarg, None, scope)}"


def _parameter(argument: ast.arg, default: ast.expr | None, scope: Mapping[str, object]) -> str:
    text = argument.arg
    if argument.annotation is not None:
        text += f": {_text(argument.annotation)}"
    if default is None:
        return text
    return text + (" = " if argument.annotation else "=") + _default(default, scope)


def _annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    every = function.args
    known = [*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg]
    found = [one.annotation for one in known if one is not None]
    return [one for one in [*found, function.returns] if one is not None]


def _aliases(annotations: list[ast.expr], module: str) -> Iterator[tuple[str, str]]:
    """Yield the definitions of named types, each once, in the order of their use."""
    names = [
        name for annotation in annotations for node in ast.walk(annotation) for name in _names(node)
    ]
    for name in dict.fromkeys(names):
        meant = _alias(name, module)
        if meant is not None:
            yield name, meant


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [one.id for one in ast.walk(ast.parse(node.value)) if isinstance(one, ast.Name)]
    return [node.id] if isinstance(node, ast.Name) else []


def _alias(name: str, module: str) -> str | None:
    if not module.startswith("narthex"):
        return None
    for line in _module_tree(module).body:
        match line:
            case ast.AnnAssign(
                target=ast.Name(id=found), annotation=ast.Name(id="TypeAlias"), value=ast.expr()
            ) if found == name:
                return _text(line.value)
            case ast.ImportFrom(module=str(source), names=taken):
                for one in taken:
                    if (one.asname or one.name) == name:
                        return _alias(one.name, source)
    return None


def _text(written: ast.expr) -> str:
    """Return an annotation as text, without quotes around it."""
    if isinstance(written, ast.Constant) and isinstance(written.value, str):
        return written.value
    return ast.unparse(written)


def _default(written: ast.expr, scope: Mapping[str, object]) -> str:
    """Return a default as text; a named constant as its value."""
    named = scope.get(written.id) if isinstance(written, ast.Name) else None
    return repr(named) if isinstance(named, int | float | str) else ast.unparse(written)


@cache
def _tree(value: object) -> ast.stmt:
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]  # type: ignore[arg-type]


@cache
def _module_tree(name: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(name)))

"""Resolve all that a function uses, and write it as the text of one module."""

import ast
import contextlib
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Final

import attrs

from narthex._analysis.tolerance import is_tolerated
from narthex._authoring.source_locations import place
from narthex._base.canonical_source import HEADER, canonical_source
from narthex._base.origin import NOWHERE, Origin
from narthex._ir.code import UserCode, codes_in, with_codes
from narthex._ir.entities import Definitions
from narthex._ir.types import Struct
from narthex._sdk.annotations import STRUCT_ATTRIBUTE
from narthex._sdk.closure.carried_files import FileCollector, disagreements
from narthex._sdk.closure.functions import SourceFile, find_class, find_function, source_file
from narthex._sdk.closure.libraries import requirements_of
from narthex._sdk.closure.names import free_names
from narthex._sdk.closure.own_class import NAME, OwnClass, attributes_of, carry
from narthex._sdk.closure.project_locks import (
    installed_otherwise,
    lock_disagreements,
    lock_of,
)
from narthex._sdk.closure.rules import Breach, bindings, find_breaches
from narthex.data_files import DataFile
from narthex.errors import (
    CodeDisagrees,
    CodeForbidden,
    CodeNotCarried,
    CodeNotFound,
    DefinitionError,
    raise_all,
)

DATASET_NAME: Final = "__narthex_dataset_name__"
"""The attribute with a dataset's name, by which code that uses it gets a reference instead."""

_LIBRARY_ROOTS: Final = tuple(
    sorted({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
)
UNREADABLE: Final = (SyntaxError, ValueError, RecursionError, MemoryError)
"""The errors of Python's parser, and of a text that cannot be written anew."""
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


@attrs.frozen(kw_only=True)
class _Item:
    """One piece of the text.

    Attributes:
        origin: The author's line of its first line.
    """

    name: str
    text: str
    origin: Origin
    is_import: bool = False


class _Resolver:
    """Collects items in dependency order, and errors, so that all are reported at once."""

    def __init__(self, *, what: str, origin: Origin) -> None:
        self.what = what
        self.origin = origin
        self.items: dict[str, _Item] = {}
        self.values: dict[str, object] = {}
        self.errors: list[DefinitionError] = []
        self.files = FileCollector()
        self._open: set[str] = set()
        self._used: dict[str, frozenset[str]] = {}

    def add(self, item: _Item, scope: Mapping[str, object], file: SourceFile | None) -> None:
        """Add an item after all items that it uses."""
        self._open.add(item.name)
        for name in free_names(item.text):
            if name not in self._open and name != item.name:
                self._reach(name, scope, file, item.text)
        self._open.discard(item.name)
        self.items.setdefault(item.name, item)

    def _reach(
        self, name: str, scope: Mapping[str, object], file: SourceFile | None, text: str
    ) -> None:
        if name not in scope:
            self._refuse(name, "is not defined at that place", "define it, or import it, above")
            return
        value = scope[name]
        if isinstance(value, OwnClass):
            self.carry_own_class(value, attributes_of(text, name))
            return
        if name in self.items:
            if self.values.get(name) is not value:
                self._refuse(name, "means two things in the code it reaches", "rename one of them")
            return
        self.values[name] = value
        self._carry(name, value, file)

    def carry_own_class(self, own: OwnClass, used: frozenset[str]) -> None:
        """Add the used members of the class whose body contains the code to those added before."""
        before = self._used.get(NAME)
        self._used[NAME] = used | (before or frozenset())
        if self._used[NAME] == before:
            return
        carried = carry(own, self._used[NAME])
        for name in carried.missing:
            self._refuse(f"{NAME}.{name}", "is neither a field nor a function there", "")
        self.items.pop(NAME, None)
        scope: dict[str, object] = {}
        file: SourceFile | None = None
        for function in carried.functions:
            scope |= scope_of(function)
            file, _ = find_function(function)
        self.add(_Item(name=NAME, text=carried.text, origin=self.origin), scope, file)

    def _carry(self, name: str, value: object, file: SourceFile | None) -> None:
        dataset = getattr(value, DATASET_NAME, None)
        if isinstance(dataset, str):
            self._add_import("reference", "from narthex.lookups import reference\n")
            self._add_text(name, f"{name} = reference({dataset!r})\n")
        elif isinstance(value, DataFile):
            self._carry_data_file(name, value)
        elif isinstance(value, ModuleType):
            self._carry_module(name, value)
        elif isinstance(struct := getattr(value, STRUCT_ATTRIBUTE, None), Struct):
            self._carry_struct(name, struct)
        elif _is_library(value):
            self._carry_import(name, value, file)
        elif isinstance(value, FunctionType):
            self._carry_function(name, value)
        elif isinstance(value, type):
            self._carry_class(name, value, file)
        else:
            self._carry_constant(name, value, file)

    def _carry_struct(self, name: str, struct: Struct) -> None:
        members = "".join(f", {member.name!r}" for member in struct.fields)
        self._add_import("struct_of", "from narthex.declare.structs import struct_of\n")
        self._add_text(name, f"{name} = struct_of({struct.name!r}{members})\n")

    def _carry_data_file(self, name: str, file: DataFile) -> None:
        if not self.files.add(file):
            self._refuse(
                name,
                f"is the data file `{file.name}`, as is another one with other content",
                "rename one of the files",
            )
        self._add_import("carried_file", "from narthex.data_files import carried_file\n")
        self._add_text(name, f"{name} = carried_file({file.name!r})\n")

    def _carry_module(self, name: str, module: ModuleType) -> None:
        path = module.__name__
        is_ours = path.split(".")[0] == "narthex"
        if not is_ours and not _is_library_file(getattr(module, "__file__", None)):
            self._refuse(
                name,
                f"is a module of your own, `{path}`, which does not travel whole",
                f"write `from {path} import …` with the names that you use",
            )
            return
        plain = path == name
        self._add_import(name, f"import {path}\n" if plain else f"import {path} as {name}\n")

    def _carry_import(self, name: str, value: object, file: SourceFile | None) -> None:
        written = _import_of(name, file)
        module = getattr(value, "__module__", None)
        # The platform's names are imported from their own module: another module may lack them.
        if written is not None and _is_ours(written) == _is_ours(f"from {module}"):
            self._add_import(name, written)
            return
        module = _STABLE.get(module, module) if isinstance(module, str) else module
        real = getattr(value, "__name__", name)
        alias = "" if real == name else f" as {name}"
        self._add_import(name, f"from {module} import {real}{alias}\n")

    def _carry_function(self, name: str, function: FunctionType) -> None:
        file, node = find_function(function)
        origin = place(file.file, node.lineno)
        if isinstance(node, ast.Lambda):
            item = _Item(name=name, text=f"{name} = ({file.expression(node)})\n", origin=origin)
            self.add(item, scope_of(function), file)
            return
        text = file.segment(node, decorators=True)
        self.add(_Item(name=node.name, text=text, origin=origin), scope_of(function), file)
        if node.name != name:
            self._add_text(name, f"{name} = {node.name}\n")

    def _carry_class(self, name: str, cls: type, file: SourceFile | None) -> None:
        found = _class_in(file, cls) or find_class(cls)
        if found is None:
            self._refuse(name, "is a class whose source cannot be found", "define it in a file")
            return
        where, node = found
        module = sys.modules.get(cls.__module__)
        item = _Item(
            name=name,
            text=where.segment(node, decorators=True),
            origin=place(where.file, node.lineno),
        )
        self.add(item, vars(module) if module else {}, where)

    def _carry_constant(self, name: str, value: object, file: SourceFile | None) -> None:
        bound = file.assignments(name) if file is not None else []
        match bound:
            case [
                ast.Assign(value=ast.expr() as written) | ast.AnnAssign(value=ast.expr() as written)
            ]:
                self._carry_assignment(name, written, file)
            case []:
                self._carry_elsewhere(name, value)
            case _:
                self._refuse(
                    name, "is bound more than once", "bind it once, to a literal, and use that"
                )

    def _carry_assignment(self, name: str, written: ast.expr, file: SourceFile | None) -> None:
        if file is None:
            return
        text = f"{name} = ({file.expression(written)})\n"
        item = _Item(name=name, text=text, origin=place(file.file, written.lineno))
        self.add(item, _module_scope(file), file)

    def _carry_elsewhere(self, name: str, value: object) -> None:
        """Add a constant that was imported, or that is local to an enclosing function."""
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            held = vars(module).get(name) if path and not _is_library_file(path) else None
            if path and held is value and value is not None:
                file = source_file(path, origin=self.origin, what=f"`{name}`")
                if len(file.assignments(name)) == 1:
                    self._carry_constant(name, value, file)
                    return
        if not is_literal(value):
            self._refuse(
                name,
                f"is a `{type(value).__name__}` that was built where it cannot be followed",
                "make it a literal at the top of the file, or pass it as a column",
            )
            return
        self._add_text(name, f"{name} = {value!r}\n")

    def _add_import(self, name: str, text: str) -> None:
        self.items.setdefault(name, _Item(name=name, text=text, origin=NOWHERE, is_import=True))

    def _add_text(self, name: str, text: str) -> None:
        self.items.setdefault(name, _Item(name=name, text=text, origin=self.origin))

    def _refuse(self, name: str, why: str, hint: str) -> None:
        self.errors.append(
            CodeNotCarried(
                f"{self.what} reaches `{name}`, which {why}", origin=self.origin, hint=hint
            )
        )

    def render(self) -> tuple[str, list[tuple[int, _Item]]]:
        """Return the module's text and the line on which each item begins."""
        ordered = sorted(self.items.values(), key=lambda item: not item.is_import)
        lines, starts = HEADER, list[tuple[int, _Item]]()
        for item in ordered:
            lines += "" if item.is_import else "\n"
            starts.append((lines.count("\n") + 1, item))
            lines += item.text
        return lines, starts


_STABLE: Final = {
    "narthex._sdk.declare.windows": "narthex.declare.windows",
    "narthex._sdk.expressions.authoring": "narthex.expr",
}
"""The stable import paths of platform modules, as the path is part of the code's identity."""


def reason_of(error: BaseException) -> str:
    """Say why a text cannot be read."""
    return str(error) or "it nests too deeply"


def scope_of(function: FunctionType) -> dict[str, object]:
    """Return the names that a function sees outside itself: globals and closure variables."""
    scope: dict[str, object] = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # the enclosing function has not bound it yet
            scope.pop(name, None)
    return scope


def _module_scope(file: SourceFile) -> Mapping[str, object]:
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == file.file:
            return vars(module)
    return {}


def _class_in(file: SourceFile | None, cls: type) -> tuple[SourceFile, ast.ClassDef] | None:
    module = sys.modules.get(cls.__module__)
    path = getattr(module, "__file__", None)
    where = file
    if path and (file is None or file.file != path):
        where = source_file(path, origin=NOWHERE, what=f"`{cls.__name__}`")
    for node in where.tree.body if where else []:
        if where and isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            return where, node
    return None


def _import_of(name: str, file: SourceFile | None) -> str | None:
    """Return the statement by which a file imports a name, as written."""
    for node in ast.walk(file.tree) if file else ():
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return ast.unparse(ast.ImportFrom(node.module, [alias], 0)) + "\n"
    return None


def _is_ours(written: str) -> bool:
    return written.removeprefix("from ").split(" ")[0].split(".")[0] == "narthex"


def _is_library_file(path: str | None) -> bool:
    return path is None or path.startswith(_LIBRARY_ROOTS) or "site-packages" in Path(path).parts


def _is_library(value: object) -> bool:
    """Whether a function or class belongs to a library that is imported where the code runs."""
    if not isinstance(value, FunctionType | type) and not callable(value):
        return False
    path = getattr(value, "__module__", None)
    module = sys.modules.get(path) if isinstance(path, str) else None
    if module is None or path == "__main__":
        return False
    if module.__name__.split(".")[0] == "narthex":
        return True
    return _is_library_file(getattr(module, "__file__", None))


def is_literal(value: object) -> bool:
    """Whether a value has only scalars, tuples and frozensets, so that its text reproduces it."""
    if isinstance(value, tuple | frozenset):
        return all(is_literal(item) for item in value)
    return value is None or type(value) in {bool, int, float, str, bytes}


def resolve(
    function: object, *, what: str, origin: Origin, entry: str = "", own: OwnClass | None = None
) -> UserCode:
    """Return a function as text with all that it uses.

    Args:
        function: A plain function.
        what: Its description, for messages.
        origin: The position of its use.
        entry: The name of a lambda.
        own: The class that the function takes as its first argument.

    Raises:
        DefinitionErrors: It uses objects that cannot be carried, does something forbidden, or has
            no source.
    """
    if not isinstance(function, FunctionType):
        raise_all([CodeNotFound(f"{what} is not a plain function", origin=origin)])
        raise TypeError(what)
    resolver = _Resolver(what=what, origin=origin)
    try:
        name = _add_entry(resolver, function, entry, own)
    except DefinitionError as error:
        raise_all([*resolver.errors, error])
        raise
    source, starts = resolver.render()
    lock = lock_of(function.__code__.co_filename)
    locked = lock.used_by(source)
    errors = [*resolver.errors, *_breach_errors(source, starts, what)]
    raise_all([*errors, *lock.errors, *installed_otherwise(locked)])
    code = UserCode(
        entry=name,
        source=source,
        requires=requirements_of(source, without={one.distribution for one in locked}),
        python=PYTHON,
        origin=origin,
        files=resolver.files.records(),
        locked=locked,
    )
    try:
        return code.rewritten()
    except UNREADABLE as error:
        raise_all([CodeForbidden(f"{what}: {reason_of(error)}", origin=origin)])
        raise


def _add_entry(
    resolver: _Resolver, function: FunctionType, entry: str, own: OwnClass | None
) -> str:
    file, node = find_function(function)
    if isinstance(node, ast.Lambda):
        name = entry or "entry"
        text = f"{name} = ({file.expression(node)})\n"
    else:
        name, text = node.name, file.segment(node)
    item = _Item(name=name, text=text, origin=place(file.file, node.lineno))
    resolver.add(item, scope_of(function), file)
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    used = attributes_of(text, parameters[0]) if own is not None and parameters else frozenset()
    if own is not None and used:
        resolver.carry_own_class(own, used)
    return name


def _breach_errors(
    source: str, starts: list[tuple[int, _Item]], what: str
) -> list[DefinitionError]:
    return [_breach_error(breach, starts, what) for breach in breaches_of(source, what)]


def breaches_of(source: str, what: str) -> list[Breach]:
    """List the forbidden operations in a text, except those that are tolerated here."""
    return [
        breach
        for breach in find_breaches(source)
        if not (
            breach.is_unrepeatable
            and is_tolerated(f"{what} uses `{breach.what}`, which {breach.why}")
        )
    ]


def _breach_error(breach: Breach, starts: list[tuple[int, _Item]], what: str) -> DefinitionError:
    first, item = max((pair for pair in starts if pair[0] <= breach.line), key=lambda p: p[0])
    origin = NOWHERE
    if item.origin != NOWHERE:
        origin = Origin(file=item.origin.file, line=item.origin.line + breach.line - first)
    if breach.carried:
        return CodeNotCarried(
            f"{what} reaches `{breach.what}`, which {breach.why}",
            origin=origin,
            hint="make it a literal that nothing changes, or pass it as a column",
        )
    return CodeForbidden(
        f"{what} uses `{breach.what}`, which {breach.why}",
        origin=origin,
        hint=breach.hint or "pass the value as a column",
    )


def verify(code: UserCode) -> tuple[DefinitionError, ...]:
    """Check code in its canonical form: its text must do nothing forbidden and be complete."""
    from_text: list[DefinitionError] = []
    try:
        breaches = breaches_of(code.source, f"`{code.entry}`")
        missing = free_names(code.source)
        bound = dict(bindings(ast.parse(code.source)))
    except UNREADABLE as error:
        return (CodeForbidden(f"`{code.entry}`: {reason_of(error)}", origin=code.origin),)
    starts = [(1, _Item(name=code.entry, text=code.source, origin=NOWHERE))]
    from_text += [
        _breach_error(b, starts, f"`{code.entry}`").located(code.origin) for b in breaches
    ]
    if missing:
        from_text.append(
            CodeNotCarried(
                f"`{code.entry}` reaches `{missing[0]}`, which did not travel", origin=code.origin
            )
        )
    if not isinstance(bound.get(code.entry), ast.FunctionDef | ast.Assign):
        from_text.append(_disagreement(code, f"the code of `{code.entry}` does not define it"))
    wrong = [*disagreements(code), *lock_disagreements(code)]
    from_text += [_disagreement(code, why) for why in wrong]
    return tuple(from_text)


def _disagreement(code: UserCode, why: str) -> DefinitionError:
    return CodeDisagrees(why, origin=code.origin, hint="commit again")


def received(
    definitions: Definitions, deployed: Definitions | None = None
) -> tuple[Definitions, list[DefinitionError]]:
    """Return received definitions with the texts that are hashed, stored and run, and all errors.

    Each text is written from the author's, whatever text was sent as its canonical form. One that
    is deployed is not written again, as another version of Python could write it otherwise.
    """
    known = dict(_written_before(deployed)) if deployed is not None else {}
    errors: list[DefinitionError] = []

    def checked(code: UserCode) -> UserCode:
        try:
            written = code.rewritten()
        except UNREADABLE as error:
            errors.append(CodeForbidden(f"`{code.entry}`: {reason_of(error)}", origin=code.origin))
            return code
        if written.source in known:
            written = attrs.evolve(
                written, source=known[written.source], written=written.author_text
            )
        errors.extend(verify(written))
        return written

    rewritten = with_codes(definitions, checked)
    assert isinstance(rewritten, Definitions)  # noqa: S101 (for the type check)
    return rewritten, errors


def _written_before(deployed: Definitions) -> Iterator[tuple[str, str]]:
    """Yield each text that is deployed, after the one that this version of Python would write."""
    for code in codes_in(deployed):
        with contextlib.suppress(*UNREADABLE):
            yield canonical_source(code.author_text), code.source

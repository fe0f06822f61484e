"""The operations that user code may not use, found in its text alone.

This is a lint for determinism that warns the author early. The sandbox provides security.
"""

import ast
import builtins
from collections.abc import Iterator
from typing import Final

import attrs

from narthex._base.canonical_source import UnknownSyntaxError

CARRIED_FILE: Final = "narthex.data_files.carried_file"
"""The call that represents a data file in captured text."""

_DATA_FILE: Final = "narthex.data_files.DataFile"
_OPENED: Final = f"{_DATA_FILE}.open"
_REACHES_FILE: Final = "reaches a file"
_READ_TOO_LATE: Final = "reads a file that the commit does not have yet"

_BUILTINS: Final = {
    "eval": "runs text as code",
    "exec": "runs text as code",
    "compile": "makes code from text",
    "__import__": "imports by a name that cannot be followed",
    "globals": "reaches all globals",
    "locals": "reaches all locals",
    "vars": "reaches all names of an object",
    "open": _REACHES_FILE,
    "input": "waits for a person",
    "breakpoint": "stops the process",
    "id": "differs between processes",
    "hash": "differs between processes for text",
}
_CALLS: Final = {
    "time.time": "reads the clock",
    "time.time_ns": "reads the clock",
    "time.monotonic": "reads the clock",
    "time.perf_counter": "reads the clock",
    "time.localtime": "reads the clock",
    "time.gmtime": "reads the clock",
    "time.sleep": "waits",
    "datetime.datetime.now": "reads the clock",
    "datetime.datetime.utcnow": "reads the clock",
    "datetime.datetime.today": "reads the clock",
    "datetime.date.today": "reads the clock",
    "pandas.Timestamp.now": "reads the clock",
    "pandas.Timestamp.utcnow": "reads the clock",
    "pandas.Timestamp.today": "reads the clock",
    "uuid.uuid1": "draws a new id each time",
    "uuid.uuid4": "draws a new id each time",
    "random.SystemRandom": "draws at random without a seed",
    "pandas.read_csv": _REACHES_FILE,
    "pandas.read_parquet": _REACHES_FILE,
    "pandas.read_json": _REACHES_FILE,
    "pandas.read_sql": "reaches a database",
    "numpy.load": _REACHES_FILE,
    "numpy.fromfile": _REACHES_FILE,
    "numpy.loadtxt": _REACHES_FILE,
    "narthex.lib.data_file": _READ_TOO_LATE,
    "narthex.data_files.data_file": _READ_TOO_LATE,
}
_SEEDED: Final = frozenset(
    {
        "random.Random",
        "numpy.random.default_rng",
        "numpy.random.RandomState",
        "numpy.random.Generator",
        "numpy.random.SeedSequence",
    }
)
_RANDOM: Final = ("random.", "numpy.random.")
_MODULES: Final = {
    "os": "reaches the machine",
    "sys": "reaches the interpreter",
    "io": "reaches files",
    "socket": "reaches the network",
    "ssl": "reaches the network",
    "http": "reaches the network",
    "urllib.request": "reaches the network",
    "requests": "reaches the network",
    "httpx": "reaches the network",
    "aiohttp": "reaches the network",
    "subprocess": "starts a process",
    "multiprocessing": "starts a process",
    "threading": "starts a thread",
    "concurrent": "starts threads",
    "asyncio": "waits on the world",
    "secrets": "draws at random without a seed",
    "importlib": "imports by a name that cannot be followed",
    "ctypes": "reaches memory",
    "pickle": "runs what it reads",
    "pathlib": "reaches files",
    "shutil": "reaches files",
    "tempfile": "reaches files",
    "glob": "reaches files",
}
_PURE_CALLS: Final = frozenset(
    {
        "frozenset",
        "tuple",
        "set",
        "dict",
        "list",
        "range",
        "float",
        "int",
        "str",
        "bytes",
        "min",
        "max",
        "sum",
        "len",
        "round",
        "abs",
        "sorted",
        "re.compile",
        "datetime.datetime",
        "datetime.date",
        "datetime.timedelta",
        "datetime.timezone",
        "decimal.Decimal",
        "fractions.Fraction",
        "zoneinfo.ZoneInfo",
        "pandas.Timestamp",
        "pandas.Timedelta",
        "numpy.array",
        "enum.auto",
        "types.MappingProxyType",
        "math.log",
        "math.sqrt",
        "math.exp",
        "narthex.declare.structs.struct_of",
        CARRIED_FILE,
        "narthex.lookups.reference",
    }
)
_MUTATORS: Final = frozenset(
    {
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "popitem",
        "clear",
        "update",
        "setdefault",
        "add",
        "discard",
        "sort",
        "reverse",
    }
)
_BUILTIN_NAMES: Final = frozenset(dir(builtins))


@attrs.frozen(kw_only=True, order=True)
class Breach:
    """One forbidden operation in code.

    Attributes:
        line: The line in the checked text.
        what: The resolved name, such as `time.time`.
        why: The reason.
        carried: Whether the cause is a global that cannot be carried, not a call.
    """

    line: int
    what: str
    why: str
    carried: bool = False

    @property
    def hint(self) -> str:
        """The remedy, if it is a special one."""
        is_late = self.why == _READ_TOO_LATE
        return "write `FILE = data_file(…)` at the top, and read it here" if is_late else ""

    @property
    def is_unrepeatable(self) -> bool:
        """Whether the only problem is that the code returns another result on each call."""
        return self.why.startswith(("reads the clock", "draws "))


def find_breaches(source: str) -> tuple[Breach, ...]:
    """Return all breaches in a module's text, in order; without any, the module may run.

    Raises:
        SyntaxError: The text is not Python.
    """
    tree = ast.parse(source)
    meanings = _meanings(tree)
    found = {*_at_top(tree, meanings), *_mutations(tree)}
    for node in ast.walk(tree):
        found.update(_breaches_at(node, meanings))
    return tuple(sorted(found))


def _meanings(tree: ast.Module) -> dict[str, str]:
    """Map each imported name to its dotted path."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                found[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for name in _local_names(tree):
        found.setdefault(name, f"<local>.{name}")
    for name in _data_file_names(tree, found):
        found[name] = _DATA_FILE
    return found


def _data_file_names(tree: ast.Module, meanings: dict[str, str]) -> list[str]:
    """Return the names that a module binds to data files at its top."""
    return [
        statement.targets[0].id
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.Call)
        and dotted(statement.value.func, meanings) == CARRIED_FILE
    ]


def _local_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def dotted(node: ast.AST, meanings: dict[str, str]) -> str | None:
    """Return the dotted path of an expression; None if it is not a plain name."""
    match node:
        case ast.Name(id=name):
            return meanings.get(name, name)
        case ast.Attribute(value=value, attr=attr):
            base = dotted(value, meanings)
            return None if base is None else f"{base}.{attr}"
        case _:
            return None


def _breaches_at(node: ast.AST, meanings: dict[str, str]) -> Iterator[Breach]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield from _module_breach(alias.name, node.lineno)
        case ast.ImportFrom(module=str(module)):
            yield from _module_breach(module, node.lineno)
        case ast.Name(id=name, ctx=ast.Load()) if name in _BUILTINS and name not in meanings:
            yield Breach(line=node.lineno, what=name, why=_BUILTINS[name])
        case ast.Global(names=names):
            yield Breach(line=node.lineno, what=names[0], why="is changed", carried=True)
        case ast.Call():
            yield from _call_breach(node, meanings)
        case ast.Attribute(attr=attr) if _dunder(attr):
            yield Breach(line=node.lineno, what=attr, why="reaches behind objects")
        case _:
            return


def _dunder(attr: str) -> bool:
    allowed = {"__init__", "__name__", "__len__", "__doc__", "__class__", "__annotations__"}
    return attr.startswith("__") and attr.endswith("__") and attr not in allowed


def _module_breach(module: str, line: int) -> Iterator[Breach]:
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        if name in _MODULES:
            yield Breach(line=line, what=name, why=_MODULES[name])
            return


def _call_breach(node: ast.Call, meanings: dict[str, str]) -> Iterator[Breach]:
    path = dotted(node.func, meanings)
    if path is None:
        return
    if path in _CALLS:
        if _CALLS[path] != _REACHES_FILE or not _reads_data_file(node, meanings):
            yield Breach(line=node.lineno, what=path, why=_CALLS[path])
    elif path in _SEEDED:
        if not node.args and not node.keywords:
            yield Breach(line=node.lineno, what=path, why="draws at random without a seed")
    elif path.startswith(_RANDOM):
        yield Breach(line=node.lineno, what=path, why="draws at random without a seed")


def _reads_data_file(node: ast.Call, meanings: dict[str, str]) -> bool:
    """Whether the first argument of a call is an opened data file of the project."""
    match node.args:
        case [ast.Call(func=func), *_]:
            return dotted(func, meanings) == _OPENED
        case _:
            return False


def carried_names(source: str) -> tuple[str | None, ...]:
    """Return the names of the data files that a text asks for; None for one that is not a literal.

    Raises:
        SyntaxError: The text is not Python.
    """
    tree = ast.parse(source)
    meanings = _meanings(tree)
    found: set[str | None] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func, meanings) == CARRIED_FILE:
            match node.args, node.keywords:
                case [ast.Constant(value=str(name))], []:
                    found.add(name)
                case _:
                    found.add(None)
    return tuple(sorted(found, key=lambda name: name or ""))


def bindings(  # noqa: C901 (one case a statement)
    tree: ast.Module,
) -> Iterator[tuple[str, ast.stmt]]:
    """Yield each name that a module binds at its top, with the statement that binds it.

    Raises:
        UnknownSyntaxError: A top-level statement does not bind a name that can be carried.
    """
    for statement in tree.body:
        match statement:
            case ast.ImportFrom(module="__future__"):
                continue
            case ast.Import(names=names):
                for alias in names:
                    yield (alias.asname or alias.name.split(".")[0]), statement
            case ast.ImportFrom(names=names):
                for alias in names:
                    yield (alias.asname or alias.name), statement
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, statement
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name, statement
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                yield name, statement
            case _:
                raise UnknownSyntaxError(type(statement).__name__, statement.lineno)


def _at_top(tree: ast.Module, meanings: dict[str, str]) -> Iterator[Breach]:
    """Refuse top-level statements except those that bind names that can be carried."""
    try:
        statements = [*bindings(tree)]
    except UnknownSyntaxError as error:
        yield Breach(
            line=error.line,
            what=error.construct,
            why="has no effect at the top level",
            carried=True,
        )
        return
    bound: dict[str, ast.stmt] = {}
    for name, statement in statements:
        if name in bound:
            yield Breach(
                line=statement.lineno, what=name, why="is bound more than once", carried=True
            )
        bound[name] = statement
    for name, statement in statements:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            call = _unknown_call(statement.value, meanings, frozenset(bound))
            if call is not None:
                yield Breach(
                    line=statement.value.lineno,
                    what=name,
                    why=f"is built by a call of `{call}`",
                    carried=True,
                )


def _unknown_call(value: ast.expr, meanings: dict[str, str], bound: frozenset[str]) -> str | None:
    if isinstance(value, ast.Lambda):
        return None
    for node in ast.walk(value):
        if isinstance(node, ast.Call):
            path = dotted(node.func, meanings) or "an expression"
            if path not in _PURE_CALLS or (path in bound and path in _BUILTIN_NAMES):
                return path
    return None


def _mutations(tree: ast.Module) -> Iterator[Breach]:
    """Find constants that code changes, as one row's result would depend on other rows."""
    constants = {
        statement.targets[0].id
        for statement in tree.body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    }
    for node in ast.walk(tree):
        name = _changed_name(node)
        if name in constants and isinstance(node, ast.expr):
            yield Breach(line=node.lineno, what=name or "", why="is changed", carried=True)


def _changed_name(node: ast.AST) -> str | None:
    match node:
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name
        case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in _MUTATORS:
            return name
        case _:
            return None

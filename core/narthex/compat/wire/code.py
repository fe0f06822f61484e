"""Code from the messages of Fennel's client: source text, which is only parsed here.

The client sends the text of a function and of the functions that it includes. It also sends a
generated program with the text of whole classes, which is left unread. The names that a function
uses are resolved as the client's generated program would resolve them: from its includes, the
structs and datasets of the commit, the members of its own class, and a list of imports.
"""

import ast
import textwrap
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from narthex._base.canonical_source import HEADER
from narthex._base.origin import Origin
from narthex._ir.code import UserCode
from narthex._ir.types import Struct
from narthex._sdk.closure import requirements_of
from narthex._sdk.closure.capture import PYTHON, UNREADABLE, reason_of
from narthex._sdk.closure.names import free_names
from narthex._sdk.closure.own_class import NAME, attributes_of
from narthex.compat.wire.pipeline_messages import CodeMessage
from narthex.errors import CodeForbidden, CodeNotCarried, DefinitionError, raise_all

_IMPORTS: Final[Mapping[str, str]] = {
    "pd": "import pandas as pd\n",
    "np": "import numpy as np\n",
    **{name: f"import {name}\n" for name in ("json", "math", "os", "random", "re", "sys", "time")},
    "date": "from datetime import date\n",
    "datetime": "from datetime import datetime\n",
    "defaultdict": "from collections import defaultdict\n",
    "Enum": "from enum import Enum\n",
    "bucketize": "from narthex.bucketing import bucketize\n",
    "secrets": "import narthex.secrets as secrets\n",
    **{name: f"from typing import {name}\n" for name in typing.__all__},
    **{
        name: f"from narthex.declare.windows import {name}\n"
        for name in ("Continuous", "Hopping", "Session", "Tumbling")
    },
    **{
        name: f"from narthex.expr import {name}\n"
        for name in ("col", "from_epoch", "lit", "make_struct", "now", "repeat", "var", "when")
    },
}
"""The names that code can use without an import, as the client's generated programs have them."""

_ENTRY: Final = "entry"


@attrs.frozen(kw_only=True)
class CodeScope:
    """The definitions of a commit that its code can use.

    Attributes:
        datasets: The names of the datasets.
        structs: The structs, by name.
    """

    datasets: frozenset[str]
    structs: Mapping[str, Struct]


@attrs.frozen(kw_only=True)
class OwnCode:
    """The place of code in a commit.

    Attributes:
        what: Its description, for messages.
        members: The fields or features of the class whose body contains it.
        class_text: The text of that class, without its extractors.
        takes_class: Whether the class is its first argument, as it is of an extractor.
        includes: Functions that its pipeline includes.
    """

    what: str
    origin: Origin
    members: frozenset[str] = frozenset()
    class_text: str = ""
    takes_class: bool = False
    includes: Sequence[CodeMessage] = ()


@attrs.frozen(kw_only=True)
class _Function:
    """A function as text.

    Attributes:
        parameter: The name of its first parameter; empty without one.
    """

    name: str
    text: str
    parameter: str


def user_code(message: CodeMessage, scope: CodeScope, own: OwnCode) -> UserCode:
    """Return a function as self-contained text.

    Raises:
        DefinitionErrors: It uses names that the client does not send, or is not a function.
    """
    try:
        entry = _function(message.text, _ENTRY)
        module = _Module(scope, own, dict(_included([*message.includes, *own.includes])))
        module.add(entry)
        if own.takes_class:
            module.add_own_class(attributes_of(entry.text, entry.parameter))
        raise_all(module.errors)
        source = module.render()
        return UserCode(
            entry=entry.name,
            source=source,
            requires=requirements_of(source),
            python=PYTHON,
            origin=own.origin,
        ).rewritten()
    except UNREADABLE as error:
        why = reason_of(error)
        raise_all([CodeForbidden(f"{own.what} cannot be read: {why}", origin=own.origin)])
        raise


def _included(messages: Sequence[CodeMessage]) -> Iterator[tuple[str, CodeMessage]]:
    for message in messages:
        yield message.entry_point, message
        yield from _included(message.includes)


def _function(text: str, lambda_name: str) -> _Function:
    """Parse a text that is one function or one lambda; leave out its decorators.

    Raises:
        ValueError: It is another text.
        SyntaxError: It is not Python.
    """
    plain = textwrap.dedent(text).strip("\n")
    match ast.parse(plain).body:
        case [ast.Expr(value=ast.Lambda() as node)]:
            written = ast.get_source_segment(plain, node)
            return _Function(
                name=lambda_name, text=f"{lambda_name} = ({written})\n", parameter=_first(node)
            )
        case [ast.FunctionDef(name=name) as node]:
            written = ast.get_source_segment(plain, node)
            return _Function(name=name, text=f"{written}\n", parameter=_first(node))
        case _:
            raise ValueError("it is not one plain function")


def _first(node: ast.Lambda | ast.FunctionDef) -> str:
    parameters = [*node.args.posonlyargs, *node.args.args]
    return parameters[0].arg if parameters else ""


def _functions_in(class_text: str) -> dict[str, _Function]:
    """Return the class methods and static methods of a class, by name."""
    plain = textwrap.dedent(class_text)
    found: dict[str, _Function] = {}
    for cls in ast.parse(plain).body:
        for node in cls.body if isinstance(cls, ast.ClassDef) else ():
            match node:
                case ast.FunctionDef(decorator_list=[ast.Name(id="classmethod")], name=name):
                    parameter = _first(node)
                case ast.FunctionDef(decorator_list=[ast.Name(id="staticmethod")], name=name):
                    parameter = ""
                case _:
                    continue
            text = ast.unparse(node) + "\n"
            found[name] = _Function(name=name, text=text, parameter=parameter)
    return found


def _attributes_of_class(function: _Function) -> frozenset[str]:
    return attributes_of(function.text, function.parameter or NAME)


@attrs.define
class _Module:
    """The text of a module, in dependency order, and the errors of the names in it."""

    _scope: CodeScope
    _own: OwnCode
    _includes: Mapping[str, CodeMessage]
    errors: list[DefinitionError] = attrs.field(factory=list)
    _imports: dict[str, str] = attrs.field(factory=dict)
    _items: dict[str, str] = attrs.field(factory=dict)
    _open: set[str] = attrs.field(factory=set)

    def add(self, function: _Function) -> None:
        """Add a function after all that it uses."""
        self._open.add(function.name)
        self._resolve_all(function.text)
        self._open.discard(function.name)
        self._items.setdefault(function.name, function.text)

    def render(self) -> str:
        """Return the text: the imports, then the rest."""
        return "".join([HEADER, *self._imports.values(), *(f"\n{t}" for t in self._items.values())])

    def _resolve_all(self, text: str) -> None:
        for name in free_names(text):
            if name not in self._open and name not in self._items and name not in self._imports:
                self._resolve(name, text)

    def _resolve(self, name: str, text: str) -> None:
        if name in self._includes:
            self.add(_function(self._includes[name].text, name))
        elif name in self._scope.datasets:
            self._imports["reference"] = "from narthex.lookups import reference\n"
            self._items[name] = f"{name} = reference({name!r})\n"
        elif name in self._scope.structs:
            members = "".join(f", {f.name!r}" for f in self._scope.structs[name].fields)
            self._imports["struct_of"] = "from narthex.declare.structs import struct_of\n"
            self._items[name] = f"{name} = struct_of({name!r}{members})\n"
        elif name == NAME:
            self.add_own_class(attributes_of(text, NAME))
        elif name in _IMPORTS:
            self._imports[name] = _IMPORTS[name]
        else:
            self._refuse(f"the name `{name}`")

    def add_own_class(self, used: frozenset[str]) -> None:
        """Add the class that contains the code: its used functions, and fields as their names."""
        functions = {function.name: function for function in self._own_functions(used)}
        for function in functions.values():
            used |= _attributes_of_class(function)
            self._resolve_all(function.text)
        for name in sorted(used - self._own.members - functions.keys()):
            self._refuse(f"the member `{name}` of its class")
        parts = [f"{name} = {name!r}\n" for name in sorted(used & self._own.members)]
        parts += [function.text for function in functions.values()]
        if parts:
            self._items[NAME] = f"class {NAME}:\n{textwrap.indent(''.join(parts), '    ')}"

    def _own_functions(self, used: frozenset[str]) -> Iterator[_Function]:
        """Yield the used functions of the class, and those that they use in turn, each once."""
        known = _functions_in(self._own.class_text) if used else {}
        pending, seen = sorted(used), set[str]()
        while pending:
            name = pending.pop(0)
            if name in known and name not in seen:
                seen.add(name)
                yield known[name]
                pending += sorted(_attributes_of_class(known[name]))

    def _refuse(self, what: str) -> None:
        self.errors.append(
            CodeNotCarried(
                f"{self._own.what} uses {what}, which Fennel's client does not send",
                origin=self._own.origin,
                hint="pass it as a column, import it in the function, or `@includes` a function",
            )
        )

"""The class whose body contains code: the meaning of `cls` there, and its text in a commit."""

import ast
import textwrap
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Final

import attrs

from narthex._sdk.closure.functions import find_function

NAME: Final = "cls"
"""The name of the class in captured text; an extractor receives the class."""


@attrs.frozen(eq=False, slots=False)
class OwnClass:
    """The `cls` argument of a pipeline: the fields of its dataset and the functions beside it.

    Attributes:
        cls: The author's class.
        fields: Its fields, or its features, by name.
    """

    cls: type
    fields: Mapping[str, object]

    def __getattr__(self, name: str) -> object:
        """Return a field, or a function of the class."""
        if name in self.fields:
            return self.fields[name]
        function = self.function(name)
        if function is None:
            raise AttributeError(
                f"`{self.cls.__name__}` has no field and no function `{name}`; it has "
                f"{', '.join(self.fields)}"
            )
        found: object = getattr(self.cls, name)
        return found

    def function(self, name: str) -> FunctionType | None:
        """Return a function of the class body, whatever decorates it; None if there is none."""
        found = vars(self.cls).get(name)
        if isinstance(found, classmethod | staticmethod):
            found = found.__func__
        return found if isinstance(found, FunctionType) else None


@attrs.frozen(kw_only=True)
class CarriedClass:
    """The text of a class with only the used members.

    Attributes:
        functions: Its functions, whose text may use other names.
        missing: Names that are used but not defined.
    """

    text: str
    functions: tuple[FunctionType, ...]
    missing: tuple[str, ...]


def attributes_of(text: str, name: str) -> frozenset[str]:
    """Return the attributes of a name that a text reads: `name.this`."""
    return frozenset(
        node.attr
        for node in ast.walk(ast.parse(textwrap.dedent(text)))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    )


def carry(own: OwnClass, used: frozenset[str]) -> CarriedClass:
    """Write a class with only its used members: a field as its name, a function as its text."""
    functions = dict(_functions(own, used))
    wanted = used.union(*(_used_by(function) for function in functions.values()))
    fields = sorted(name for name in wanted if name in own.fields)
    parts = [f"{name} = {name!r}\n" for name in fields]
    for function in functions.values():
        file, node = find_function(function)
        parts.append(file.segment(node, decorators=True))
    body = textwrap.indent("".join(parts) or "pass\n", "    ")
    return CarriedClass(
        text=f"class {NAME}:\n{body}",
        functions=tuple(functions.values()),
        missing=tuple(sorted(wanted - functions.keys() - own.fields.keys())),
    )


def _functions(own: OwnClass, used: frozenset[str]) -> Iterator[tuple[str, FunctionType]]:
    """Yield the used functions and those that they use in turn, each once."""
    seen: set[str] = set()
    pending = sorted(used)
    while pending:
        name = pending.pop(0)
        function = None if name in seen or name in own.fields else own.function(name)
        seen.add(name)
        if function is not None:
            yield name, function
            pending += sorted(_used_by(function))


def _used_by(function: FunctionType) -> frozenset[str]:
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    file, node = find_function(function)
    return attributes_of(file.segment(node), parameters[0]) if parameters else frozenset()

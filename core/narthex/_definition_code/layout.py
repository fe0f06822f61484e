"""The layout of generated code: calls, blocks, functions of authors, structs."""

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from narthex._base.canonical_source import HEADER
from narthex._ir import Struct, UserCode, codes_in
from narthex._ir.type_names import annotation

WIDTH: Final = 88
"""How many characters a call may have in one line."""

INDENT: Final = "    "


def call(name: str, arguments: Sequence[str]) -> str:
    """Write a call in one line, or with an argument in each line if it is too long."""
    line = f"{name}({', '.join(arguments)})"
    if len(line) <= WIDTH and "\n" not in line:
        return line
    listed = indented("".join(f"{one},\n" for one in arguments))
    return f"{name}(\n{listed})"


def indented(text: str, levels: int = 1) -> str:
    """Indent each line of a text that has characters."""
    margin = INDENT * levels
    return "".join(f"{margin}{line}" if line.strip() else line for line in text.splitlines(True))


def keywords(pairs: Mapping[str, object]) -> list[str]:
    """Write keyword arguments by their `repr`, with double quotes where that changes nothing."""
    return [f"{name}={written(value)}" for name, value in pairs.items()]


def written(value: object) -> str:
    """Write a constant as Python."""
    if isinstance(value, str):
        quoted = repr(value)
        return quoted if '"' in value or "\\" in quoted else f'"{value}"'
    if isinstance(value, float) and repr(value) in {"inf", "-inf", "nan"}:
        return f'float("{value!r}")'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    return repr(value)


def documentation(text: str) -> str:
    """Write a description as a docstring; empty without one."""
    if not text:
        return ""
    if '"""' in text or "\\" in text or text.endswith('"'):
        return f"{text!r}\n"
    return f'"""{text}"""\n'


def described(text: str) -> str:
    """Write a description as the docstring of a class, with an empty line after it."""
    return f"{documentation(text)}\n" if text else ""


def bare(expression: str) -> str:
    """Return an expression without parentheses around all of it."""
    if not expression.startswith("("):
        return expression
    tree = ast.parse(expression, mode="eval").body
    inner = expression[1:-1]
    is_whole = tree.col_offset > 0 and tree.end_col_offset == len(expression) - 1
    return inner if is_whole and not isinstance(tree, ast.Tuple) else expression


@attrs.define
class FunctionNames:
    """The functions of authors in one definition, each with a name that no other one has."""

    _names: dict[UserCode, str] = attrs.field(factory=dict)

    def add(self, codes: Iterable[UserCode]) -> None:
        """Take functions; those that are equal have one name."""
        for code in codes:
            if code not in self._names:
                taken = set(self._names.values())
                numbered = (f"{code.entry}_{number}" for number in range(2, len(taken) + 3))
                free = (name for name in (code.entry, *numbered) if name not in taken)
                self._names[code] = next(free)

    def of(self, code: UserCode) -> str:
        """Return the name of a function."""
        return self._names[code]

    def text(self) -> str:
        """Write all functions, each below the place from which it was taken."""
        return "".join(
            f"# {code.origin}\n{_renamed(code, name)}\n\n\n" for code, name in self._names.items()
        )


def _renamed(code: UserCode, name: str) -> str:
    """Return the source of a function under another name, where two have the same."""
    head, body = split_entry(code)
    return f"{head}{body.replace(f'def {code.entry}(', f'def {name}(', 1)}".strip("\n")


def split_entry(code: UserCode) -> tuple[str, str]:
    """Return all that the source of a function has besides its own `def`, and that."""
    source = code.source.removeprefix(HEADER)
    lines = source.splitlines(keepends=True)
    found = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == code.entry
    ]
    if not found:
        return "", source
    entry = found[-1]
    first = min([entry.lineno, *(one.lineno for one in entry.decorator_list)]) - 1
    rest = [*lines[:first], *lines[entry.end_lineno :]]
    return "".join(rest), "".join(lines[first : entry.end_lineno])


def functions_of(values: Iterable[object]) -> FunctionNames:
    """Return the functions in some records."""
    names = FunctionNames()
    for value in values:
        names.add(codes_in(value))
    return names


def structs_text(values: Iterable[object]) -> str:
    """Write the structs that the types in some records name, inner ones first."""
    found: dict[str, Struct] = {}
    for value in values:
        for one in _structs_in(value):
            found.setdefault(one.name, one)
    return "".join(
        f"@struct\nclass {name}:\n"
        + indented("".join(f"{one.name}: {annotation(one.type)}\n" for one in struct.fields))
        + "\n\n"
        for name, struct in found.items()
    )


def _structs_in(value: object) -> Iterable[Struct]:
    if isinstance(value, tuple):
        for item in value:
            yield from _structs_in(item)
        return
    for field in getattr(type(value), "__attrs_attrs__", ()):
        yield from _structs_in(getattr(value, field.name))
    if isinstance(value, Struct) and value.name:
        yield value

"""Render a project as Python source that recreates it."""

import enum
from collections.abc import Iterable

import attrs

from narthex_reference.generate.project import Project

WIDTH = 96

_PROGRAM = '''"""{title}

Run it: `PYTHONPATH=. python {file}`.

{wrong}
"""

{imports}

PROJECT = {project}

if __name__ == "__main__":
    sys.exit(compared(PROJECT, judge={judge!r}, engine={engine!r}))
'''


COMPARED_BY = "narthex_reference.fuzz"
"""The module whose `compared` takes a project and the names of two engines."""


def render_program(
    project: Project,
    *,
    judge: str,
    engine: str,
    wrong: str,
    file: str,
    compared_by: str = COMPARED_BY,
) -> str:
    """Return a program that compares two engines on a project, by their names.

    Args:
        project: The project on which they differ.
        judge: The name of the engine that is right.
        engine: The name of the other one.
        wrong: The difference, for people.
        file: The file name of the program.
        compared_by: The module whose `compared` accepts both names.
    """
    names: set[tuple[str, str]] = {(compared_by, "compared")}
    text = _render(project, names, indent=0)
    return _PROGRAM.format(
        title=f"A project for which `{engine}` and `{judge}` give different answers.",
        file=file,
        wrong=wrong.replace("\\", "\\\\").replace('"""', "'''"),
        imports=_imports(names),
        project=text,
        judge=judge,
        engine=engine,
    )


def _imports(names: set[tuple[str, str]]) -> str:
    modules: dict[str, set[str]] = {}
    for module, name in names:
        modules.setdefault(module, set()).add(name)
    lines = [
        f"from {module} import {', '.join(sorted(found))}"
        for module, found in sorted(modules.items())
    ]
    return "\n".join(["import sys", "", *lines])


def render_value(value: object) -> str:
    """Render a record, an enum member, a tuple, a dict or a scalar as Python source."""
    return _render(value, set(), indent=0)


def _render(value: object, names: set[tuple[str, str]], *, indent: int) -> str:
    match value:
        case enum.Enum():
            names.add((type(value).__module__, type(value).__name__))
            return f"{type(value).__name__}.{value.name}"
        case tuple():
            parts = [_render(one, names, indent=indent + 4) for one in value]
            return _joined("(", parts, ")", indent, trailing=len(parts) == 1)
        case dict():
            parts = [f"{k!r}: {_render(v, names, indent=indent + 4)}" for k, v in value.items()]
            return _joined("{", parts, "}", indent)
        case _ if attrs.has(type(value)):
            names.add((type(value).__module__, type(value).__name__))
            parts = [
                f"{name}={_render(one, names, indent=indent + 4)}" for name, one in _said(value)
            ]
            return _joined(f"{type(value).__name__}(", parts, ")", indent)
        case _:
            return repr(value)


def _said(value: object) -> Iterable[tuple[str, object]]:
    """Return the fields of a record that differ from their defaults."""
    for field in attrs.fields(type(value)):  # type: ignore[arg-type]
        found = getattr(value, field.name)
        if field.default is attrs.NOTHING or found != field.default:
            yield field.name, found


def _joined(begin: str, parts: list[str], end: str, indent: int, *, trailing: bool = False) -> str:
    line = begin + ", ".join(parts) + ("," if trailing else "") + end
    if len(line) + indent <= WIDTH and "\n" not in line:
        return line
    inner = " " * (indent + 4)
    return begin + "\n" + "".join(f"{inner}{part},\n" for part in parts) + " " * indent + end

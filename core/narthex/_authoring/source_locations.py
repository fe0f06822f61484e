"""The positions of definitions in an author's file, and the source text there."""

import ast
import functools
import inspect
import linecache
import sys
import traceback
from pathlib import Path
from types import CodeType, FrameType

import attrs

from narthex._base.origin import NOWHERE, Origin

_OURS = str(Path(__file__).resolve().parents[1])


def shown_path(file: str) -> str:
    """Render a path, relative to the working directory if it is below it."""
    path = Path(file)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file


def place(file: str, line: int) -> Origin:
    """Return the origin of a line of a file."""
    return Origin(file=shown_path(file), line=line)


def author_frame(*, beyond: str = "") -> FrameType | None:
    """Return the innermost frame of the author's code; None without one.

    Args:
        beyond: A package whose code is not the author's, as it adds a kind of connector.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 (the documented way to a caller)
    while frame is not None and (
        frame.f_code.co_filename.startswith(_OURS) or _is_in(frame, beyond)
    ):
        frame = frame.f_back
    return frame


def _is_in(frame: FrameType, package: str) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return bool(package) and (module == package or module.startswith(f"{package}."))


def calling_package() -> str:
    """Return the package whose code called the caller of this function."""
    names = sys._getframe(2).f_globals  # noqa: SLF001 (the documented way to a caller)
    return str(names.get("__package__") or names.get("__name__", ""))


def author_origin(*, beyond: str = "") -> Origin:
    """Return the line of the author's file that made the call.

    Args:
        beyond: See `author_frame`.
    """
    frame = author_frame(beyond=beyond)
    return NOWHERE if frame is None else place(frame.f_code.co_filename, frame.f_lineno)


def code_of(function: object) -> CodeType | None:
    """Return the code of a plain function."""
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def function_origin(function: object) -> Origin:
    """Return the first line of a function, decorators included; of what a wrapper wraps."""
    code = code_of(inspect.unwrap(function) if callable(function) else function)
    return NOWHERE if code is None else place(code.co_filename, code.co_firstlineno)


def failure_origin(error: BaseException, *, fallback: Origin, folder: Path | None = None) -> Origin:
    """Return the innermost line of the author's own code that an error passed through.

    Args:
        error: What was raised, with its traceback.
        fallback: The result without such a line; its file is the author's.
        folder: A project, all of whose files but installed packages are the author's.
    """
    found = fallback
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        inside = (
            folder is not None and file.is_relative_to(folder) and "site-packages" not in file.parts
        )
        origin = place(str(file), line)
        if inside or origin.file == fallback.file:
            found = origin
    return found


@attrs.frozen(kw_only=True)
class ClassPlaces:
    """The position of a class body and of its members.

    Attributes:
        origin: The class's own line.
        members: The lines of annotated names.
        comments: The comment blocks directly above them.
    """

    origin: Origin
    members: dict[str, Origin]
    comments: dict[str, str]

    def of(self, name: str) -> Origin:
        """Return the position of a member, otherwise of the class."""
        return self.members.get(name, self.origin)


def class_places(name: str, frame: FrameType | None) -> ClassPlaces:
    """Return the places of the class that a frame is defining.

    If its source cannot be read, each member gets the frame's line.
    """
    if frame is None:
        return ClassPlaces(origin=NOWHERE, members={}, comments={})
    file, line = frame.f_code.co_filename, frame.f_lineno
    lines = linecache.getlines(file)
    found = _class_at(lines, name, line)
    if found is None:
        return ClassPlaces(origin=place(file, line), members={}, comments={})
    members = {
        statement.target.id: statement.lineno
        for statement in found.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }
    return ClassPlaces(
        origin=place(file, found.lineno),
        members={member: place(file, at) for member, at in members.items()},
        comments={member: _comment_above(lines, at) for member, at in members.items()},
    )


@functools.lru_cache(maxsize=64)
def parsed(text: str) -> ast.Module | None:
    """Return the tree of a file's text; None if it is not Python.

    The tree is cached, as each class and each function of a file needs it.
    """
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


@functools.lru_cache(maxsize=64)
def _classes(text: str) -> tuple[ast.ClassDef, ...]:
    tree = parsed(text)
    return tuple(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)) if tree else ()


def _class_at(lines: list[str], name: str, line: int) -> ast.ClassDef | None:
    for node in _classes("".join(lines)):
        if node.name == name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first <= line <= (node.end_lineno or line):
                return node
    return None


def _comment_above(lines: list[str], line: int) -> str:
    block: list[str] = []
    for text in reversed(lines[: line - 1]):
        stripped = text.strip()
        if not stripped.startswith("#"):
            break
        block.append(stripped.lstrip("#").strip())
    return "\n".join(reversed(block))

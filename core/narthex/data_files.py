"""Data files of a project that authors' code reads: models, lists, tables.

A file is read once, when its line in the author's module runs. Its content then belongs to the
code that uses it: it is sent with that code, its SHA-256 is part of the code's fingerprint, and it
is the same wherever the code runs. Only the author's process opens the file.
"""

import io
import os
import posixpath
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Protocol

import attrs

from narthex._authoring.error_collection import report
from narthex._authoring.project_directories import project_directory
from narthex._authoring.source_locations import author_frame, place
from narthex._base.origin import NOWHERE
from narthex.errors import DataFileInvalid

MOST_BYTES: Final = 8 << 20
"""The most bytes of all data files of a commit; a file counts once for each function that uses it.

A commit with its files is one request, which has at most 16 MiB.
"""

READ_FILES: Final = "NARTHEX_READ_FILES"
"""The variable with the path of a file to which each declaration appends the paths that it reads.

Each path is followed by a null character. `narthex dev` watches them.
"""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\\]")


class ContentProvider(Protocol):
    """Finds the content of a data file by its name in code; None where there is none."""

    def __call__(self, name: str) -> bytes | None: ...


_PROVIDER: ContextVar[ContentProvider | None] = ContextVar("narthex_data_files", default=None)


@contextmanager
def provided_by(provider: ContentProvider) -> Iterator[None]:
    """Find the content of carried files inside the block with `provider`."""
    token = _PROVIDER.set(provider)
    try:
        yield
    finally:
        _PROVIDER.reset(token)


@attrs.frozen
class DataFile:
    """A file of the project, for the functions of its module. `data_file` makes one.

    Attributes:
        name: Its path, relative to the author's module.
    """

    name: str
    _content: bytes | None = attrs.field(default=None, repr=False)

    def read_bytes(self) -> bytes:
        """Return the content.

        Raises:
            DataFileInvalid: The file is not one of those that the running code uses.
        """
        if self._content is not None:
            return self._content
        provider = _PROVIDER.get()
        found = None if provider is None else provider(self.name)
        if found is None:
            raise DataFileInvalid(
                f"the data file `{self.name}` does not belong to the code that runs",
                hint="read it in the function that uses it",
            )
        return found

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return the content as text.

        Args:
            encoding: The name of a codec of Python.

        Raises:
            UnicodeDecodeError: The content is not text of that encoding.
        """
        return self.read_bytes().decode(encoding)

    def open(self) -> io.BytesIO:
        """Return the content as a stream of bytes, for functions that take an open file."""
        return io.BytesIO(self.read_bytes())


def data_file(path: str) -> DataFile:
    """Declare a file of the project that functions of this module use: a model, a list, a table.

    Call it at the top of the module, and read the file inside functions. The content is that of the
    moment when the module is imported. All data files of a commit have at most 8 MiB, where a file
    counts once for each function that uses it.

    Args:
        path: Relative to the author's module, with `/`; inside the project, which is the closest
            directory with a `narthex.toml`, or else the module's own.

    Raises:
        DefinitionErrors: The file does not exist, is not a regular file, is outside the project, or
            is too large.
    """
    frame = author_frame()
    origin = NOWHERE if frame is None else place(frame.f_code.co_filename, frame.f_lineno)
    module = Path(frame.f_code.co_filename if frame is not None else "")
    try:
        return _read(path, module)
    except DataFileInvalid as error:
        report([error.located(origin)])
        return DataFile("", b"")


def carried_file(name: str) -> DataFile:
    """Return a file whose content came with the code; resolved source text calls this."""
    return DataFile(name)


def _read(path: str, module: Path) -> DataFile:
    name = _relative(path)
    if not module.is_file():
        raise DataFileInvalid(
            f"the data file `{name}` is declared outside any file, so its path has no meaning",
            hint="declare it in a module of the project",
        )
    directory = module.absolute().parent
    project = project_directory(directory).resolve()
    _tell(directory.resolve(), name)
    try:
        place_of_file = (directory / name).resolve(strict=True)
        if not place_of_file.is_relative_to(project):
            raise DataFileInvalid(
                f"the data file `{name}` is `{place_of_file}`, outside the project `{project}`",
                hint="copy it into the project",
            )
        return DataFile(name, _content(name, place_of_file))
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise DataFileInvalid(
            f"the data file `{name}` cannot be read: {why}",
            hint=f"its path is relative to `{directory}`",
        ) from None


def _tell(directory: Path, name: str) -> None:
    """Append the path of a file, and the one that it links to, to those that are watched."""
    told = os.environ.get(READ_FILES)
    if told:
        path = os.path.normpath(directory / name)
        with Path(told).open("a", encoding="utf-8", errors="surrogateescape") as opened:
            opened.write(f"{path}\0{os.path.realpath(path)}\0")


def _relative(path: object) -> str:
    if not isinstance(path, str) or not path:
        raise DataFileInvalid(
            f"the path of a data file is {path!r}, not a text",
            hint='write `data_file("words.txt")`',
        )
    if path.startswith(("/", "~")) or _CONTROL.search(path):
        raise DataFileInvalid(
            f"the path of a data file is {path!r}, which is absolute, or has a backslash or a "
            "control character",
            hint="write a path relative to this module, with `/`",
        )
    return posixpath.normpath(path)


def _content(name: str, file: Path) -> bytes:
    found = file.stat()
    if not stat.S_ISREG(found.st_mode):
        raise DataFileInvalid(
            f"the data file `{name}` is not a regular file", hint="name a file of the project"
        )
    with file.open("rb") as opened:
        content = opened.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        size = max(found.st_size, len(content))
        raise DataFileInvalid(
            f"the data file `{name}` has {size} bytes; at most {MOST_BYTES} are allowed",
            hint="make it smaller, or load its rows into a dataset",
        )
    return content

"""The data files that code carries, and their agreement with its text."""

import hashlib
from collections.abc import Iterator

from narthex import data_files
from narthex._ir.code import CarriedFile, UserCode
from narthex._sdk.closure.rules import carried_names


class FileCollector:
    """The data files of one function, by name."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def add(self, file: data_files.DataFile) -> bool:
        """Add a file; return False if another one with that name has other content."""
        content = file.read_bytes()
        return self._contents.setdefault(file.name, content) == content

    def records(self) -> tuple[CarriedFile, ...]:
        """Return the files with their hashes, sorted by name."""
        return tuple(
            CarriedFile(name=name, sha256=hashlib.sha256(content).digest(), content=content)
            for name, content in sorted(self._contents.items())
        )


def disagreements(code: UserCode) -> Iterator[str]:
    """Yield what is wrong with the data files of received code, whose text is Python."""
    names = [file.name for file in code.files]
    if names != sorted(set(names)):
        yield f"the data files of `{code.entry}` are not sorted by name, each once"
    elif list(carried_names(code.source)) != names:
        yield f"the code of `{code.entry}` asks for other data files than it has"
    for file in code.files:
        if hashlib.sha256(file.content).digest() != file.sha256:
            yield f"the data file `{file.name}` of `{code.entry}` does not match its hash"

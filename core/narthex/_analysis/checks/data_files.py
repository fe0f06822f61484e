"""The size of the data files of a commit."""

from collections.abc import Iterator

from narthex._ir.code import codes_in
from narthex._ir.entities import Definitions
from narthex.data_files import MOST_BYTES
from narthex.errors import DataFileInvalid, DefinitionError


def data_file_errors(definitions: Definitions) -> Iterator[DefinitionError]:
    """Yield an error at the function whose data files exceed the most bytes of a commit.

    A file counts once for each function that uses it, as each job receives its own copy.
    """
    total = 0
    for code in codes_in((*definitions.datasets, *definitions.featuresets)):
        total += sum(len(file.content) for file in code.files)
        if total > MOST_BYTES:
            largest = max(code.files, key=lambda file: len(file.content))
            yield DataFileInvalid(
                f"with the data files of `{code.entry}`, those of all functions have more than "
                f"{MOST_BYTES} bytes; its largest is `{largest.name}` with {len(largest.content)}",
                origin=code.origin,
                hint="use a file in fewer functions, make it smaller, or load its rows into a "
                "dataset",
            )
            return

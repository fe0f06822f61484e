"""The directory of an author's project, above a file of it."""

from pathlib import Path
from typing import Final

PROJECT_FILE: Final = "narthex.toml"
"""The file that marks the directory of a project."""


def project_directory(directory: Path) -> Path:
    """Return the closest directory with a `narthex.toml`, this one or one above it.

    Without any, return the directory itself.
    """
    for above in (directory, *directory.parents):
        if (above / PROJECT_FILE).is_file():
            return above
    return directory

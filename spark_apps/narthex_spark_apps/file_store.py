"""Where the files of a source stand: below a directory, or in a bucket of an S3-compatible store.

The store's address and keys are the `AWS_…` variables of the environment; without keys it is the
store's own chain of credentials.
"""

import glob
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from pyarrow import fs

_GLOB = frozenset("*?[")
_S3 = "s3://"


class UnknownStoreError(ValueError):
    """A path of a store that is not built in."""


def is_glob(path: str) -> bool:
    """Whether a path names files by a pattern."""
    return bool(_GLOB & set(path))


def is_url(path: str) -> bool:
    """Whether a path is an address of a store."""
    return "://" in path


def open_store(
    path: str, *, environment: Mapping[str, str] | None = None
) -> tuple[fs.FileSystem, str]:
    """Give the store in which a path stands, and the path within it.

    Raises:
        UnknownStoreError: No such store is built in.
    """
    if path.startswith(_S3):
        found = os.environ if environment is None else environment
        return _s3(found), path.removeprefix(_S3)
    if is_url(path):
        scheme = urlsplit(path).scheme
        raise UnknownStoreError(f"`{path}`: files are read from paths and `s3://`, not `{scheme}`")
    return fs.LocalFileSystem(), path


def open_stream(path: str) -> IO[bytes]:
    """Open a file from its beginning to its end, without seeking.

    Raises:
        UnknownStoreError: No such store is built in.
        OSError: The file is not there, or may not be read.
    """
    store, inner = open_store(path)
    # A `NativeFile` is a binary file in all but its declared type.
    return store.open_input_stream(inner)  # type: ignore[return-value]


def open_file(path: str) -> IO[bytes]:
    """Open a file that a reader seeks in.

    Raises:
        UnknownStoreError: No such store is built in.
        OSError: The file is not there, or may not be read.
    """
    store, inner = open_store(path)
    return store.open_input_file(inner)  # type: ignore[return-value]


def _s3(environment: Mapping[str, str]) -> fs.FileSystem:
    endpoint = urlsplit(environment.get("AWS_ENDPOINT_URL", ""))
    return fs.S3FileSystem(
        access_key=environment.get("AWS_ACCESS_KEY_ID"),
        secret_key=environment.get("AWS_SECRET_ACCESS_KEY"),
        session_token=environment.get("AWS_SESSION_TOKEN"),
        region=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
        endpoint_override=endpoint.netloc or None,
        scheme="http" if endpoint.scheme == "http" else "https",
    )


def find_files(path: str, root: Path) -> tuple[str, ...]:
    """Give the files that a path or a pattern names, in the order of their paths.

    A relative path stands below `root`. A path without a pattern that names no file gives none.

    Raises:
        UnknownStoreError: No such store is built in.
        OSError: The store does not answer, or lets nobody in.
    """
    if is_url(path):
        store, inner = open_store(path)
        return tuple(_S3 + one for one in _matching(store, inner))
    whole = str(root / path)
    if is_glob(path):
        # `Path.glob` takes no pattern that begins at the root, which an author may give.
        return tuple(sorted(glob.glob(whole, recursive=True)))  # noqa: PTH207
    return (whole,) if Path(whole).is_file() else ()


def _matching(store: fs.FileSystem, pattern: str) -> list[str]:
    if not is_glob(pattern):
        found = store.get_file_info([pattern])
    else:
        parts = pattern.split("/")
        fixed = next(place for place, part in enumerate(parts) if is_glob(part))
        below = fs.FileSelector("/".join(parts[:fixed]), allow_not_found=True, recursive=True)
        named = re.compile(pattern_of(pattern))
        found = [one for one in store.get_file_info(below) if named.fullmatch(one.path)]
    return sorted(one.path for one in found if one.type is fs.FileType.File)


def pattern_of(path: str) -> str:
    """Give the regular expression of a glob: only `**` as a whole part crosses a `/`."""
    parts = path.split("/")
    translated = ""
    for place, part in enumerate(parts):
        is_last = place == len(parts) - 1
        if part == "**":
            translated += ".+" if is_last else "(?:[^/]+/)*"
        else:
            translated += _part(part) + ("" if is_last else "/")
    return translated


def _part(part: str) -> str:
    translated, rest = "", part
    while rest:
        group = re.match(r"\[(!?)([^\]]+)\]", rest)
        if group:
            inside = group[2].replace("\\", r"\\")
            translated += f"[{'^' if group[1] else ''}{inside}]"
            rest = rest[group.end() :]
            continue
        character, rest = rest[0], rest[1:]
        translated += {"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character))
    return translated

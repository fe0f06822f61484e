"""The files of a source: below a directory, or in a bucket of an S3-compatible store.

The store's address and keys are the `AWS_…` variables of the environment, unless a source has its
own keys; without keys, the store's default credential chain applies.
"""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from pyarrow import fs

from narthex._connectors import object_store
from narthex._ir import Files
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_stores import find_beneath, open_beneath

_GLOB = frozenset("*?[%")
_S3 = "s3://"
_SESSION = "AWS_SESSION_TOKEN"


class UnknownStoreError(ValueError):
    """A path names a store that is not supported."""


def is_glob(path: str) -> bool:
    """Whether a path names files by a pattern or by date directives."""
    return bool(_GLOB & set(path))


def is_url(path: str) -> bool:
    """Whether a path is the address of a store."""
    return "://" in path


def open_store(
    path: str, *, environment: Mapping[str, str] | None = None
) -> tuple[fs.FileSystem, str]:
    """Return the store that an address names, and the path within it.

    Raises:
        UnknownStoreError: The store is not supported.
    """
    if not path.startswith(_S3):
        scheme = urlsplit(path).scheme
        raise UnknownStoreError(f"`{path}`: files are read from paths and `s3://`, not `{scheme}`")
    return _s3(os.environ if environment is None else environment), path.removeprefix(_S3)


def open_stream(
    path: str, environment: Mapping[str, str] | None = None, *, root: Path
) -> IO[bytes]:
    """Open a file for one sequential read, without seeking.

    Raises:
        UnknownStoreError: The store is not supported.
        OutsideError: The file is not below the root, or is reached over a link.
        OSError: The file does not exist, or may not be read.
    """
    if not is_url(path):
        return open_beneath(root, os.path.relpath(path, root))
    store, inner = open_store(path, environment=environment)
    # A `NativeFile` is a binary file in all but its declared type.
    return store.open_input_stream(inner)  # type: ignore[return-value]


def open_file(path: str, environment: Mapping[str, str] | None = None, *, root: Path) -> IO[bytes]:
    """Open a file for reading with seeks.

    Raises:
        UnknownStoreError: The store is not supported.
        OutsideError: The file is not below the root, or is reached over a link.
        OSError: The file does not exist, or may not be read.
    """
    if not is_url(path):
        return open_beneath(root, os.path.relpath(path, root))
    store, inner = open_store(path, environment=environment)
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


def environment_of(files: Files, secrets: AuthorSecrets) -> Mapping[str, str]:
    """Return the variables with the address of a source's store and the credentials for it.

    Raises:
        SecretMissing: A secret for the store is missing.
        SecretWithheld: The store is not allowed to receive the secret.
    """
    if files.access_key is None or files.secret_key is None:
        return os.environ
    platforms = {name: value for name, value in os.environ.items() if name != _SESSION}
    to = (object_store(os.environ.get("AWS_ENDPOINT_URL", "")),)
    return platforms | {
        "AWS_ACCESS_KEY_ID": secrets.reveal(files.access_key, to),
        "AWS_SECRET_ACCESS_KEY": secrets.reveal(files.secret_key, to),
    }


def find_files(
    path: str, root: Path, environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the files that a path or a pattern names, in the order of their paths.

    A path that is not an address is relative to `root`. A path without a pattern that names no
    file yields no files. Date directives (`%Y-%m-%d`) match all dates in that format.

    Raises:
        UnknownStoreError: The store is not supported.
        OutsideError: A file is not below the root, or is reached over a link.
        OSError: The store does not answer, or denies access.
    """
    if is_url(path):
        store, inner = open_store(path, environment=environment)
        found = tuple(_S3 + one for one in _matching(store, _without_dates(inner)))
        return tuple(one for one in found if has_dates(one, path))
    if is_glob(path):
        names = find_beneath(root, _without_dates(path).rstrip("/"))
        return tuple(str(root / name) for name in names if has_dates(name, path))
    try:
        open_beneath(root, path).close()
    except FileNotFoundError:
        return ()
    return (str(root / path),)


def _without_dates(path: str) -> str:
    """Return a pattern in which each date directive matches any text."""
    return re.sub(r"(%[a-zA-Z%])+", "*", path)


def has_dates(file: str, path: str) -> bool:
    """Whether a matching file has valid dates at the date directives of the pattern."""
    return all(_date_text(piece, part) is not None for piece, part in dated_parts(file, path))


def dated_parts(file: str, path: str) -> list[tuple[str, str]]:
    """Return the parts of a matching file at date directives, each with its part of the pattern."""
    if "%" not in path:
        return []
    parts, pieces = path.split("/"), file.split("/")
    behind = parts.index("**") if "**" in parts else len(parts)
    if len(pieces) < len(parts) - 1 or any("%" in part for part in parts[behind:]):
        # `**` matches any number of parts: match the parts after it from the end.
        parts, pieces = parts[::-1], pieces[::-1]
    return [(piece, part) for part, piece in zip(parts, pieces, strict=False) if "%" in part]


def read_date(dated: Sequence[tuple[str, str]]) -> datetime | None:
    """Return the date that the parts of a file name together; None if they contradict its format.

    What they leave out is that of 1900-01-01.
    """
    texts = [_date_text(piece, part) for piece, part in dated]
    known = [text for text in texts if text is not None]
    try:
        return datetime.strptime(  # noqa: DTZ007 (dates of paths have no zone)
            "/".join(text for text, _ in known), "/".join(form for _, form in known)
        )
    except (ValueError, re.error):
        # A directive that comes twice cannot be read.
        return None


def _date_text(piece: str, part: str) -> tuple[str, str] | None:
    """Return the text of a date within a part of a file, and its format; None without one."""
    if "*" not in part:
        return (piece, part) if _is_date(piece, part) else None
    # A pattern such as `%H-*.csv`: only the text before `*` is a date.
    begin, _, end = part.partition("*")
    piece = piece.removesuffix(end)
    texts = (piece[:length] for length in range(len(piece), 0, -1))
    return next(((text, begin) for text in texts if _is_date(text, begin)), None)


def _is_date(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)  # noqa: DTZ007 (only whether it can be read)
    except ValueError:
        return False
    return True


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
    """Return the regular expression of a glob: only `**` as a whole part crosses a `/`."""
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

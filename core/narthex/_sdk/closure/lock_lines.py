"""Parse a lock of requirements: exact versions with hashes, as `uv pip compile` writes them."""

import re
from collections.abc import Iterator
from typing import Final

import attrs

from narthex._base.origin import Origin
from narthex._ir.code import MOST_HASHES, VERSION, LockedPackage
from narthex._sdk.closure.libraries import normalised
from narthex.errors import RequirementsInvalid

_PINNED: Final = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[A-Za-z0-9., _-]*\])?"
    rf"\s*==\s*(?P<version>{VERSION.pattern})(?P<rest>(\s.*)?)"
)
_HASH: Final = re.compile(r"\s+--hash=sha256:([0-9a-f]{64})(?=\s|$)")
_OTHER_HASH: Final = re.compile(r"\s--hash[= ]")
_COMMENT: Final = re.compile(r"(^|\s)#.*$")
_INDEX_OPTION: Final = re.compile(
    r"(-i|--index-url|--extra-index-url|--index|--default-index|--no-index|-f|--find-links)"
    r"(?=[\s=]|$)"
)
_EDITABLE: Final = re.compile(r"(-e|--editable)(?=[\s=]|$)")
_ADDRESS: Final = re.compile(r"://|\s@\s|^[A-Za-z0-9._-]+@|^(\.|/|~)|\.whl(\s|$)")
_COMPILE: Final = "compile it with `uv pip compile --generate-hashes`"
_FROM_INDEX: Final = "name a package of the index by its version, and compile the lock again"


@attrs.frozen(kw_only=True)
class ParsedLock:
    """The content of a lock.

    Attributes:
        packages: By name, each once.
        errors: Every mistake, at its line.
    """

    packages: dict[str, LockedPackage]
    errors: tuple[RequirementsInvalid, ...]


def parse_lock(text: str, file: str) -> ParsedLock:
    """Parse the text of a lock.

    Args:
        text: The lines of the file.
        file: Its path, for messages.
    """
    packages: dict[str, LockedPackage] = {}
    errors: list[RequirementsInvalid] = []
    indexes: list[str] = []
    for number, line in _logical_lines(text):
        origin = Origin(file=file, line=number)
        option = _INDEX_OPTION.match(line)
        if option:
            indexes.append(option[1])
            if len(indexes) > 1:
                errors.append(
                    RequirementsInvalid(
                        f"`{option[1]}` is another index option after `{indexes[0]}`, so a package "
                        "could come from either",
                        origin=origin,
                        hint="remove it: the platform has an index of its own",
                    )
                )
            continue
        read = _package(line, origin)
        if isinstance(read, LockedPackage):
            known = packages.setdefault(read.distribution, read)
            if known is not read:
                errors.append(
                    RequirementsInvalid(
                        f"`{read.distribution}` is locked twice, first in line {known.origin.line}",
                        origin=origin,
                        hint="compile it for one platform, without `--universal`",
                    )
                )
        else:
            errors.append(read)
    return ParsedLock(packages=packages, errors=tuple(errors))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each requirement or option with the number of its first line, without comments."""
    parts: list[str] = []
    first = 0
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        first = first if parts else number
        plain = _COMMENT.sub("", line).rstrip()
        if plain.endswith("\\"):
            parts.append(plain[:-1])
            continue
        joined = " ".join([*parts, plain]).strip()
        parts = []
        if joined:
            yield first, joined


def _package(line: str, origin: Origin) -> LockedPackage | RequirementsInvalid:
    found = _PINNED.fullmatch(line)
    if found is None or _ADDRESS.search(line.split(";", maxsplit=1)[0]):
        return _unreadable(line, origin)
    name, rest = normalised(found["name"]), found["rest"]
    if rest.strip().startswith(";"):
        return RequirementsInvalid(
            f"`{name}` has a condition: `{_shortened(rest.strip())}`",
            origin=origin,
            hint="compile it for one platform, without `--universal`",
        )
    hashes = frozenset(bytes.fromhex(one) for one in _HASH.findall(rest))
    unread = _HASH.sub("", rest)
    if not hashes:
        why = "no SHA-256 hash" if _OTHER_HASH.search(unread) else "no hash"
        return RequirementsInvalid(f"`{name}` has {why}", origin=origin, hint=_COMPILE)
    if unread.strip():
        return RequirementsInvalid(
            f"`{name}` has `{_shortened(unread.strip())}`, which is not a SHA-256 hash",
            origin=origin,
            hint=_COMPILE,
        )
    if len(hashes) > MOST_HASHES:
        return RequirementsInvalid(
            f"`{name}` has {len(hashes)} hashes; at most {MOST_HASHES} are allowed",
            origin=origin,
            hint="keep those of its wheels for the platform",
        )
    return LockedPackage(
        distribution=name, version=found["version"], hashes=tuple(sorted(hashes)), origin=origin
    )


def _unreadable(line: str, origin: Origin) -> RequirementsInvalid:
    shown = _shortened(line)
    if _EDITABLE.match(line):
        why, hint = "is an editable package, whose code is not in the lock", _FROM_INDEX
    elif line.startswith("-"):
        option = re.split(r"[\s=]", line, maxsplit=1)[0]
        why, hint = f"has the option `{option}`, which a lock may not have", "remove the line"
    elif _ADDRESS.search(line.split(";", maxsplit=1)[0]):
        why, hint = "names an address or a file instead of a version", _FROM_INDEX
    else:
        why, hint = "has no exact version, such as `name==1.0`", _COMPILE
    return RequirementsInvalid(f"`{shown}` {why}", origin=origin, hint=hint)


def _shortened(text: str) -> str:
    """Return the beginning of a text, without the credentials of an address."""
    plain = re.sub(r"://[^/@\s]*@", "://…@", " ".join(text.split()))
    return plain if len(plain) <= 60 else f"{plain[:59]}…"  # noqa: PLR2004

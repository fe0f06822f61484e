"""Paths of files in definitions and policies: which are refused, and which path covers another.

A path is relative to the files root, or an `s3://bucket/key`. Both may be patterns: `*`, `?`,
`[…]` and parts of dates (`%Y`) match within one part, `**` matches any number of parts.
"""

import fnmatch
import re
from typing import Final

S3: Final = "s3://"
_DATES = re.compile(r"(?:%[a-zA-Z%])+")
_CLASS = re.compile(r"\[!?[^\]\[!/]+\]")
_ESCAPED = re.compile(r"%[0-9]")
_WILD = frozenset("*?")
_MOST_PARTS: Final = 64
_MOST_CROSSING: Final = 4
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")


def path_mistake(path: str) -> str:
    """Return the mistake in a path, whatever a policy allows; empty if there is none.

    A path must not escape from the files root or its bucket in any of the ways in which a file
    system, a store or a library reads it: `..`, an absolute path, `~`, another scheme, an escape
    of a URL.
    """
    rest = path.removeprefix(S3)
    if _CONTROL.search(path):
        return "it has a control character or a backslash"
    if path.startswith(("/", "~")):
        return "it is absolute; a path is relative to the files root, or `s3://bucket/…`"
    if "://" in rest or rest.lower().startswith("file:"):
        return "it is an address; a path is relative to the files root, or `s3://bucket/…`"
    if _ESCAPED.search(path) or (path != rest and "#" in path):
        return "it has a percent escape or a `#`, which some readers interpret as another path"
    parts = _split(rest)
    if len(parts) > _MOST_PARTS or parts.count("**") > _MOST_CROSSING:
        return f"it has more than {_MOST_PARTS} parts, or more than {_MOST_CROSSING} `**`"
    if any(part in {"", ".", ".."} for part in parts):
        return "it has an empty part, `.` or `..`"
    if {"[", "]"} & set(_CLASS.sub("", rest)):
        return "it has a `[` or `]` that is not part of a choice such as `[0-9]`"
    return ""


def _split(rest: str) -> list[str]:
    return rest.removesuffix("/").split("/")


def parts_of(path: str) -> tuple[str, ...]:
    """Split a path into its parts; the first one of an `s3://` path is `s3://bucket`."""
    first, *others = _split(path.removeprefix(S3))
    return (f"{S3}{first}" if path.startswith(S3) else first, *others)


def covers(rule: str, path: str) -> bool:
    """Return whether a rule's path names all that a path names.

    A final `**` also covers the directory itself, as a table is read by the path of its directory.
    If both are patterns, the answer may be a cautious no, never a wrong yes.
    """
    is_same_store = rule.startswith(S3) is path.startswith(S3)
    return is_same_store and _cover(parts_of(rule), parts_of(path))


def meets(one: str, other: str) -> bool:
    """Return whether two paths may name a common file, or something at or below each other.

    The answer may be a cautious yes, never a wrong no.
    """
    is_same_store = one.startswith(S3) is other.startswith(S3)
    return is_same_store and _meet((*parts_of(one), "**"), (*parts_of(other), "**"))


def _meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    if not one or not other:
        return set(one) | set(other) <= {"**"}
    if one[0] == "**":
        return any(_meet(one[1:], other[taken:]) for taken in range(len(other) + 1))
    if other[0] == "**":
        return _meet(other, one)
    return _may_be_one(one[0], other[0]) and _meet(one[1:], other[1:])


def _may_be_one(one: str, other: str) -> bool:
    first, second = _widest(one), _widest(other)
    if not _WILD & set(first):
        return fnmatch.fnmatchcase(first, second)
    if not _WILD & set(second):
        return fnmatch.fnmatchcase(second, first)
    begins = (_plain_start(first), _plain_start(second))
    ends = (_plain_start(first[::-1]), _plain_start(second[::-1]))
    return all(a.startswith(b) or b.startswith(a) for a, b in (begins, ends))


def _plain_start(pattern: str) -> str:
    return re.split(r"[*?]", pattern, maxsplit=1)[0]


def _cover(rule: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    if not rule:
        return not parts
    if rule[0] == "**":
        return any(_cover(rule[1:], parts[taken:]) for taken in range(len(parts) + 1))
    if not parts or parts[0] == "**":
        return False
    return _covers_part(rule[0], parts[0]) and _cover(rule[1:], parts[1:])


def _covers_part(rule: str, part: str) -> bool:
    if rule == part:
        return True
    widest = _widest(part)
    if _WILD & set(widest) and {"?", "["} & set(rule):
        return False
    return fnmatch.fnmatchcase(widest, rule)


def _widest(part: str) -> str:
    """Return a pattern of `*` and `?` alone that matches whatever a part of a path matches."""
    return _CLASS.sub("?", _DATES.sub("*", part))

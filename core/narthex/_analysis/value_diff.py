"""Find and describe the first difference in the meaning of two values."""

import hashlib
from itertools import takewhile, zip_longest
from typing import Final

import attrs
from typing_extensions import override

from narthex._base.canonical import encode, identity_fields
from narthex._base.records import Value
from narthex._base.times import render_duration, render_instant
from narthex._ir.code import CarriedFile, LockedPackage, UserCode
from narthex._ir.type_names import type_name
from narthex._ir.types import DataType

_ABSENT: Final = object()
"""Marks an item that one of two values lacks."""
_SHOWN = 60
_SHOWN_OF_HASH = 12
_NOTHING: Final = "nothing"

_DURATIONS: Final = frozenset({"duration", "lookback", "stride", "gap", "history"})
_INSTANTS: Final = frozenset({"since", "until"})
"""Fields with microseconds, besides those whose names end with `_us`."""


@attrs.frozen(kw_only=True)
class ValueDiff:
    """One difference between two values.

    Attributes:
        path: Field by field from the outside, such as `schema.fields.amount.type`.
        old: The old value, rendered.
        new: The new value, rendered.
    """

    path: str
    old: str
    new: str

    @override
    def __str__(self) -> str:
        if self.old == _NOTHING:
            return f"`{self.path}` is new"
        if self.new == _NOTHING:
            return f"`{self.path}` is removed"
        return f"`{self.path}` was {self.old}, is {self.new}"


def difference(old: Value, new: Value, *, path: str = "") -> ValueDiff | None:
    """Return the first difference of two values; None if they mean the same."""
    if encode(old) == encode(new):
        return None
    if isinstance(old, UserCode) and isinstance(new, UserCode):
        return _of_code(old, new, path)
    if isinstance(old, tuple) and isinstance(new, tuple):
        return _of_items(old, new, path)
    if type(old) is type(new) and attrs.has(type(old)) and not isinstance(old, DataType):
        return _of_fields(old, new, path)
    name = path.rpartition(".")[2]
    return ValueDiff(
        path=path.removesuffix("_us"), old=_rendered(old, name), new=_rendered(new, name)
    )


def _of_fields(old: Value, new: Value, path: str) -> ValueDiff | None:
    cls = type(old)
    if not attrs.has(cls):
        return None
    for _, name in identity_fields(cls):
        found = difference(getattr(old, name), getattr(new, name), path=_join(path, name))
        if found is not None:
            return found
    return None


def _of_items(old: tuple[Value, ...], new: tuple[Value, ...], path: str) -> ValueDiff | None:
    """Compare items: those of equal names if all have names, otherwise those of equal positions."""
    was, now = _by_name(old), _by_name(new)
    if was is None or now is None:
        pairs = [*zip_longest(old, new, fillvalue=_ABSENT)]
    else:
        pairs = [(was.get(name, _ABSENT), item) for name, item in now.items()]
        pairs += [(item, _ABSENT) for name, item in was.items() if name not in now]
        # New and removed items first: other differences often follow from them.
        pairs.sort(key=lambda pair: _ABSENT not in pair)
    for position, (one, other) in enumerate(pairs):
        here = _join(path, _name_of(one if other is _ABSENT else other, position))
        if len(old) == len(new) == 1 and here.endswith(".0"):
            here = path
        if one is _ABSENT or other is _ABSENT:
            return ValueDiff(path=here, old=_rendered(one), new=_rendered(other))
        found = difference(one, other, path=here)
        if found is not None:
            return found
    return ValueDiff(path=path, old=_in_order(old), new=_in_order(new))


def _in_order(items: tuple[Value, ...]) -> str:
    return f"`{', '.join(_name_of(item, at) for at, item in enumerate(items))}`"


def _by_name(items: tuple[Value, ...]) -> dict[str, Value] | None:
    """Map items by their names; None if some have none, or two have the same."""
    names = [_own_name(item) for item in items]
    named = {name: item for name, item in zip(names, items, strict=True) if name is not None}
    return named if len(named) == len(items) else None


def _of_code(old: UserCode, new: UserCode, path: str) -> ValueDiff:
    if old.source == new.source:
        found = _of_files(old, new, path) or _of_packages(old, new, path)
        if found is not None:
            return found
    lines = zip_longest(old.source.splitlines(), new.source.splitlines(), fillvalue="")
    changed = [(one.strip(), other.strip()) for one, other in lines if one.strip() != other.strip()]
    was, now = changed[0] if changed else (old.entry, new.entry)
    where = _join(path, new.entry)
    first = _excerpt_start(was, now)
    return ValueDiff(path=where, old=_excerpt(was, first), new=_excerpt(now, first))


def _excerpt_start(was: str, now: str) -> int:
    """Return where excerpts of two lines begin, so that both have the first difference."""
    pairs = zip(was, now, strict=False)
    differs = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return 0 if differs < _SHOWN // 2 else differs - _SHOWN // 3


def _excerpt(line: str, first: int) -> str:
    return f"`{'…' if first else ''}{line[first : first + _SHOWN]}`"


def _of_files(old: UserCode, new: UserCode, path: str) -> ValueDiff | None:
    """Return the first data file that differs, by the beginning of its hash."""
    was = {file.name: file for file in old.files}
    for file in new.files:
        before = was.get(file.name, file)
        if before.sha256 != file.sha256:
            return ValueDiff(
                path=f"{_join(path, new.entry)}: data file {file.name}",
                old=_content_text(before),
                new=_content_text(file),
            )
    return None


def _of_packages(old: UserCode, new: UserCode, path: str) -> ValueDiff | None:
    """Return the first package of the lock that differs."""
    was = {one.distribution: one for one in old.locked}
    now = {one.distribution: one for one in new.locked}
    for name in sorted(was.keys() | now.keys()):
        before, after = was.get(name), now.get(name)
        if before is None or after is None or encode(before) != encode(after):
            is_same = before and after and before.version == after.version
            return ValueDiff(
                path=f"{_join(path, new.entry)}: package {name}",
                old=_package_text(before, with_hash=bool(is_same)),
                new=_package_text(after, with_hash=bool(is_same)),
            )
    return None


def _package_text(package: LockedPackage | None, *, with_hash: bool) -> str:
    if package is None:
        return _NOTHING
    if not with_hash:
        return f"`{package.version}`"
    digest = hashlib.sha256(b"".join(package.hashes)).hexdigest()[:_SHOWN_OF_HASH]
    return f"`{package.version}` ({len(package.hashes)} hashes, `{digest}`)"


def _content_text(file: CarriedFile) -> str:
    return f"`sha256:{file.sha256.hex()[:_SHOWN_OF_HASH]}` ({len(file.content)} bytes)"


def _name_of(value: Value, position: int) -> str:
    name = _own_name(value)
    return str(position) if name is None else name


def _own_name(value: Value) -> str | None:
    for field in ("name", "column", "into"):
        found = getattr(value, field, None)
        if isinstance(found, str):
            return found
    return None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _rendered(value: Value, field: str = "") -> str:
    """Render a value; with the name of its field, microseconds as people write them."""
    if value is _ABSENT:
        return _NOTHING
    if field.endswith("_us") or field in _DURATIONS:
        is_instant = field.removesuffix("_us") in _INSTANTS
        if type(value) is int:
            return f"`{render_instant(value) if is_instant else render_duration(value)}`"
        if value is None:
            return "`forever`" if field.removesuffix("_us") in _DURATIONS else "none"
    if isinstance(value, DataType):
        return f"`{type_name(value)}`"
    name = getattr(value, "name", None)
    text = name if isinstance(name, str) and attrs.has(type(value)) else repr(value)
    return f"`{text[:_SHOWN]}`"

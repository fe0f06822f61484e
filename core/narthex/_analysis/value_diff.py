"""Find and describe the first difference in the meaning of two values."""

from itertools import zip_longest
from typing import Final

import attrs
from typing_extensions import override

from narthex._base.canonical import encode, identity_fields
from narthex._base.records import Value
from narthex._ir.code import UserCode
from narthex._ir.type_names import type_name
from narthex._ir.types import DataType

_ABSENT: Final = object()
"""Marks an item that one of two values lacks."""
_SHOWN = 60


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
    return ValueDiff(path=path, old=_rendered(old), new=_rendered(new))


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
    for position, (one, other) in enumerate(zip_longest(old, new, fillvalue=_ABSENT)):
        if one is _ABSENT or other is _ABSENT:
            here = _join(path, _name_of(other if one is _ABSENT else one, position))
            return ValueDiff(path=here, old=_rendered(one), new=_rendered(other))
        found = difference(one, other, path=_join(path, _name_of(other, position)))
        if found is not None:
            return found
    return None


def _of_code(old: UserCode, new: UserCode, path: str) -> ValueDiff:
    lines = zip_longest(old.source.splitlines(), new.source.splitlines(), fillvalue="")
    changed = [(one.strip(), other.strip()) for one, other in lines if one.strip() != other.strip()]
    was, now = changed[0] if changed else (old.entry, new.entry)
    where = _join(path, new.entry)
    return ValueDiff(path=where, old=f"`{was[:_SHOWN]}`", new=f"`{now[:_SHOWN]}`")


def _name_of(value: Value, position: int) -> str:
    for field in ("name", "column", "into"):
        found = getattr(value, field, None)
        if isinstance(found, str):
            return found
    return str(position)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _rendered(value: Value) -> str:
    if value is _ABSENT:
        return "nothing"
    if isinstance(value, DataType):
        return f"`{type_name(value)}`"
    name = getattr(value, "name", None)
    text = name if isinstance(name, str) and attrs.has(type(value)) else repr(value)
    return f"`{text[:_SHOWN]}`"

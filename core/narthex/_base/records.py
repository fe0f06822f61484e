"""Frozen values to plain JSON and back, without loss and without code.

Every value that travels (on the wire, into the ledger, to an engine) is a frozen attrs class
registered here by name. The plain form is self-describing, so that a reader needs only the
registry; it never imports or calls anything by name. A field with metadata
``{"identity": False}`` (origins, owners, descriptions) travels but is not part of fingerprints;
a field with metadata ``{"later": True}`` is part of them only if it differs from its default;
a text with metadata ``{"exact": True}`` is part of them byte by byte.
"""

import base64
import enum
import importlib
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, TypeVar

import attrs

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"
"""A JSON value."""

Value: TypeAlias = object
"""A registered record, an enum member, a scalar, or a tuple of values."""

_T = TypeVar("_T", bound=type)
_RECORDS: dict[str, type[attrs.AttrsInstance]] = {}
_ENUMS: dict[str, type[enum.Enum]] = {}
_EARLIER: dict[str, Callable[[Mapping[str, Value]], Mapping[str, Value]]] = {}
_MORE: Final = "narthex._connectors.registry"
"""Imports the records of connectors, which are not imported before one is needed."""

DESCRIPTION = {"identity": False}
"""Metadata of a descriptive field, such as an origin or an owner, that has no part in meaning."""

LATER = {"later": True}
"""Metadata of a field added to a record later: its default means the same as its absence."""


EXACT = {"exact": True}
"""Metadata of a text of which each byte matters, in whatever Unicode form it is written."""


class UnknownRecordError(ValueError):
    """A plain value names a record that is unknown to this version."""


def record(cls: _T) -> _T:
    """Register a frozen attrs class, or an enum, under its own name."""
    known: type = cls
    if issubclass(cls, enum.Enum):
        known = _ENUMS.setdefault(cls.__name__, cls)
    elif attrs.has(cls):
        known = _RECORDS.setdefault(cls.__name__, cls)
    if known is not cls:
        raise ValueError(f"two records are named `{cls.__name__}`")
    return cls


def read_earlier(name: str, convert: Callable[[Mapping[str, Value]], Mapping[str, Value]]) -> None:
    """Let the fields of a record that an earlier release stored be converted when they are read."""
    _EARLIER[name] = convert


def made(cls: type[attrs.AttrsInstance], fields: Mapping[str, Value]) -> Value:
    """Make a record from its fields.

    Raises:
        UnknownRecordError: It has fields that this version lacks.
        TypeError: A value has another type than its field, or a field is missing.
        ValueError: A value is not allowed.
    """
    if cls.__name__ in _EARLIER:
        fields = _EARLIER[cls.__name__](fields)
    known = {field.name for field in attrs.fields(cls)}
    if unknown := sorted(set(fields) - known):
        raise UnknownRecordError(f"`{cls.__name__}` has no field `{unknown[0]}`")
    return cls(**fields)


def record_named(name: str) -> type[attrs.AttrsInstance]:
    """Return the record class of that name.

    Raises:
        UnknownRecordError: No record has the name.
    """
    if name not in _RECORDS:
        importlib.import_module(_MORE).kinds()
    try:
        return _RECORDS[name]
    except KeyError:
        raise UnknownRecordError(f"`{name}` is not a record of this version") from None


def enum_member(name: str, value: Json) -> enum.Enum:
    """Return the member of the enum of that name.

    Raises:
        UnknownRecordError: No such enum, or no such member.
    """
    try:
        return _ENUMS[name](value)
    except (KeyError, ValueError):
        raise UnknownRecordError(f"`{name}({value!r})` is not supported by this version") from None


def to_plain(value: Value) -> Json:
    """Render a value as plain JSON; `from_plain` is the inverse."""
    match value:
        case enum.Enum():
            return {"$enum": type(value).__name__, "value": value.value}
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case tuple():
            return [to_plain(item) for item in value]
        case _ if attrs.has(type(value)):
            plain: dict[str, Json] = {"$": type(value).__name__}
            for field in attrs.fields(record_named(type(value).__name__)):
                plain[field.name] = to_plain(getattr(value, field.name))
            return plain
        case _:
            raise TypeError(f"{type(value).__name__} is not a record, an enum or a scalar")


def from_plain(plain: Json) -> Value:
    """Convert a plain value back; refuse unknown records and fields.

    Raises:
        UnknownRecordError: It names a record, a field or a member that this version lacks.
    """
    match plain:
        case list():
            return tuple(from_plain(item) for item in plain)
        case {"$enum": str(name), "value": member}:
            return enum_member(name, member)
        case {"$bytes": str(text)}:
            return base64.b64decode(text, validate=True)
        case dict():
            return _from_object(plain)
        case _:
            return plain


def _from_object(plain: dict[str, Json]) -> Value:
    name = plain.get("$")
    if not isinstance(name, str):
        raise UnknownRecordError("an object without `$` is not a record")
    return _build(record_named(name), {key: item for key, item in plain.items() if key != "$"})


def _build(cls: type[attrs.AttrsInstance], fields: dict[str, Json]) -> Value:
    try:
        return made(cls, {name: from_plain(item) for name, item in fields.items()})
    except TypeError as error:
        raise UnknownRecordError(f"`{cls.__name__}`: {error}") from None

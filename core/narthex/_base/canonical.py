"""Frozen values as canonical bytes, which fingerprints hash.

A value is a type byte, a u64 length and that many bytes; all integers are big-endian.

====  ========  ==========================================================================
byte  value     bytes
====  ========  ==========================================================================
0     None      none
1     bool      one: 0 or 1
2     int       two's complement, as few bytes as hold it, at least one
3     float     IEEE-754 double; -0.0 is not 0.0, there is one NaN
4     str       UTF-8; text that is not NFC is refused, not normalised
5     bytes     the same bytes
6     tuple     its items, in order
7     enum      the name of its class (a str) and the value of its member
8     record    u8 length and name of its class; then each field: u16 id, the value
====  ========  ==========================================================================

The id of a field is its position among all fields of its class, so a new field goes last. A
field with metadata ``{"identity": False}`` is omitted; a field with metadata ``{"later": True}``
is omitted if it equals its default, so that records written before the field keep their bytes. A
text with metadata ``{"exact": True}`` is encoded as its UTF-8 bytes, of type 5, in any form.
"""

import enum
import functools
import math
import struct
import unicodedata
from typing import TypeAlias

import attrs

from narthex._base.records import Value, enum_member, record_named

Decoded: TypeAlias = (
    "None | bool | int | float | str | bytes | tuple[Decoded, ...] | enum.Enum | DecodedRecord"
)
"""The content of canonical bytes."""

NAN = struct.pack(">d", math.nan)

_HEAD = struct.Struct(">BQ")
_FIELD = struct.Struct(">H")


class NotCanonicalError(ValueError):
    """A value without canonical bytes, or bytes that do not encode a value."""


@attrs.frozen
class DecodedRecord:
    """A decoded record: the fields of its identity, by name."""

    name: str
    fields: tuple[tuple[str, Decoded], ...]


def encode(value: Value) -> bytes:
    """Encode a value as canonical bytes; two values share bytes only if they mean the same.

    Raises:
        NotCanonicalError: It is, or contains, a value of another type, or text that is not NFC.
    """
    kind, content = _content(value)
    return _HEAD.pack(kind, len(content)) + content


def identity_fields(cls: type[attrs.AttrsInstance]) -> tuple[tuple[int, str], ...]:
    """Return the ids and names of the fields that are part of a record's identity."""
    return _identity_fields(cls)


@functools.cache
def _identity_fields(cls: type[attrs.AttrsInstance]) -> tuple[tuple[int, str], ...]:
    return tuple(
        (position, field.name)
        for position, field in enumerate(attrs.fields(cls))
        if field.metadata.get("identity", True)
    )


@functools.cache
def _later_defaults(cls: type[attrs.AttrsInstance]) -> dict[str, Value]:
    return {f.name: f.default for f in attrs.fields(cls) if f.metadata.get("later", False)}


@functools.cache
def _exact_fields(cls: type[attrs.AttrsInstance]) -> frozenset[str]:
    return frozenset(f.name for f in attrs.fields(cls) if f.metadata.get("exact", False))


def _content(value: Value) -> tuple[int, bytes]:
    match value:
        case enum.Enum():
            return 7, encode(type(value).__name__) + encode(value.value)
        case None | bool() | int() | float():
            return _number(value)
        case str():
            return 4, _text(value)
        case bytes():
            return 5, value
        case tuple():
            return 6, b"".join([encode(item) for item in value])
        case _ if attrs.has(type(value)):
            return 8, _record(value)
        case _:
            raise NotCanonicalError(f"a {type(value).__name__} has no canonical bytes")


def _number(value: bool | int | float | None) -> tuple[int, bytes]:
    match value:
        case None:
            return 0, b""
        case bool():
            return 1, bytes([value])
        case int():
            size = (value if value >= 0 else ~value).bit_length() // 8 + 1
            return 2, value.to_bytes(size, "big", signed=True)
        case float():
            return 3, NAN if math.isnan(value) else struct.pack(">d", value)


def _text(value: str) -> bytes:
    if not unicodedata.is_normalized("NFC", value):
        raise NotCanonicalError(f"the text `{value!r}` is not in Unicode's form NFC")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise NotCanonicalError(f"the text `{value!r}` is not valid Unicode") from None


def _record(value: Value) -> bytes:
    cls = type(value)
    if not attrs.has(cls):
        raise NotCanonicalError(f"a {cls.__name__} is not a record")
    name = cls.__name__.encode()
    parts = [bytes([len(name)]), name]
    for position, field in identity_fields(cls):
        given = getattr(value, field)
        if field not in _later_defaults(cls) or given != _later_defaults(cls)[field]:
            exact = field in _exact_fields(cls) and isinstance(given, str)
            parts += [_FIELD.pack(position), encode(given.encode() if exact else given)]
    return b"".join(parts)


def decode(encoded: bytes) -> Decoded:
    """Decode canonical bytes, so that a test can prove that distinct values have distinct bytes.

    Raises:
        NotCanonicalError: The bytes do not encode a value.
    """
    value, rest = _decode_one(encoded)
    if rest:
        raise NotCanonicalError(f"{len(rest)} bytes follow the value")
    return value


def _decode_one(encoded: bytes) -> tuple[Decoded, bytes]:
    if len(encoded) < _HEAD.size:
        raise NotCanonicalError("the bytes end inside a value")
    kind, length = _HEAD.unpack_from(encoded)
    end = _HEAD.size + length
    if len(encoded) < end:
        raise NotCanonicalError("the bytes end inside a value")
    return _decode_content(kind, encoded[_HEAD.size : end]), encoded[end:]


def _decode_content(kind: int, content: bytes) -> Decoded:
    match kind:
        case 0 | 1 | 2 | 3:
            return _decode_number(kind, content)
        case 4:
            return content.decode()
        case 5:
            return content
        case 6:
            return _decode_items(content)
        case 7:
            name, member = _decode_items(content)
            if isinstance(name, str) and isinstance(member, str | int):
                return enum_member(name, member)
            raise NotCanonicalError("an enum without a name")
        case 8:
            return _decode_record(content)
        case _:
            raise NotCanonicalError(f"{kind} is not a type byte")


def _decode_number(kind: int, content: bytes) -> bool | int | float | None:
    match kind:
        case 0:
            return None
        case 1:
            return content != b"\x00"
        case 2:
            return int.from_bytes(content, "big", signed=True)
        case _:
            (number,) = struct.unpack(">d", content)
            return float(number)


def _decode_items(content: bytes) -> tuple[Decoded, ...]:
    items: list[Decoded] = []
    while content:
        item, content = _decode_one(content)
        items.append(item)
    return tuple(items)


def _decode_record(content: bytes) -> DecodedRecord:
    name = content[1 : 1 + content[0]].decode()
    names = dict(identity_fields(record_named(name)))
    content = content[1 + content[0] :]
    fields: list[tuple[str, Decoded]] = []
    while content:
        (position,) = _FIELD.unpack_from(content)
        value, content = _decode_one(content[_FIELD.size :])
        fields.append((names[position], value))
    return DecodedRecord(name, tuple(fields))

"""The types that a column can have: a closed union of frozen values."""

from typing import TypeAlias

import attrs

from narthex._base.records import record


@record
@attrs.frozen
class Int:
    """64-bit signed integer."""


@record
@attrs.frozen
class Float:
    """IEEE-754 double."""


@record
@attrs.frozen
class Bool:
    """True or false."""


@record
@attrs.frozen
class Str:
    """Unicode text."""


@record
@attrs.frozen
class Bytes:
    """Raw bytes."""


@record
@attrs.frozen
class Datetime:
    """An instant: microseconds since the Unix epoch, UTC."""


@record
@attrs.frozen
class Date:
    """A calendar day: days since the Unix epoch."""


@record
@attrs.frozen
class Decimal:
    """A decimal number of 28 digits, `scale` of them after the point."""

    scale: int


@record
@attrs.frozen
class List:
    """A list of `of`."""

    of: "DataType"


@record
@attrs.frozen
class Map:
    """A mapping from text to `of`."""

    of: "DataType"


@record
@attrs.frozen
class Embedding:
    """A vector of `size` floats."""

    size: int


@record
@attrs.frozen
class StructField:
    """One named member of a struct."""

    name: str
    type: "DataType"


@record
@attrs.frozen
class Struct:
    """Named members; `name` is the author's class, empty for an anonymous struct."""

    name: str
    fields: tuple[StructField, ...]


@record
@attrs.frozen
class Optional:
    """`of`, or null."""

    of: "DataType"


@record
@attrs.frozen
class Between:
    """A number within bounds."""

    of: "Int | Float"
    min: int | float
    max: int | float
    strict_min: bool = False
    strict_max: bool = False


@record
@attrs.frozen
class OneOf:
    """One of the listed values."""

    of: "Int | Str"
    options: tuple[int | str, ...]


@record
@attrs.frozen
class Regex:
    """Text that matches the pattern as a whole."""

    pattern: str


@record
@attrs.frozen
class Null:
    """The type of the literal null; columns cannot have it."""


DataType: TypeAlias = (
    Int
    | Float
    | Bool
    | Str
    | Bytes
    | Datetime
    | Date
    | Decimal
    | List
    | Map
    | Embedding
    | Struct
    | Optional
    | Between
    | OneOf
    | Regex
    | Null
)

WINDOW = Struct("Window", (StructField("begin", Datetime()), StructField("end", Datetime())))
"""The half-open span of a discrete window."""


def inner(of: DataType) -> DataType:
    """Return the type inside an Optional; any other type unchanged."""
    return of.of if isinstance(of, Optional) else of


def optional(of: DataType) -> DataType:
    """Return the Optional of a type; an Optional is not wrapped again."""
    return of if isinstance(of, Optional | Null) else Optional(of)


def unrestricted(of: DataType) -> DataType:
    """Return the type that a restriction (between, oneof, regex) restricts."""
    match of:
        case Between() | OneOf():
            return of.of
        case Regex():
            return Str()
        case _:
            return of


def base_type(of: DataType) -> DataType:
    """Return the type without restrictions, also inside Optionals, lists, maps and structs."""
    plain = unrestricted(of)
    match plain:
        case Optional():
            return optional(base_type(plain.of))
        case List():
            return List(base_type(plain.of))
        case Map():
            return Map(base_type(plain.of))
        case Struct():
            fields = (StructField(field.name, base_type(field.type)) for field in plain.fields)
            return Struct(plain.name, tuple(fields))
        case _:
            return plain

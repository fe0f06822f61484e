"""The types that a column can have, and the one traversal that every format of values uses."""

import functools
from collections.abc import Callable, Mapping
from typing import Generic, TypeAlias, TypeVar

import attrs

from narthex._base.records import record

DECIMAL_DIGITS = 28
"""The greatest number of digits of a decimal."""


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


def item_type(of: DataType) -> DataType | None:
    """Return the type of the items of a list or an embedding; None for any other type."""
    match of:
        case List():
            return of.of
        case Embedding():
            return Float()
        case _:
            return None


Restricted: TypeAlias = Between | OneOf | Regex
"""A type that allows some values of another type."""

_ParametrizedType: TypeAlias = (
    Decimal | List | Map | Embedding | Struct | Optional | Null | Restricted
)


def unrestricted(of: DataType) -> DataType:
    """Return the type that a restriction (between, oneof, regex) restricts."""
    match of:
        case Between() | OneOf():
            return of.of
        case Regex():
            return Str()
        case _:
            return of


Mapped = TypeVar("Mapped")
"""The result of a mapper for a type."""

Members: TypeAlias = Mapping[str, Mapped]
"""The results of a mapper for the members of a struct, by name and in their order."""


def same_as_inner(_: DataType, inner_result: Mapped) -> Mapped:
    """Map an Optional like the type inside it, or a restriction like its base type."""
    return inner_result


@attrs.frozen(kw_only=True, eq=False)
class TypeMapper(Generic[Mapped]):
    """Maps each type to the form of one format: a schema, a name, or a converter of cells.

    A mapper is called with a type. It maps the types inside first, and caches its results: a mapper
    to functions compiles the conversion of a type once, not once for each value. It has one entry
    for each type, so mypy reports every format that lacks a new type. The entry of a type with
    parameters is a function of the type and of the mapper's results for the types inside.

    Attributes:
        embedding: Receives the type, and the mapper's result for Float.
        null: Called for the type of the literal null; raises if the format has none.
        restricted: Receives a between, oneof or regex, and its mapped base type.
    """

    int: Mapped
    float: Mapped
    bool: Mapped
    str: Mapped
    bytes: Mapped
    datetime: Mapped
    date: Mapped
    decimal: Callable[[Decimal], Mapped]
    list: Callable[[List, Mapped], Mapped]
    map: Callable[[Map, Mapped], Mapped]
    embedding: Callable[[Embedding, Mapped], Mapped]
    struct: Callable[[Struct, Members[Mapped]], Mapped]
    optional: Callable[[Optional, Mapped], Mapped] = same_as_inner
    null: Callable[[], Mapped]
    restricted: Callable[[Restricted, Mapped], Mapped] = same_as_inner
    _cached: Callable[[DataType], Mapped] = attrs.field(init=False, repr=False)

    @_cached.default
    def _make_cache(self) -> Callable[[DataType], Mapped]:
        return functools.lru_cache(maxsize=4096)(self.uncached)

    def __call__(self, dtype: DataType) -> Mapped:
        """Return what the format makes of a type."""
        return self._cached(dtype)

    def uncached(self, dtype: DataType) -> Mapped:
        """Return it without the cache, where equal types (bounds 1 and 1.0) must stay apart."""
        match dtype:
            case Int():
                return self.int
            case Float():
                return self.float
            case Bool():
                return self.bool
            case Str():
                return self.str
            case Bytes():
                return self.bytes
            case Datetime():
                return self.datetime
            case Date():
                return self.date
            case _:
                return self._with_parameters(dtype)

    def _with_parameters(self, dtype: _ParametrizedType) -> Mapped:
        match dtype:
            case Decimal():
                return self.decimal(dtype)
            case List():
                return self.list(dtype, self.uncached(dtype.of))
            case Map():
                return self.map(dtype, self.uncached(dtype.of))
            case Embedding():
                return self.embedding(dtype, self.float)
            case Struct():
                members = {field.name: self.uncached(field.type) for field in dtype.fields}
                return self.struct(dtype, members)
            case Optional():
                return self.optional(dtype, self.uncached(dtype.of))
            case Null():
                return self.null()
            case _:
                return self.restricted(dtype, self.uncached(unrestricted(dtype)))


def _base_struct(dtype: Struct, members: Mapping[str, DataType]) -> DataType:
    return Struct(dtype.name, tuple(StructField(name, base) for name, base in members.items()))


_BASE_TYPES: TypeMapper[DataType] = TypeMapper(
    int=Int(),
    float=Float(),
    bool=Bool(),
    str=Str(),
    bytes=Bytes(),
    datetime=Datetime(),
    date=Date(),
    decimal=lambda dtype: dtype,
    list=lambda _, item: List(item),
    map=lambda _, value: Map(value),
    embedding=lambda dtype, _: dtype,
    struct=_base_struct,
    optional=lambda _, base: optional(base),
    null=Null,
)


def base_type(of: DataType) -> DataType:
    """Return the type without restrictions, also inside Optionals, lists, maps and structs."""
    return _BASE_TYPES(of)

"""Types, values and columns as Fennel's client sends them."""

from typing import ClassVar

import attrs

from narthex.compat.wire.fields import at

__all__ = [
    "ColumnMessage",
    "DataTypeMessage",
    "DatasetSchemaMessage",
    "DurationMessage",
    "EmptyMessage",
    "InstantMessage",
    "MetadataMessage",
    "SchemaMessage",
    "StructMessage",
    "ValueMessage",
]


@attrs.frozen(kw_only=True)
class EmptyMessage:
    """A message whose presence is its content."""


@attrs.frozen(kw_only=True)
class DurationMessage:
    """A duration."""

    seconds: int = at(1)
    nanos: int = at(2)

    @property
    def micros(self) -> int:
        """The duration in microseconds."""
        return self.seconds * 1_000_000 + self.nanos // 1_000


@attrs.frozen(kw_only=True)
class InstantMessage:
    """An instant, as the time since 1970."""

    seconds: int = at(1)
    nanos: int = at(2)

    @property
    def micros(self) -> int:
        """The instant in microseconds since 1970."""
        return self.seconds * 1_000_000 + self.nanos // 1_000


@attrs.frozen(kw_only=True)
class ValueMessage:
    """A constant: the first of its fields that is not None."""

    truth: bool | None = at(2)
    whole: int | None = at(3)
    number: float | None = at(4)
    text: str | None = at(5)
    instant: InstantMessage | None = at(6)


@attrs.frozen(kw_only=True)
class ListTypeMessage:
    """A list, or an optional value."""

    of: "DataTypeMessage" = at(1)


@attrs.frozen(kw_only=True)
class MapTypeMessage:
    """A mapping from text."""

    UNREAD: ClassVar = frozenset({1})
    value: "DataTypeMessage" = at(2)


@attrs.frozen(kw_only=True)
class EmbeddingMessage:
    """The size of an embedding."""

    size: int = at(2)


@attrs.frozen(kw_only=True)
class DecimalMessage:
    """The scale of a decimal."""

    scale: int = at(1)


@attrs.frozen(kw_only=True)
class BetweenMessage:
    """A number within bounds."""

    of: "DataTypeMessage" = at(1)
    min: ValueMessage = at(2)
    max: ValueMessage = at(3)
    strict_min: bool = at(4)
    strict_max: bool = at(5)


@attrs.frozen(kw_only=True)
class OneOfMessage:
    """One of some values."""

    of: "DataTypeMessage" = at(1)
    options: tuple[ValueMessage, ...] = at(2)


@attrs.frozen(kw_only=True)
class RegexMessage:
    """A text that matches a pattern."""

    pattern: str = at(1)


@attrs.frozen(kw_only=True)
class StructMessage:
    """A struct."""

    name: str = at(1)
    fields: "tuple[ColumnMessage, ...]" = at(2)


@attrs.frozen(kw_only=True)
class DataTypeMessage:
    """A type: the field that is not None."""

    int: EmptyMessage | None = at(1)
    float: EmptyMessage | None = at(2)
    str: EmptyMessage | None = at(3)
    bool: EmptyMessage | None = at(4)
    datetime: EmptyMessage | None = at(5)
    list: ListTypeMessage | None = at(6)
    map: MapTypeMessage | None = at(7)
    embedding: EmbeddingMessage | None = at(8)
    between: BetweenMessage | None = at(9)
    one_of: OneOfMessage | None = at(10)
    regex: RegexMessage | None = at(11)
    optional: ListTypeMessage | None = at(12)
    struct: StructMessage | None = at(13)
    decimal: DecimalMessage | None = at(14)
    date: EmptyMessage | None = at(15)
    bytes: EmptyMessage | None = at(16)
    null: EmptyMessage | None = at(17)


@attrs.frozen(kw_only=True)
class ColumnMessage:
    """A named column, or a member of a struct."""

    name: str = at(1)
    type: DataTypeMessage = at(2)


@attrs.frozen(kw_only=True)
class SchemaMessage:
    """Columns."""

    columns: tuple[ColumnMessage, ...] = at(1)


@attrs.frozen(kw_only=True)
class DatasetSchemaMessage:
    """The columns of a dataset, by role."""

    keys: SchemaMessage = at(1)
    values: SchemaMessage = at(2)
    timestamp: str = at(3)
    erase_keys: tuple[str, ...] = at(4)


@attrs.frozen(kw_only=True)
class MetadataMessage:
    """Metadata of an entity."""

    owner: str = at(1)
    description: str = at(2)
    tags: tuple[str, ...] = at(3)
    deprecated: bool = at(4)
    deleted: bool = at(5)

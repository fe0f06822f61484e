# mypy: disable-error-code="explicit-any"
"""Protobuf messages as frozen values: a class is the table of its fields' numbers.

protobuf decodes the bytes, with descriptors that are built from these tables. A field without a
value is empty: `""`, 0, false, an empty tuple or mapping, or None where the table allows None.
"""

import functools
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import attrs
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from narthex.errors import RecordNotUnderstood

MOST_MESSAGES: Final = 200_000
"""How many messages one body may contain; a body of 16 MiB could contain millions of empty ones."""

_PACKAGE: Final = "narthex.compat"
_NUMBER: Final = "number"
_Kind = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final[Mapping[object, int]] = {
    str: _Kind.TYPE_STRING,
    int: _Kind.TYPE_INT64,
    bool: _Kind.TYPE_BOOL,
    float: _Kind.TYPE_DOUBLE,
    bytes: _Kind.TYPE_BYTES,
}
_Read = TypeVar("_Read")


def at(number: int) -> Any:
    """Declare the number of a field; its annotation is its type."""
    return attrs.field(metadata={_NUMBER: number})


@attrs.frozen(kw_only=True)
class FieldForm:
    """The form of one field of a message.

    Attributes:
        of: The type of its value, or of each of its values.
        container: `tuple` for several values, `dict` for values by text, None for one value.
        may_be_none: Whether a missing value is distinguished from an empty one.
    """

    name: str
    number: int
    of: Any
    container: type | None = None
    may_be_none: bool = False

    @property
    def is_scalar(self) -> bool:
        """Whether the value is a text, a number, a bool or bytes."""
        return self.of in _SCALARS


@functools.cache
def _forms(cls: type) -> tuple[FieldForm, ...]:
    hints = typing.get_type_hints(cls)
    return tuple(
        _form(field.name, field.metadata[_NUMBER], hints[field.name]) for field in attrs.fields(cls)
    )


def _form(name: str, number: int, hint: Any) -> FieldForm:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return FieldForm(name=name, number=number, of=arguments[0], container=tuple)
    if origin is Mapping:
        return FieldForm(name=name, number=number, of=arguments[1], container=dict)
    if origin in {types.UnionType, typing.Union}:
        of = next(one for one in arguments if one is not types.NoneType)
        return FieldForm(name=name, number=number, of=of, may_be_none=True)
    return FieldForm(name=name, number=number, of=hint)


def _tables(root: type) -> Iterator[type]:
    """Yield a table and all tables that it refers to, each once."""
    seen: set[type] = set()
    pending = [root]
    while pending:
        cls = pending.pop()
        if cls not in seen:
            seen.add(cls)
            yield cls
            pending += [form.of for form in _forms(cls) if not form.is_scalar]


@functools.cache
def message_class(root: Any) -> type[Message]:
    """Return protobuf's class of the messages that a table describes."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{root.__name__}.proto", package=_PACKAGE, syntax="proto3"
    )
    for cls in _tables(root):
        message = file.message_type.add(name=cls.__name__)
        for form in _forms(cls):
            _describe(message, form)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found: type[Message] = message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{_PACKAGE}.{root.__name__}")
    )
    return found


def _describe(message: descriptor_pb2.DescriptorProto, form: FieldForm) -> None:
    field = message.field.add(name=form.name, number=form.number, label=_Kind.LABEL_OPTIONAL)
    if form.container is dict:
        field.label, field.type = _Kind.LABEL_REPEATED, _Kind.TYPE_MESSAGE
        entry = _describe_entry(message, form)
        field.type_name = f".{_PACKAGE}.{message.name}.{entry}"
        return
    if form.container is tuple:
        field.label = _Kind.LABEL_REPEATED
    _set_type(field, form)
    if form.may_be_none and form.is_scalar:
        # proto3 records whether such a field was sent by a oneof of its own.
        field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{form.name}")


def _describe_entry(message: descriptor_pb2.DescriptorProto, form: FieldForm) -> str:
    name = "".join(part.capitalize() for part in form.name.split("_")) + "Entry"
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_Kind.LABEL_OPTIONAL, type=_Kind.TYPE_STRING)
    _set_type(entry.field.add(name="value", number=2, label=_Kind.LABEL_OPTIONAL), form)
    return name


def _set_type(field: descriptor_pb2.FieldDescriptorProto, form: FieldForm) -> None:
    if form.is_scalar:
        field.type = _SCALARS[form.of]  # type: ignore[assignment]
    else:
        field.type, field.type_name = _Kind.TYPE_MESSAGE, f".{_PACKAGE}.{form.of.__name__}"


def read_message(cls: type[_Read], body: bytes) -> _Read:
    """Decode a message.

    Raises:
        RecordNotUnderstood: The bytes are not such a message, it has a field that its table does
            not have, or it contains too many messages.
    """
    table: Any = cls  # a class is hashable, which its type does not state
    message = message_class(table)()
    try:
        message.ParseFromString(body)
        found: _Read = _MessageReader().read(cls, message)
    except (DecodeError, UnicodeDecodeError) as error:
        raise RecordNotUnderstood(f"the body is not a commit of Fennel's client: {error}") from None
    return found


@attrs.define
class _MessageReader:
    """Converts messages to values, and counts them."""

    _count: int = 0

    def read(self, cls: Any, message: Message) -> Any:
        self._count += 1
        if self._count > MOST_MESSAGES:
            raise RecordNotUnderstood(f"the commit contains more than {MOST_MESSAGES} messages")
        unread: frozenset[int] = getattr(cls, "UNREAD", frozenset())
        unknown = UnknownFieldSet(message)
        for place in range(len(unknown)):
            number = unknown[place].field_number
            if number not in unread:
                raise RecordNotUnderstood(
                    f"a `{cls.__name__}` has the unknown field {number}",
                    hint="commit with fennel-ai 1.5.80",
                )
        return cls(**{form.name: self._field(form, message) for form in _forms(cls)})

    def _field(self, form: FieldForm, message: Message) -> Any:
        if form.may_be_none and not message.HasField(form.name):
            return None
        value = getattr(message, form.name)
        if form.container is tuple:
            return tuple(self._one(form, one) for one in value)
        if form.container is dict:
            return {name: self._one(form, value[name]) for name in sorted(value)}
        return self._one(form, value)

    def _one(self, form: FieldForm, value: Any) -> Any:
        return value if form.is_scalar else self.read(form.of, value)


def choice_of(message: Any) -> tuple[str, Any]:
    """Return the name and the value of the one field of a message that is not None.

    Raises:
        RecordNotUnderstood: All fields are None, or several are not.
    """
    names = [field.name for field in attrs.fields(type(message))]
    found = [(name, value) for name in names if (value := getattr(message, name)) is not None]
    if len(found) != 1:
        raise RecordNotUnderstood(
            f"a `{type(message).__name__}` has {len(found)} values; expected one"
        )
    return found[0]

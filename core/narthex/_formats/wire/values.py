"""Records as a flat list of messages, and back."""

import enum
from collections.abc import Sequence
from typing import Final

import attrs

from narthex._base.records import UnknownRecordError, enum_member, made, record_named
from narthex._formats.wire import commit_pb2
from narthex.errors import RecordNotUnderstood

GREATEST_NESTING: Final = 240
"""The most levels of a value, so that no recursion over one exhausts Python's stack.

A pipeline has at most 200 steps, each a level.
"""

_INT64 = range(-(1 << 63), 1 << 63)


class ValueWriter:
    """Writes values into a list of messages, each after the values that it contains.

    Equal scalars are written once.
    """

    def __init__(self) -> None:
        self.messages: list[commit_pb2.Value] = []
        self._known: dict[tuple[str, object], int] = {}

    def write(self, value: object) -> int:
        """Write a value; return its position.

        Raises:
            RecordNotUnderstood: It has a number beyond 64 bits, or a type that cannot be encoded.
        """
        match value:
            case enum.Enum():
                member = commit_pb2.Member(
                    enumeration=type(value).__name__, value=self.write(value.value)
                )
                return self._add(commit_pb2.Value(member=member))
            case tuple():
                items = [self.write(item) for item in value]
                return self._add(commit_pb2.Value(list=commit_pb2.List(items=items)))
            case _ if attrs.has(type(value)):
                return self._write_record(value)
            case _:
                return self._write_scalar(value)

    def _write_record(self, value: object) -> int:
        name = type(value).__name__
        names = [field.name for field in attrs.fields(record_named(name))]
        record = commit_pb2.Record(
            name=name, fields=names, values=[self.write(getattr(value, field)) for field in names]
        )
        return self._add(commit_pb2.Value(record=record))

    def _write_scalar(self, value: object) -> int:
        # A float is known by its text, as 0.0 == -0.0; bytes may be large.
        key = (type(value).__name__, value if isinstance(value, bytes) else repr(value))
        if key not in self._known:
            self._known[key] = self._add(_scalar(value))
        return self._known[key]

    def _add(self, message: commit_pb2.Value) -> int:
        self.messages.append(message)
        return len(self.messages) - 1


def _scalar(value: object) -> commit_pb2.Value:
    match value:
        case None:
            return commit_pb2.Value(null=commit_pb2.Null())
        case bool():
            return commit_pb2.Value(boolean=value)
        case int() if value in _INT64:
            return commit_pb2.Value(integer=value)
        case int():
            raise RecordNotUnderstood(f"the number {value} does not fit into 64 bits")
        case float():
            return commit_pb2.Value(number=value)
        case str():
            return commit_pb2.Value(text=value)
        case bytes():
            return commit_pb2.Value(raw=value)
        case _:
            raise RecordNotUnderstood(f"a `{type(value).__name__}` does not travel")


def read_values(messages: Sequence[commit_pb2.Value]) -> list[object]:
    """Decode a list of messages, first to last; each may refer only to earlier ones.

    Raises:
        RecordNotUnderstood: One has an unknown record, field or member, refers to a later one, or
            nests deeper than `GREATEST_NESTING`.
    """
    found: list[object] = []
    depths: list[int] = []
    for message in messages:
        depths.append(_depth(message, depths))
        try:
            found.append(_read(message, found))
        except UnknownRecordError as error:
            raise RecordNotUnderstood(
                str(error), hint="use a client and a server of the same version"
            ) from None
        except (TypeError, ValueError) as error:
            raise RecordNotUnderstood(f"a record cannot be made: {error}") from None
    return found


def _depth(message: commit_pb2.Value, depths: Sequence[int]) -> int:
    """Return how many levels a value has, by those of the earlier ones.

    Raises:
        RecordNotUnderstood: It has too many.
    """
    parts = (*message.list.items, *message.record.values)
    depth = 1 + max((depths[at] for at in parts if at < len(depths)), default=0)
    if depth > GREATEST_NESTING:
        raise RecordNotUnderstood(
            f"a value nests deeper than {GREATEST_NESTING} levels",
            hint="let a pipeline have fewer steps, and an expression fewer operators",
        )
    return depth


def _read(message: commit_pb2.Value, found: Sequence[object]) -> object:
    match message.WhichOneof("kind"):
        case "null":
            return None
        case "list":
            return tuple(pick(found, at) for at in message.list.items)
        case "record":
            return _read_record(message.record, found)
        case "member":
            return _read_member(message.member, found)
        case None:
            raise RecordNotUnderstood("a value has a kind that this version does not support")
        case kind:
            scalar: object = getattr(message, kind)
            return scalar


def _read_member(member: commit_pb2.Member, found: Sequence[object]) -> enum.Enum:
    value = pick(found, member.value)
    if not isinstance(value, str | int):
        raise RecordNotUnderstood(f"`{member.enumeration}` has no member {value!r}")
    return enum_member(member.enumeration, value)


def _read_record(record: commit_pb2.Record, found: Sequence[object]) -> object:
    cls = record_named(record.name)
    if len(record.fields) != len(record.values):
        raise RecordNotUnderstood(f"a `{record.name}` has fields without values")
    values = {name: pick(found, at) for name, at in zip(record.fields, record.values, strict=True)}
    return made(cls, values)


def pick(found: Sequence[object], at: int) -> object:
    """Return the value at a position that has already been read.

    Raises:
        RecordNotUnderstood: The position has not been read.
    """
    if at >= len(found):
        raise RecordNotUnderstood("a value holds one that comes later")
    return found[at]

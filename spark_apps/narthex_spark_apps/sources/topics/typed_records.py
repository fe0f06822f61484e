# mypy: disable-error-code="no-untyped-call"
"""Avro and Protobuf records as raw rows, decoded with the schema whose id precedes them.

A record starts with a zero byte and the schema's id, 4 bytes, big-endian; for Protobuf the path of
the message in the schema follows. An unreadable record becomes a refused row with its bytes.
"""

import base64
import io
import json
import struct
from collections.abc import Callable

import attrs
import fastavro
from fastavro.schema import SchemaParseException
from google.protobuf import (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import Error as JsonFormatError
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from narthex._base import Json
from narthex._ir import Encoding
from narthex_spark_apps.platform.json_values import plain
from narthex_spark_apps.sources.topics.schema_registry import (
    RegisteredSchema,
    SchemaRegistry,
    UnknownSchemaError,
)

_MAIN = "narthex.record.proto"
_UNREADABLE = (
    ArithmeticError,
    DecodeError,
    EOFError,
    IndexError,
    JsonFormatError,
    ValueError,
    struct.error,
)
"""The errors of decoders for bytes that do not match their schema."""

_HEAD = struct.Struct(">bI")
_WELL_KNOWN = {
    str(module.DESCRIPTOR.name): module.DESCRIPTOR
    for module in (
        any_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
}


class UnreadableRecordError(ValueError):
    """A record does not match the source's format; the message explains why."""


@attrs.define
class RecordDecoder:
    """Decodes records with the schemas of one registry; each schema is requested once."""

    registry: SchemaRegistry
    _known: dict[int, Callable[[memoryview], object]] = attrs.field(factory=dict)

    def row(self, value: bytes) -> dict[str, Json]:
        """Return a record as a raw row.

        Raises:
            UnreadableRecordError: The record does not match the format.
            RegistryError: The registry does not answer.
        """
        if len(value) < _HEAD.size or value[0] != 0:
            raise UnreadableRecordError("the record does not begin with a schema id")
        _, schema_id = _HEAD.unpack_from(value)
        try:
            found = self._decode(schema_id)(memoryview(value)[_HEAD.size :])
        except UnknownSchemaError as error:
            raise UnreadableRecordError(str(error)) from None
        except (SchemaParseException, TypeError, KeyError) as error:
            raise UnreadableRecordError(f"the schema {schema_id} is invalid: {error}") from error
        except _UNREADABLE as error:
            raise UnreadableRecordError(f"the record is not of schema {schema_id}") from error
        row = plain(found)
        if not isinstance(row, dict):
            raise UnreadableRecordError(f"schema {schema_id} is not a record")
        return row

    def _decode(self, schema_id: int) -> Callable[[memoryview], object]:
        if schema_id not in self._known:
            schema = self.registry.schema(schema_id)
            made = _avro if self.registry.encoding is Encoding.AVRO else _protobuf
            self._known[schema_id] = made(schema)
        return self._known[schema_id]


def _avro(schema: RegisteredSchema) -> Callable[[memoryview], object]:
    named: dict[str, object] = {}
    _name_avro(schema, named)
    parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)

    def decode(content: memoryview) -> object:
        stream = io.BytesIO(content)
        record = fastavro.schemaless_reader(stream, parsed)
        if stream.read(1):
            raise ValueError("the record has trailing bytes")
        return record

    return decode


def _name_avro(schema: RegisteredSchema, named: dict[str, object]) -> None:
    for _, referred in schema.references:
        _name_avro(referred, named)
        fastavro.parse_schema(json.loads(referred.text), named_schemas=named)


def _protobuf(schema: RegisteredSchema) -> Callable[[memoryview], object]:
    pool = DescriptorPool()
    file = _add_file(pool, schema, _MAIN, set())
    described = FileDescriptorProto()
    file.CopyToProto(described)
    names = [message.name for message in described.message_type]

    def decode(content: memoryview) -> object:
        path, rest = _message_path(content)
        message = file.message_types_by_name[names[path[0]]]
        for step in path[1:]:
            message = message.nested_types[step]
        found = GetMessageClass(message)()
        found.ParseFromString(bytes(rest))
        return MessageToDict(
            found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )

    return decode


def _add_file(
    pool: DescriptorPool, schema: RegisteredSchema, name: str, known: set[str]
) -> FileDescriptor:
    for referred_name, referred in schema.references:
        if referred_name not in known:
            known.add(referred_name)
            _add_file(pool, referred, referred_name, known)
    described = FileDescriptorProto.FromString(base64.b64decode(schema.text, validate=True))
    described.name = name
    for imported in described.dependency:
        if imported in _WELL_KNOWN and imported not in known:
            known.add(imported)
            well_known = FileDescriptorProto()
            _WELL_KNOWN[imported].CopyToProto(well_known)
            pool.Add(well_known)
    pool.Add(described)
    return pool.FindFileByName(name)


def _message_path(content: memoryview) -> tuple[list[int], memoryview]:
    """Read a message's path: its length, then each index; a single zero is the first message."""
    count, content = _varint(content)
    if count == 0:
        return [0], content
    steps = []
    for _ in range(count):
        step, content = _varint(content)
        steps.append(step)
    return steps, content


def _varint(content: memoryview) -> tuple[int, memoryview]:
    number = 0
    for place in range(10):
        number |= (content[place] & 0x7F) << (7 * place)
        if not content[place] & 0x80:
            return (number >> 1) ^ -(number & 1), content[place + 1 :]
    raise ValueError("a number is truncated")

"""The metadata of an Arrow stream, read before anything is decoded or allocated.

A stream is a sequence of messages: a schema, then batches of rows. Each has a Flatbuffers table
with the counts of rows and bytes that it claims; `judge_stream` refuses a claim that its bytes
cannot meet. `pyarrow` decodes only streams that have passed.
"""

import struct
from typing import Final

import attrs

MOST_METADATA_BYTES: Final = 1 << 20
BYTES_A_CELL: Final = 8
"""The bytes of the allowed answer that each cell inside lists, maps and structs counts for."""

_PREFIX: Final = struct.Struct("<Ii")
_CONTINUES: Final = 0xFFFFFFFF
_SCHEMA, _BATCH = 1, 3
_WORD, _SHORT, _INT, _LONG = (struct.Struct(f"<{form}") for form in "IHiq")
_PAIR: Final = struct.Struct("<qq")


class BrokenStreamError(ValueError):
    """The bytes are not the Arrow stream of one table, or claim more than allowed."""


@attrs.frozen(kw_only=True)
class Stream:
    """A checked stream.

    Attributes:
        schema: The schema message, with its prefix.
        rows: The number of rows that its batch claims.
    """

    schema: bytes
    rows: int


def judge_stream(stream: bytes, *, most_rows: int, most_bytes: int) -> Stream:
    """Read the claims of a stream: a schema and at most one batch, uncompressed.

    Raises:
        BrokenStreamError: It has another form, or claims more than it has or may have.
    """
    if len(stream) > most_bytes:
        raise BrokenStreamError(f"it has {len(stream)} bytes; at most {most_bytes} are allowed")
    try:
        return _checked(stream, most_rows=most_rows, most_cells=most_bytes // BYTES_A_CELL)
    except struct.error:
        raise BrokenStreamError("it ends in the middle of a message") from None


def _checked(stream: bytes, *, most_rows: int, most_cells: int) -> Stream:
    kind, header, body_at, end = _message(stream, 0)
    if kind != _SCHEMA or body_at != end:
        raise BrokenStreamError("it does not begin with a schema")
    schema, rows = stream[:end], 0
    if not _ends(stream, end):
        kind, header, body_at, after = _message(stream, end)
        if kind != _BATCH:
            raise BrokenStreamError("it has something else than a batch of rows")
        rows = _batch(header, body_bytes=after - body_at, most_cells=most_cells)
        end = after
    if rows > most_rows:
        raise BrokenStreamError(f"it claims {rows} rows; at most {most_rows} are allowed")
    if not _ends(stream, end):
        raise BrokenStreamError("it has more than one batch")
    return Stream(schema=schema, rows=rows)


def _ends(stream: bytes, at: int) -> bool:
    return stream[at:] in (b"", _PREFIX.pack(_CONTINUES, 0))


def _message(stream: bytes, at: int) -> tuple[int, "_FlatTable", int, int]:
    """Read one message: its kind, its table, and the start and end of its body."""
    mark, length = _PREFIX.unpack_from(stream, at)
    begin = at + _PREFIX.size
    if mark != _CONTINUES or not 0 < length <= MOST_METADATA_BYTES:
        raise BrokenStreamError("it has a message without a length")
    if begin + length > len(stream):
        raise BrokenStreamError("it ends in the middle of a message")
    metadata = stream[begin : begin + length]
    message = _FlatTable(metadata, _WORD.unpack_from(metadata, 0)[0])
    kind, header = message.byte(1), message.table(2)
    body_bytes = message.long(3)
    end = begin + length + body_bytes
    if header is None or body_bytes < 0 or end > len(stream):
        raise BrokenStreamError("it claims more bytes than it has")
    return kind, header, begin + length, end


def _batch(header: "_FlatTable", *, body_bytes: int, most_cells: int) -> int:
    """Return the number of rows that a batch claims, after all claims are checked against bounds.

    Raises:
        BrokenStreamError: It is compressed, or claims more than its bytes can contain.
    """
    rows, nodes, buffers = header.long(0), header.pairs(1), header.pairs(2)
    if header.has(3) or header.has(4):
        raise BrokenStreamError("it is compressed, or has buffers of a kind that is not allowed")
    if rows < 0 or any(not 0 <= nulls <= length for length, nulls in nodes):
        raise BrokenStreamError("it claims an impossible number of rows")
    # A column has as many cells as there are rows; bytes bound the cells inside of lists.
    if any(length > max(rows, most_cells) for length, _ in nodes):
        raise BrokenStreamError(f"it claims more than {most_cells} cells inside of lists")
    if any(at < 0 or size < 0 or at + size > body_bytes for at, size in buffers):
        raise BrokenStreamError("it claims more bytes than it has")
    if sum(size for _, size in buffers) > body_bytes:
        raise BrokenStreamError("it uses the same bytes twice")
    return rows


@attrs.frozen
class _FlatTable:
    """A Flatbuffers table: fields by number, each at an offset, or absent."""

    data: bytes
    at: int

    def has(self, number: int) -> bool:
        return self._place(number) is not None

    def byte(self, number: int) -> int:
        place = self._place(number)
        return 0 if place is None else self._read(struct.Struct("<B"), place)

    def long(self, number: int) -> int:
        place = self._place(number)
        return 0 if place is None else self._read(_LONG, place)

    def table(self, number: int) -> "_FlatTable | None":
        place = self._place(number)
        return None if place is None else _FlatTable(self.data, place + self._read(_WORD, place))

    def pairs(self, number: int) -> list[tuple[int, int]]:
        place = self._place(number)
        if place is None:
            return []
        begin = place + self._read(_WORD, place)
        count = self._read(_WORD, begin)
        first = begin + _WORD.size
        if first + count * _PAIR.size > len(self.data):
            raise BrokenStreamError("it claims more columns than it has")
        return list(_PAIR.iter_unpack(self.data[first : first + count * _PAIR.size]))

    def _place(self, number: int) -> int | None:
        offsets = self.at - self._read(_INT, self.at)
        if 4 + 2 * number + 2 > self._read(_SHORT, offsets):
            return None
        offset = self._read(_SHORT, offsets + 4 + 2 * number)
        return self.at + offset if offset else None

    def _read(self, form: struct.Struct, at: int) -> int:
        if at < 0:
            raise BrokenStreamError("it points outside of itself")
        return int(form.unpack_from(self.data, at)[0])

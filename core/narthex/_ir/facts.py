"""A fact: one state of one row, with an identity that a replay repeats."""

import struct
from typing import Final, NewType, TypeAlias

import attrs

Cell: TypeAlias = "None | bool | int | float | str | bytes | tuple[Cell, ...] | dict[str, Cell]"
"""A value of a column: instants are microseconds, dates days, decimals unscaled integers,
lists and embeddings tuples, structs and maps dicts."""

RowId = NewType("RowId", bytes)
"""The source position of a row; byte order breaks ties."""

Version = NewType("Version", bytes)
"""Orders the states of one row; the state with the greatest version, as bytes, is current."""

TOMBSTONE_TIME: Final = 2**63 - 1
"""The event time of a deleted keyed row. A fact of a known row_id with a higher version,
`alive=False` and this instant removes the row at all instants. With `alive=False` at an instant of
its own, a fact means that the key is absent from then on."""

_POSITION = struct.Struct(">IQI")


@attrs.frozen(kw_only=True)
class Fact:
    """One state of one row of a dataset.

    Attributes:
        event_time: Microseconds, UTC.
        key: Cells of the key columns, in the log's order; empty for a keyless dataset.
        values: Cells of the value columns, in the log's order.
        alive: False retracts the row (keyless) or means that the key is absent from this instant
            on (keyed); at the instant `TOMBSTONE_TIME`, that the row is deleted.
    """

    row_id: RowId
    version: Version
    event_time: int
    key: tuple[Cell, ...]
    values: tuple[Cell, ...]
    alive: bool = True


def position(
    source_id: str, partition: int, offset: int, ordinal: int = 0, rest: bytes = b""
) -> bytes:
    """Return the position of a row in a source as bytes.

    Positions sort like (source_id, partition, offset, ordinal, rest). A position is the row_id of
    an appended row and the version of an upserted one.
    """
    return source_id.encode() + b"\x00" + _POSITION.pack(partition, offset, ordinal) + rest


@attrs.frozen(kw_only=True)
class Position:
    """The position of a row in its source.

    Attributes:
        rest: Distinguishes rows of a table with the same cursor; empty for other sources.
    """

    source_id: str
    partition: int
    offset: int
    ordinal: int
    rest: bytes = b""


def parse_position(content: bytes) -> Position:
    """Parse the bytes that `position` returns.

    Raises:
        ValueError: The bytes are not a position.
    """
    source_id, separator, tail = content.partition(b"\x00")
    if not separator or len(tail) < _POSITION.size:
        raise ValueError(f"{content!r} is not a position of a row")
    partition, offset, ordinal = _POSITION.unpack_from(tail)
    return Position(
        source_id=source_id.decode(),
        partition=partition,
        offset=offset,
        ordinal=ordinal,
        rest=tail[_POSITION.size :],
    )

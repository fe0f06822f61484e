"""A fact: one state of one row, with an identity that a replay repeats."""

import struct
from typing import Final, NewType, TypeAlias

import attrs

Cell: TypeAlias = "None | bool | int | float | str | bytes | tuple[Cell, ...] | dict[str, Cell]"
"""A value of a column: instants are microseconds, dates days, decimals unscaled integers,
lists and embeddings tuples, structs and maps dicts."""

RowId = NewType("RowId", bytes)
"""Where a row came from; byte order is the order of ties."""

Version = NewType("Version", bytes)
"""Orders the states of one row; the greatest, as bytes, stands."""

TOMBSTONE_TIME: Final = 2**63 - 1
"""The event time of a keyed row that ceased to exist: a fact of a known row_id with a higher
version, `alive=False` and this instant says nothing at any instant. `alive=False` at an instant of
its own would say: absent from then on."""

_POSITION = struct.Struct(">IQI")


@attrs.frozen(kw_only=True)
class Fact:
    """One state of one row of a dataset.

    Attributes:
        event_time: Microseconds, UTC.
        key: Cells of the key columns, in the log's order; empty for a keyless dataset.
        values: Cells of the value columns, in the log's order.
        alive: False retracts the row (keyless) or says: absent from this instant (keyed); at the
            instant `TOMBSTONE_TIME`, that the row is no more.
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

    They sort like (source_id, partition, offset, ordinal, rest). It is the row_id of an appended
    row and the version of an upserted one.
    """
    return source_id.encode() + b"\x00" + _POSITION.pack(partition, offset, ordinal) + rest


@attrs.frozen(kw_only=True)
class Position:
    """Where a row stands in its source.

    Attributes:
        rest: What tells rows of a table with the same cursor apart; empty elsewhere.
    """

    source_id: str
    partition: int
    offset: int
    ordinal: int
    rest: bytes = b""


def parse_position(content: bytes) -> Position:
    """Read the bytes that `position` gives.

    Raises:
        ValueError: They are none.
    """
    source_id, separator, tail = content.partition(b"\x00")
    if not separator or len(tail) < _POSITION.size:
        raise ValueError(f"{content!r} is no position of a row")
    partition, offset, ordinal = _POSITION.unpack_from(tail)
    return Position(
        source_id=source_id.decode(),
        partition=partition,
        offset=offset,
        ordinal=ordinal,
        rest=tail[_POSITION.size :],
    )

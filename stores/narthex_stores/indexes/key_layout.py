# mypy: disable-error-code="explicit-any"
"""The layout of facts, tiles and positions as ordered keys and MessagePack values.

- `facts`: group, instant, row -> [version, alive, plain cells, row_id or nil]
- `tiles`: group, level (1 byte), tile number -> the states, one a partial whose states are small;
  where tiles are divided, one of them is the number of rows, and the levels after those of the
  ladder have the parts
  (contributions with validity intervals have no tiles; this table holds the ended ones: group,
  end, row -> as in `facts`, and the instant)
- `rows` (correctable indexes): row -> [version, key in `facts` or nil where it has no place,
  length of its group, and true if it has ended]
- `meta`: `epoch`, `spec`, and `o` + topic + 0x00 + partition -> next offset

A group is 0x00 and the key's canonical bytes; when those are longer than 200, 0x01, their first
32 and their SHA-256. A row is likewise 0x00 and the row_id, or when that is longer than 240,
0x01, its first 64 bytes and its SHA-256 (the value then has the row_id); for a keyed row it is
empty, because group and instant determine the row_id. Instants and tile numbers are 8 bytes
big-endian, plus 2^63, so that bytes sort as numbers do. A key has at most 450 bytes; LMDB allows
511.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import attrs
import msgspec
import numpy as np

from narthex._formats import (
    Conversion,
    cell_bytes,
    from_storage,
    key_encoder,
    keyed_row_id,
    to_storage,
)
from narthex._ir import TOMBSTONE_TIME, Cell, Column, Fact, IndexSpec, LogShape
from narthex_stores.facts.columns import FactColumns

Plain: TypeAlias = Any
"""A value unpacked from MessagePack."""

RawRow: TypeAlias = tuple[int, bytes, Sequence[Cell]]
"""(event_time, row_id, cells) of a row that is alive, not a tombstone."""

INSTANT_BYTES = 8
_BIAS = 1 << 63
_LAST = (1 << 64) - 1
_LONGEST_GROUP = 200
_LONGEST_ROW = 240
_instant = struct.Struct(">Q")

pack: Callable[[Plain], bytes] = msgspec.msgpack.Encoder().encode
unpack: Callable[[bytes | msgspec.Raw], Plain] = msgspec.msgpack.Decoder().decode

PackedTile: TypeAlias = list[msgspec.Raw]
"""The states of a tile, each still packed: a span needs few of them, and some are large."""

unpack_tile: Callable[[bytes], PackedTile] = msgspec.msgpack.Decoder(PackedTile).decode


def group_of(key: bytes) -> bytes:
    """Return the key prefix of a group, from its canonical bytes; no prefix begins another."""
    if len(key) <= _LONGEST_GROUP:
        return b"\x00" + key
    return b"\x01" + key[:32] + hashlib.sha256(key).digest()


def row_of(row_id: bytes) -> bytes:
    """Return a row's part of a key."""
    if len(row_id) <= _LONGEST_ROW:
        return b"\x00" + row_id
    return b"\x01" + row_id[:64] + hashlib.sha256(row_id).digest()


def instant_of(instant: int) -> bytes:
    """Return an instant's part of a key, clamped to the range of 64 bits."""
    try:
        return _instant.pack(instant + _BIAS)
    except struct.error:
        return _instant.pack(0 if instant < 0 else _LAST)


def event_time_of(key: bytes, group: bytes) -> int:
    """Read the instant of a key in `facts`."""
    instant: int = _instant.unpack_from(key, len(group))[0]
    return instant - _BIAS


def instants_of(instants: Sequence[int]) -> list[bytes]:
    """Return `instant_of` for many instants that fit in 64 bits."""
    # Flipping the sign bit adds 2^63 without leaving 64 bits.
    biased = np.array(instants, dtype=np.int64).view(np.uint64) ^ np.uint64(_BIAS)
    end_to_end = biased.astype(">u8").tobytes()
    return [end_to_end[at : at + 8] for at in range(0, len(end_to_end), INSTANT_BYTES)]


def places_of(
    groups: Sequence[bytes], instants: Sequence[int], row_ids: Sequence[bytes]
) -> list[bytes]:
    """Return the keys in `facts` of many rows that have a row_id of their own."""
    at = instants_of(instants)
    if max(map(len, row_ids), default=0) > _LONGEST_ROW:
        rows = map(row_of, row_ids)
        return [group + instant + row for group, instant, row in zip(groups, at, rows, strict=True)]
    return [
        group + instant + b"\x00" + row_id
        for group, instant, row_id in zip(groups, at, row_ids, strict=True)
    ]


def tile_keys(tiles: Sequence[tuple[bytes, int]], level: int) -> list[bytes]:
    """Return the keys of tiles of one level: of (group, number) each."""
    prefix = bytes([level])
    numbers = instants_of([number for _, number in tiles])
    return [group + prefix + number for (group, _), number in zip(tiles, numbers, strict=True)]


def tile_key(group: bytes, level: int, number: int) -> bytes:
    """Return the key of a tile."""
    return b"%b%c%b" % (group, level, instant_of(number))


def level_prefix(group: bytes, level: int) -> bytes:
    """Return the key prefix of all tiles of a level."""
    return b"%b%c" % (group, level)


@attrs.frozen(kw_only=True)
class IndexLayout:
    """The layout of one index.

    Attributes:
        grouped_by: The columns whose cells identify a group.
        columns: The columns whose cells a row stores.
        keyed: Whether a key has one row at an instant.
    """

    spec: IndexSpec
    keyed: bool = attrs.field(init=False)
    _lives: bool = attrs.field(init=False, repr=False)
    _keeps_key: bool = attrs.field(init=False, repr=False)
    grouped_by: tuple[Column, ...] = attrs.field(init=False)
    columns: tuple[Column, ...] = attrs.field(init=False)
    _places: tuple[int, ...] = attrs.field(init=False, repr=False)
    _encode_key: Callable[[Sequence[Cell]], bytes] = attrs.field(init=False, repr=False)
    _lower: tuple[tuple[int, Conversion], ...] = attrs.field(init=False, repr=False)
    _lift: tuple[tuple[int, Conversion], ...] = attrs.field(init=False, repr=False)

    @grouped_by.default
    def _choose_group(self) -> tuple[Column, ...]:
        log = self.spec.log
        named = {column.name: column for column in (*log.keys, *log.values)}
        return tuple(named[name] for name in self.spec.by) if self.spec.by else log.keys

    @columns.default
    def _choose_columns(self) -> tuple[Column, ...]:
        log = self.spec.log
        return (*log.keys, *log.values) if self._keeps_key else log.values

    @keyed.default
    def _is_keyed(self) -> bool:
        return self.spec.log.shape is LogShape.KEYED and not self.spec.by

    @_lives.default
    def _has_validity(self) -> bool:
        return self.spec.log.lives and not self.spec.by

    @_keeps_key.default
    def _must_keep_key(self) -> bool:
        # Where a row can change its key, the old key must be stored.
        return bool(self.spec.by) or (self.keyed and self.spec.correctable)

    @_places.default
    def _find_places(self) -> tuple[int, ...]:
        names = [column.name for column in self.columns]
        return tuple(names.index(name) for name in self.spec.by)

    @_encode_key.default
    def _make_encoder(self) -> Callable[[Sequence[Cell]], bytes]:
        return key_encoder(self.grouped_by)

    @_lower.default
    def _find_lower(self) -> tuple[tuple[int, Conversion], ...]:
        return _changed([to_storage(column.type) for column in self.columns])

    @_lift.default
    def _find_lift(self) -> tuple[tuple[int, Conversion], ...]:
        return _changed([from_storage(column.type) for column in self.columns])

    def group(self, cells: Sequence[Cell]) -> bytes:
        """Return the group of key cells."""
        return group_of(self._encode_key(cells))

    def has_place(self, fact: Fact) -> bool:
        """Return whether a fact has an entry in `facts`.

        A retracted row has none. In a keyed log, a tombstone has one: its key is absent from its
        instant on, unless that is `TOMBSTONE_TIME`.
        """
        return fact.alive or (self.keyed and fact.event_time != TOMBSTONE_TIME)

    def ended_key(self, fact: Fact, group: bytes) -> bytes | None:
        """Return the key of a contribution that has ended; None for one that has not."""
        end = fact.values[-1] if self._lives else None
        return group + instant_of(end) + row_of(fact.row_id) if isinstance(end, int) else None

    def locate(self, fact: Fact) -> tuple[bytes, bytes]:
        """Return the key of a fact in `facts`, and its group."""
        if self.spec.by:
            cells = (*fact.key, *fact.values)
            canonical = self._encode_key([cells[place] for place in self._places])
        else:
            canonical = self._encode_key(fact.key)
        group = group_of(canonical)
        at = group + instant_of(fact.event_time)
        if self.keyed and fact.row_id == keyed_row_id(canonical, fact.event_time):
            return at, group
        return at + row_of(fact.row_id), group

    def groups(self, keys: Sequence[Sequence[Cell]]) -> list[bytes]:
        """Return the groups of many keys, given as columns; each distinct key is encoded once."""
        if len(keys) == 1:
            (column,) = keys
            encode = cell_bytes(self.grouped_by[0].type)
            alone = {cell: group_of(encode(cell)) for cell in set(column)}
            return [alone[cell] for cell in column]
        rows = list(zip(*keys, strict=True))
        made: dict[tuple[Cell, ...], bytes] = {key: self.group(key) for key in set(rows)}
        return [made[key] for key in rows]

    def values(self, facts: FactColumns) -> list[bytes]:
        """Render the `facts` values of many contributions, whose cells are plain."""
        cells = zip(*facts.values, strict=True) if facts.values else repeat((), len(facts))
        kept = [row if len(row) > _LONGEST_ROW else None for row in facts.row_ids]
        return list(map(pack, zip(facts.versions, facts.alive, cells, kept, strict=True)))

    def fact_value(self, fact: Fact) -> bytes:
        """Render the `facts` value of a fact."""
        cells: Sequence[Cell] = (*fact.key, *fact.values) if self._keeps_key else fact.values
        if self._lower:
            cells = _converted(cells, self._lower)
        kept = fact.row_id if len(fact.row_id) > _LONGEST_ROW and not self.keyed else None
        return pack((fact.version, fact.alive, cells, kept))

    def ended_value(self, fact: Fact) -> bytes:
        """Render the stored value of a contribution that has ended."""
        return pack((*unpack(self.fact_value(fact)), fact.event_time))

    def ended_row(self, key: bytes, plain: Plain, group: bytes) -> RawRow:
        """Read a contribution that has ended from its unpacked value."""
        _, row_id, cells = self.raw_row(key, plain, group)
        return plain[4], row_id, cells

    def cells(self, plain: Plain) -> tuple[Cell, ...]:
        """Read the cells of an unpacked value."""
        if self._lift:
            return tuple(_converted(plain[2], self._lift))
        return tuple(plain[2])

    def key_cells(self, plain: Plain, given: tuple[Cell, ...]) -> tuple[Cell, ...]:
        """Read the key of a value if rows can change their key; else return the given key."""
        return self.cells(plain)[: len(self.spec.log.keys)] if self._keeps_key else given

    def value_cells(self, plain: Plain) -> tuple[Cell, ...]:
        """Read the value columns of an unpacked value."""
        cells = self.cells(plain)
        return cells[len(self.spec.log.keys) :] if self._keeps_key else cells

    def raw_row(self, key: bytes, plain: Plain, group: bytes) -> RawRow:
        """Read a row from its unpacked value."""
        event_time = event_time_of(key, group)
        row_id = plain[3] or key[len(group) + INSTANT_BYTES + 1 :]
        return event_time, row_id, self.cells(plain) if self._lift else plain[2]

    def raw_rows(self, items: Iterable[tuple[bytes, bytes]], group: bytes) -> list[RawRow]:
        """Read a group's rows from its keys and values in `facts`, without tombstones."""
        at, row_at = len(group), len(group) + INSTANT_BYTES + 1
        instant, lift = _instant.unpack_from, self._lift
        rows = [
            (instant(key, at)[0] - _BIAS, plain[3] or key[row_at:], plain[2])
            for key, plain in [(key, unpack(value)) for key, value in items]
            if plain[1]
        ]
        if not lift:
            return rows
        return [(event_time, row_id, _converted(cells, lift)) for event_time, row_id, cells in rows]


def _changed(conversions: Sequence[Conversion | None]) -> tuple[tuple[int, Conversion], ...]:
    return tuple((place, found) for place, found in enumerate(conversions) if found is not None)


def _converted(
    cells: Sequence[Cell], conversions: tuple[tuple[int, Conversion], ...]
) -> list[Cell]:
    converted = list(cells)
    for place, convert in conversions:
        cell = converted[place]
        if cell is not None:
            converted[place] = convert(cell)
    return converted

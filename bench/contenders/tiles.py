"""The store of tiles of the hand-written jobs: LMDB, by user, length and number.

It does not import Narthex, because contenders in separate environments use it too.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import msgspec

NAMES = ("user", "length", "number", "count", "sum", "price", "most")
"""The columns of a tile: three key columns and four values."""

_KEY = struct.Struct(">qq")
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode

Place = tuple[str, int, int]
"""User, length of the window in microseconds, number of the window."""


class TileStore:
    """Tiles in LMDB."""

    def __init__(self, path: Path) -> None:
        """Open a store; create an empty one if it does not exist."""
        path.mkdir(exist_ok=True)
        self._store = lmdb.open(str(path), map_size=64 << 30, metasync=False, readahead=False)

    def upsert(self, tiles: Iterable[tuple[Place, tuple[object, ...]]]) -> None:
        """Write tiles: count, sum, price and most of each position."""
        items = sorted(
            (user.encode() + b"\x00" + _KEY.pack(length, number), _pack(values))
            for (user, length, number), values in tiles
        )
        with self._store.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(items)

    def all(self) -> Iterator[tuple[Any, ...]]:
        """Yield every stored tile, with the columns of `NAMES`."""
        with self._store.begin() as transaction, transaction.cursor() as cursor:
            for key, value in cursor:
                yield (key[:-17].decode(), *_KEY.unpack(key[-16:]), *_unpack(value))

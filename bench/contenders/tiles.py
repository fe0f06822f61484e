"""The store of tiles of those who are written by hand: LMDB, by user, length and number.

It imports nothing of ours: a contender in an environment of its own uses it, too.
"""

import json
import resource
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import msgspec

NAMES = ("user", "length", "number", "count", "sum", "price", "most")
"""The columns of a tile: three that name it, four that it holds."""

_KEY = struct.Struct(">qq")
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode

Place = tuple[str, int, int]
"""User, length of the window in microseconds, number of the window."""


class TileStore:
    """Tiles in LMDB."""

    def __init__(self, path: Path) -> None:
        """Open a store, which is empty if there was none."""
        path.mkdir(exist_ok=True)
        self._store = lmdb.open(str(path), map_size=64 << 30, metasync=False, readahead=False)

    def upsert(self, tiles: Iterable[tuple[Place, tuple[object, ...]]]) -> None:
        """Put tiles: count, sum, price and most of each place."""
        items = sorted(
            (user.encode() + b"\x00" + _KEY.pack(length, number), _pack(values))
            for (user, length, number), values in tiles
        )
        with self._store.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(items)

    def all(self) -> Iterator[tuple[Any, ...]]:
        """Yield every tile that is there, as `NAMES` says."""
        with self._store.begin() as transaction, transaction.cursor() as cursor:
            for key, value in cursor:
                yield (key[:-17].decode(), *_KEY.unpack(key[-16:]), *_unpack(value))


class Stopwatch:
    """CPU and wall clock of this process since it was made."""

    def __init__(self) -> None:
        """Start."""
        self._began, self._cpu_began = time.monotonic(), _cpu_s()

    def tell(self, rows: int) -> None:
        """Print the figures as the last line; whether they are right is for who asked."""
        figures = {
            "rows": rows,
            "cpu_s": _cpu_s() - self._cpu_began,
            "wall_s": time.monotonic() - self._began,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
        }
        print(json.dumps(figures))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

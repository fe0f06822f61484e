"""The canonical bytes of keys, and the identities of keyed rows that are made of them.

The bytes of a key are those of its cells, column after column, as `narthex._formats.cells` renders
them: a big-endian u32 length and then the content of each. The encoding is injective, and no key is
a prefix of another.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Final

from narthex._formats.cells import CellBytes, WrongCellError, cell_bytes
from narthex._ir.facts import Cell, RowId
from narthex._ir.schema import Column

_BIAS: Final = 1 << 63


def key_bytes(columns: Sequence[Column], cells: Sequence[Cell]) -> bytes:
    """Render the cells of key columns as canonical bytes.

    Raises:
        WrongCellError: A cell is not of its column's type, or their numbers differ.
    """
    return key_encoder(tuple(columns))(cells)


@functools.lru_cache(maxsize=1024)
def key_encoder(columns: tuple[Column, ...]) -> Callable[[Sequence[Cell]], bytes]:
    """Return `key_bytes` for these columns, prepared for many keys."""
    encoders = tuple(cell_bytes(column.type) for column in columns)
    if len(encoders) == 1:
        return _single_key(encoders[0])

    def encode_key(cells: Sequence[Cell]) -> bytes:
        if len(cells) != len(encoders):
            raise WrongCellError(f"a key of {len(encoders)} columns, found {len(cells)} cells")
        return b"".join([encoder(cell) for encoder, cell in zip(encoders, cells, strict=True)])

    return encode_key


def _single_key(encoder: CellBytes) -> Callable[[Sequence[Cell]], bytes]:
    def encode_key(cells: Sequence[Cell]) -> bytes:
        if len(cells) != 1:
            raise WrongCellError(f"a key of one column, found {len(cells)} cells")
        return encoder(cells[0])

    return encode_key


def keyed_row_id(key: bytes, event_time: int) -> RowId:
    """Return the identity of a keyed row, made of its `key_bytes` and its instant."""
    return RowId(b"k" + len(key).to_bytes(4, "big") + key + (event_time + _BIAS).to_bytes(8, "big"))


def key_of(row_id: RowId) -> bytes:
    """Return the `key_bytes` in the identity of a keyed row."""
    return row_id[5:-8]


def instant_in(row_id: RowId) -> int:
    """Return the instant in the identity of a keyed row."""
    return int.from_bytes(row_id[-8:], "big") - _BIAS

"""Identities of the rows that steps create: deterministic, never random or from a clock.

A row_id is also the order of rows at one instant, so each rule defines an order too.
"""

from collections.abc import Iterable

from narthex._formats import key_bytes, keyed_row_id
from narthex._ir import Column, RowId
from narthex_reference.semantics.content import ContentRow, key_of


def of_key(row: ContentRow, keys: Iterable[Column], event_time: int) -> RowId:
    """Return the identity of a keyed row: its key and its instant."""
    return keyed_row_id(key_of(row, keys), event_time)


def of_element(row: ContentRow, index: int) -> RowId:
    """Return the identity of an exploded row: the row's, and which element it is."""
    return RowId(row.row_id + index.to_bytes(4, "big"))


def of_side(row: ContentRow, side: int) -> RowId:
    """Return the identity of a row of a union: the row's, and which side it is from."""
    return RowId(row.row_id + side.to_bytes(1, "big"))


def of_change(row: ContentRow, keys: tuple[Column, ...], instant: int, *, inserts: bool) -> RowId:
    """Return the identity of a row of a changelog: key, instant, and deletes before inserts."""
    cells = [row.cells[column.name] for column in keys]
    return RowId(keyed_row_id(key_bytes(keys, cells), instant) + bytes([inserts]))


def of_duplicates(by: bytes, instant: int) -> RowId:
    """Return the identity of rows that are the same: what makes them so, and from which instant.

    The instant is their own, or the beginning of their window.
    """
    return keyed_row_id(by, instant)

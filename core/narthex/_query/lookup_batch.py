"""A batch of lookups of one dataset, which requests each pair of key and instant once.

A request has one key per row, or a list of keys per row and then also a list of results.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import attrs

from narthex._ir.assets import DatasetPlan
from narthex._ir.facts import Cell
from narthex._ir.schema import Role
from narthex._query.read_plan import LookupRequest, Take
from narthex.errors import LookupImpossible

Cells: TypeAlias = Sequence[Cell]
_Key: TypeAlias = tuple[Cell, ...]
_PLAIN = frozenset({str, int, bytes, bool, float})


class FoundRow(Protocol):
    """A row that a lookup found."""

    @property
    def values(self) -> tuple[Cell, ...]:
        """The dataset's value columns, in order; aggregates are finished."""

    @property
    def event_time(self) -> int:
        """The instant from which the row is current, microseconds."""


class Lookup(Protocol):
    """Finds the rows of a dataset as of instants; None where there is no row."""

    def __call__(
        self, plan: DatasetPlan, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> "Sequence[FoundRow | None]": ...


@attrs.frozen
class RequestedKeys:
    """The keys of a request, in one sequence.

    Attributes:
        places: The index of each key's answer; None for a key with a null, which finds no row.
        sizes: The number of keys in each row's list; None if each row has one key, not a list.
    """

    keys: Sequence[_Key]
    places: Sequence[int | None]
    sizes: Sequence[int] | None

    def grouped(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Return one cell per row from one cell per key."""
        if self.sizes is None:
            return cells
        found: list[Cell] = []
        start = 0
        for size in self.sizes:
            found.append(tuple(cells[start : start + size]))
            start += size
        return found


class LookupBatch:
    """Collects the lookups of one dataset."""

    def __init__(self) -> None:
        self._places: dict[tuple[object, int], int] = {}
        self._keys: list[_Key] = []
        self._instants: list[int] = []

    def add(
        self, request: LookupRequest, columns: Mapping[str, Cells], as_of: Sequence[int]
    ) -> RequestedKeys:
        """Add the keys of all rows of a request.

        Raises:
            LookupImpossible: The lists of keys of a row differ in length.
        """
        rows = list(zip(*(columns[name] for name in request.keys), strict=True))
        if not request.is_list:
            places = [self._place(key, at) for key, at in zip(rows, as_of, strict=True)]
            return RequestedKeys(rows, places, None)
        keys: list[_Key] = []
        found: list[int | None] = []
        sizes: list[int] = []
        for row, at in zip(rows, as_of, strict=True):
            elements = _elements(row, request)
            keys += elements
            found += [self._place(key, at) for key in elements]
            sizes.append(len(elements))
        return RequestedKeys(keys, found, sizes)

    def _place(self, key: _Key, at: int) -> int | None:
        if None in key:
            return None
        # Only structs and maps are not hashable.
        hashable = key if _PLAIN.issuperset(map(type, key)) else _hashable(key)
        place = self._places.setdefault((hashable, at), len(self._keys))
        if place == len(self._keys):
            self._keys.append(key)
            self._instants.append(at)
        return place

    def answers(self, dataset: DatasetPlan, lookup: Lookup) -> "Sequence[FoundRow | None]":
        """Return the answers to all requested keys, by one read."""
        return lookup(dataset, self._keys, self._instants) if self._keys else ()


def _elements(row: _Key, request: LookupRequest) -> list[_Key]:
    lists = [cell if isinstance(cell, tuple | list) else () for cell in row]
    if len({len(one) for one in lists}) > 1:
        lengths = ", ".join(
            f"`{name}` has {len(one)}" for name, one in zip(request.keys, lists, strict=True)
        )
        raise LookupImpossible(f"lists of keys differ in length: {lengths}")
    return list(zip(*lists, strict=True))


def _hashable(cell: object) -> object:
    """Return a hashable key that is equal for equal cells: structs and maps are not hashable."""
    if type(cell) in _PLAIN:
        return cell
    if isinstance(cell, dict):
        return tuple((name, _hashable(one)) for name, one in sorted(cell.items()))
    if isinstance(cell, tuple | list):
        return tuple(_hashable(one) for one in cell)
    return cell


def taken_columns(
    takes: Sequence[Take], keys: Sequence[_Key], rows: "Sequence[FoundRow | None]"
) -> Iterator[list[Cell]]:
    """Yield a column of the rows that were found for each take, with one cell per key."""
    values = [row.values for row in rows if row is not None]
    if not values or len(values) < len(rows):
        for take in takes:
            yield _taken(take, keys, rows)
        return
    # To turn all columns at once is faster than one by one, if most of them are taken.
    turned = list(map(list, zip(*values, strict=True))) if 2 * len(takes) > len(values[0]) else None
    for take in takes:
        if take.role is not Role.VALUE:
            yield _taken(take, keys, rows)
            continue
        at = take.position
        cells = [row[at] for row in values] if turned is None else turned[at]
        yield cells if take.null is None or None not in cells else _filled(take, cells, rows)


def _taken(take: Take, keys: Sequence[_Key], rows: "Sequence[FoundRow | None]") -> list[Cell]:
    position, unseen = take.position, take.unseen
    match take.role:
        case Role.VALUE:
            cells = [unseen if row is None else row.values[position] for row in rows]
        case Role.KEY:
            cells = [
                unseen if row is None else key[position]
                for row, key in zip(rows, keys, strict=True)
            ]
        case _:
            cells = [unseen if row is None else row.event_time for row in rows]
    return cells if take.null is None or None not in cells else _filled(take, cells, rows)


def _filled(take: Take, cells: Sequence[Cell], rows: "Sequence[FoundRow | None]") -> list[Cell]:
    """Return the cells with a value in place of the nulls of rows that were found."""
    return [
        take.null if cell is None and row is not None else cell
        for row, cell in zip(rows, cells, strict=True)
    ]

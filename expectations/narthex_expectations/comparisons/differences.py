"""The differences between the values of the same keys on two sides, column by column."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from narthex._base import Json
from narthex._formats import render_cell
from narthex._ir import Cell, Column, DataType, base_type, inner, type_name, types

Key: TypeAlias = tuple[Cell, ...]
Values: TypeAlias = Mapping[Key, Mapping[str, Cell]]
"""The values of the keys that have a row, by the name of the column."""

Types: TypeAlias = Mapping[str, DataType]

MOST_EXAMPLES: Final = 10
"""How many differing values are shown, of different columns where possible."""


@attrs.frozen(kw_only=True)
class ColumnDifference:
    """How a column differs, over the keys with a row on both sides.

    Attributes:
        first_type: The type on the first side; None if that side has no such column.
        second_type: The same of the second side.
        is_shared: Whether both sides have the column.
        differing: The keys with another value.
        first_null: How many of these are null on the first side only.
        second_null: How many of these are null on the second side only.
        numbers: How many keys have a finite number on both sides.
        mean: The mean absolute difference of these numbers; None without one.
        greatest: The greatest absolute difference.
    """

    name: str
    first_type: DataType | None
    second_type: DataType | None
    is_shared: bool = True
    differing: tuple[Key, ...] = ()
    first_null: int = 0
    second_null: int = 0
    numbers: int = 0
    mean: float | None = None
    greatest: float | None = None

    def to_json(self, keys: int) -> Json:
        """Render it; shares are those of the keys with a row on both sides."""
        return {
            "column": self.name,
            "types": [
                None if one is None else type_name(one)
                for one in (self.first_type, self.second_type)
            ],
            "differ": len(self.differing) if self.is_shared else None,
            "share": len(self.differing) / max(keys, 1) if self.is_shared else None,
            "null_on_first_only": self.first_null,
            "null_on_second_only": self.second_null,
            "mean_difference": self.mean,
            "greatest_difference": self.greatest,
        }


@attrs.frozen(kw_only=True)
class Differences:
    """The differences between two sides.

    Attributes:
        compared: How many keys have a row on some side.
        same: How many have the same values in all columns that both sides have.
        differ: The keys with a row on both sides and another value.
        first_only: The keys with a row on the first side only.
        second_only: The keys with a row on the second side only.
        columns: Every column of some side.
    """

    compared: int
    same: int
    differ: tuple[Key, ...]
    first_only: tuple[Key, ...]
    second_only: tuple[Key, ...]
    columns: tuple[ColumnDifference, ...]

    @property
    def keys(self) -> tuple[Key, ...]:
        """All keys that differ."""
        return (*self.differ, *self.first_only, *self.second_only)

    def to_json(self) -> dict[str, Json]:
        """Render the counts, without any value."""
        both = self.same + len(self.differ)
        return {
            "keys": {
                "compared": self.compared,
                "same": self.same,
                "differ": len(self.differ),
                "on_first_only": len(self.first_only),
                "on_second_only": len(self.second_only),
            },
            "columns": [column.to_json(both) for column in self.columns],
        }


def compare(first: Values, second: Values, *, types_of: tuple[Types, Types]) -> Differences:
    """Compare the values of keys.

    Args:
        first: The values on the first side.
        second: The values on the second side.
        types_of: The columns of both sides, without keys.
    """
    both = [key for key in first if key in second]
    common = [name for name in types_of[0] if name in types_of[1]]
    columns, differing = [], set[Key]()
    for name in common:
        pair = _Pair(types_of[0][name], types_of[1][name])
        changed = [k for k in both if not pair.is_same(first[k][name], second[k][name])]
        differing.update(changed)
        columns.append(_difference(name, pair, both, changed, first, second))
    alone = [
        ColumnDifference(
            name=name, first_type=types_of[0].get(name), second_type=of, is_shared=False
        )
        for name, of in (
            *((name, None) for name in types_of[0] if name not in types_of[1]),
            *((name, of) for name, of in types_of[1].items() if name not in types_of[0]),
        )
    ]
    return Differences(
        compared=len(first.keys() | second.keys()),
        same=len(both) - len(differing),
        differ=tuple(key for key in both if key in differing),
        first_only=tuple(key for key in first if key not in second),
        second_only=tuple(key for key in second if key not in first),
        columns=(*columns, *alone),
    )


def examples(
    found: Differences, first: Values, second: Values, *, keys: Sequence[Column]
) -> list[dict[str, Json]]:
    """Return some differing values with their keys, as JSON: of each column in turn.

    After them are some keys with a row on one side only.
    """
    differing = [column for column in found.columns if column.differing]
    each = max(1, MOST_EXAMPLES // max(1, len(differing)))
    rendered: list[dict[str, Json]] = [
        {
            "key": plain_key(key, keys),
            "column": column.name,
            "first": _plain(first[key][column.name], column.first_type),
            "second": _plain(second[key][column.name], column.second_type),
        }
        for column in differing[:MOST_EXAMPLES]
        for key in column.differing[:each]
    ]
    for side, alone in (("first", found.first_only), ("second", found.second_only)):
        rendered += [
            {"key": plain_key(key, keys), "only_on": side} for key in alone[: MOST_EXAMPLES // 2]
        ]
    return rendered


def _plain(cell: Cell, of: DataType | None) -> Json:
    return None if of is None else render_cell(cell, of)


def plain_key(key: Key, columns: Sequence[Column]) -> Json:
    """Render a key as JSON by the names of its columns."""
    return {
        column.name: render_cell(cell, column.type)
        for column, cell in zip(columns, key, strict=True)
    }


@attrs.frozen
class _Pair:
    """The types of a column on both sides."""

    first: DataType
    second: DataType

    @property
    def _is_numeric(self) -> bool:
        return _scale(self.first) is not None and _scale(self.second) is not None

    def is_same(self, one: Cell, other: Cell) -> bool:
        """Return whether two cells are the same value: not a number is the same as itself."""
        if self.first == self.second or one is None or other is None:
            return one == other or repr(one) == repr(other)
        if self._is_numeric:
            left, right = self.numbers(one, other)
            return left == right or (math.isnan(left) and math.isnan(right))
        return render_cell(one, self.first) == render_cell(other, self.second)

    def distance(self, one: Cell, other: Cell) -> float | None:
        """Return the absolute difference of two numbers; None if there are none, or not finite."""
        if not self._is_numeric or one is None or other is None:
            return None
        left, right = self.numbers(one, other)
        distance = abs(left - right)
        return distance if math.isfinite(distance) else None

    def numbers(self, one: Cell, other: Cell) -> tuple[float, float]:
        """Return two cells as numbers."""
        return _number(one, self.first), _number(other, self.second)


def _number(cell: Cell, of: DataType) -> float:
    if not isinstance(cell, int | float):
        raise TypeError(f"{cell!r} is not a number")
    return float(cell / 10 ** (_scale(of) or 0))


def _scale(of: DataType) -> int | None:
    """Return the number of digits after the point of integers and decimals; 0 for floats."""
    match base_type(inner(of)):
        case types.Int() | types.Float():
            return 0
        case types.Decimal(scale=scale):
            return scale
        case _:
            return None


def _difference(
    name: str,
    pair: _Pair,
    both: Sequence[Key],
    changed: Sequence[Key],
    first: Values,
    second: Values,
) -> ColumnDifference:
    nulls = Counter((first[key][name] is None, second[key][name] is None) for key in changed)
    distances = [
        distance
        for key in both
        if (distance := pair.distance(first[key][name], second[key][name])) is not None
    ]
    return ColumnDifference(
        name=name,
        first_type=pair.first,
        second_type=pair.second,
        differing=tuple(changed),
        first_null=nulls[True, False],
        second_null=nulls[False, True],
        numbers=len(distances),
        mean=math.fsum(distances) / len(distances) if distances else None,
        greatest=max(distances, default=None),
    )

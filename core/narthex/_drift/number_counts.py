# mypy: disable-error-code="type-arg, misc, explicit-any"
"""Counts of numbers, with as many bits of precision as 1,024 different values need.

A state is a function of the numbers alone, whatever their order and however they were split: the
sums are exact integers, and the bits that are dropped are the fewest with which at most 1,024
values remain. Numbers are truncated towards zero, so a value stands for itself and for numbers of
the same sign up to the next value.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import numpy as np

from narthex._base.records import Json

MOST_VALUES: Final = 1024
"""The greatest number of different values in a state."""

_GREATEST_BITS: Final = 62
_UNIT_BITS: Final = 1074
"""Each double is a multiple of 2^-1074; the sums are in this unit and in its square."""


class InvalidSummaryError(ValueError):
    """A record that is not a summary of a feature."""


@attrs.frozen(kw_only=True)
class NumberCounts:
    """How often each value occurs among finite numbers.

    Attributes:
        dropped_bits: How many of the last bits of each double are dropped.
        values: The values that remain, ascending; numbers themselves if no bits are dropped.
        counts: How often each occurs.
        total: The sum of the numbers, in units of 2^-1074.
        squares: The sum of their squares, in units of 2^-2148.
        least: The least number; None without numbers.
        greatest: The greatest number.
    """

    dropped_bits: int = 0
    values: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    total: int = 0
    squares: int = 0
    least: float | None = None
    greatest: float | None = None

    @property
    def rows(self) -> int:
        """How many numbers there are."""
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """Their mean, correctly rounded; None without numbers."""
        return _quotient(self.total, self.rows << _UNIT_BITS) if self.rows else None

    @property
    def stddev(self) -> float | None:
        """Their sample standard deviation; None for fewer than two."""
        rows = self.rows
        if rows < 2:  # noqa: PLR2004
            return None
        deviations = self.squares * rows - self.total * self.total
        variance = _quotient(deviations, rows * (rows - 1) << 2 * _UNIT_BITS)
        return None if variance is None else float(np.sqrt(variance))

    def coarsened(self, dropped_bits: int) -> "NumberCounts":
        """Return the same numbers with at least so many bits dropped."""
        if dropped_bits <= self.dropped_bits:
            return self
        values, counts = _summed(truncated(np.array(self.values), dropped_bits), self.counts)
        return attrs.evolve(self, dropped_bits=dropped_bits, values=values, counts=counts)

    def plain(self) -> dict[str, Json]:
        """Return the counts as JSON."""
        return {
            "dropped_bits": self.dropped_bits,
            "values": [*self.values],
            "counts": [*self.counts],
            "total": _packed(self.total),
            "squares": _packed(self.squares),
            "least": self.least,
            "greatest": self.greatest,
        }

    @classmethod
    def of_plain(cls, plain: Json) -> "NumberCounts":
        """Read counts from JSON.

        Raises:
            InvalidSummaryError: They are none.
        """
        match plain:
            case {
                "dropped_bits": int(dropped_bits),
                "values": list(values),
                "counts": list(counts),
                "total": total,
                "squares": squares,
                "least": int() | float() | None as least,
                "greatest": int() | float() | None as greatest,
            } if 0 <= dropped_bits <= _GREATEST_BITS and len(values) == len(counts) <= MOST_VALUES:
                return cls(
                    dropped_bits=dropped_bits,
                    values=tuple(map(_float, values)),
                    counts=tuple(map(count_of, counts)),
                    total=_unpacked(total),
                    squares=_unpacked(squares),
                    least=None if least is None else float(least),
                    greatest=None if greatest is None else float(greatest),
                )
            case _:
                raise InvalidSummaryError("the counts of numbers are malformed")


def counts_of(numbers: np.ndarray) -> NumberCounts:
    """Count finite numbers.

    Args:
        numbers: A one-dimensional array of float64.
    """
    # Adding zero turns -0.0 into 0.0.
    values, counts = np.unique(numbers + 0.0, return_counts=True)
    if not len(values):
        return NumberCounts()
    total = squares = 0
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        numerator, denominator = value.as_integer_ratio()
        units = numerator << (_UNIT_BITS + 1 - denominator.bit_length())
        total += count * units
        squares += count * units * units
    return bounded(
        NumberCounts(
            values=tuple(values.tolist()),
            counts=tuple(counts.tolist()),
            total=total,
            squares=squares,
            least=float(values[0]),
            greatest=float(values[-1]),
        )
    )


def merged(parts: Iterable[NumberCounts]) -> NumberCounts:
    """Return the counts of the numbers of all parts, the same as if they were counted at once."""
    given = [part for part in parts if part.values]
    if len(given) <= 1:
        return given[0] if given else NumberCounts()
    bits = max(part.dropped_bits for part in given)
    coarse = [part.coarsened(bits) for part in given]
    values, counts = _summed(
        np.concatenate([np.array(part.values) for part in coarse]),
        [count for part in coarse for count in part.counts],
    )
    return bounded(
        NumberCounts(
            dropped_bits=bits,
            values=values,
            counts=counts,
            total=sum(part.total for part in given),
            squares=sum(part.squares for part in given),
            least=min(part.least for part in given if part.least is not None),
            greatest=max(part.greatest for part in given if part.greatest is not None),
        )
    )


def bounded(counted: NumberCounts, most_values: int = MOST_VALUES) -> NumberCounts:
    """Drop as many more bits as it takes to have at most so many values."""
    values = np.array(counted.values)
    least, most = counted.dropped_bits, _GREATEST_BITS
    while least < most:
        middle = (least + most) // 2
        if _distinct(truncated(values, middle)) <= most_values:
            most = middle
        else:
            least = middle + 1
    return counted.coarsened(least)


def truncated(numbers: np.ndarray, dropped_bits: int) -> np.ndarray:
    """Return float64 numbers without so many of their last bits; zero bits change nothing."""
    kept = np.int64(-1) << np.int64(dropped_bits)
    # Adding zero turns -0.0 into 0.0.
    values: np.ndarray = (numbers.astype(np.float64).view(np.int64) & kept).view(np.float64) + 0.0
    return values


def count_of(count: Json) -> int:
    """Return a count in JSON.

    Raises:
        InvalidSummaryError: It is none.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise InvalidSummaryError(f"`{count!r}` is not a count")
    return count


def _distinct(ascending: np.ndarray) -> int:
    return int(np.count_nonzero(ascending[1:] != ascending[:-1])) + 1


def _summed(values: np.ndarray, counts: Sequence[int]) -> tuple[tuple[float, ...], tuple[int, ...]]:
    distinct, places = np.unique(values, return_inverse=True)
    sums = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(sums, places, np.array(counts, dtype=np.int64))
    return tuple(distinct.tolist()), tuple(sums.tolist())


def _quotient(numerator: int, denominator: int) -> float | None:
    try:
        return numerator / denominator
    except OverflowError:
        return None


def _packed(number: int) -> list[Json]:
    """Write an integer as its sign and hexadecimal digits, and the zero bits after them."""
    zeros = (number & -number).bit_length() - 1 if number else 0
    return [f"{number >> zeros:x}", zeros]


def _unpacked(packed: Json) -> int:
    match packed:
        case [str(digits), int(zeros)] if 0 <= zeros <= 4 * _UNIT_BITS:
            try:
                return int(digits, 16) << zeros
            except ValueError:
                pass
    raise InvalidSummaryError("a sum is malformed")


def _float(value: Json) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise InvalidSummaryError(f"`{value!r}` is not a number")

"""Counts of values that are compared for equality, such as texts; the most frequent are listed."""

import base64
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from narthex._aggregates import hyperloglog
from narthex._base.records import Json
from narthex._drift.number_counts import InvalidSummaryError, count_of

MOST_LISTED: Final = 1024
"""The greatest number of values that a part lists."""

LONGEST: Final = 200
"""The greatest number of characters of a listed value, as JSON."""

_REGISTERS: Final = 1 << 14


@attrs.frozen(kw_only=True)
class CategoryCounts:
    """How often each value occurs.

    The rows of a value that a part does not list are at most 1/1,025 of that part, so in a merge of
    parts they are at most that share of all rows.

    Attributes:
        listed: The most frequent values as JSON texts, and how often each occurs, the most frequent
            first; of those that occur equally often, the least texts.
        others: How many rows have another value.
        distinct: The sketch of all different values.
    """

    listed: tuple[tuple[str, int], ...] = ()
    others: int = 0
    distinct: hyperloglog.Sketch = attrs.field(factory=list)

    @property
    def rows(self) -> int:
        """How many values there are."""
        return sum(count for _, count in self.listed) + self.others

    @property
    def estimated_distinct(self) -> int:
        """How many different values there are: exact up to 1,024, then within about 0.8 %."""
        return hyperloglog.estimate(self.distinct)

    def plain(self) -> dict[str, Json]:
        """Return the counts as JSON."""
        return {
            "listed": [[value, count] for value, count in self.listed],
            "others": self.others,
            "distinct": packed_sketch(self.distinct),
        }

    @classmethod
    def of_plain(cls, plain: Json) -> "CategoryCounts":
        """Read counts from JSON.

        Raises:
            InvalidSummaryError: They are none.
        """
        match plain:
            case {"listed": list(listed), "others": others, "distinct": sketch}:
                return cls(
                    listed=tuple(map(_listed, listed)),
                    others=count_of(others),
                    distinct=unpacked_sketch(sketch),
                )
            case _:
                raise InvalidSummaryError("the counts of values are malformed")


def categories_of(counts: Mapping[str, int]) -> CategoryCounts:
    """Count values.

    Args:
        counts: The values as JSON texts, and how often each occurs.
    """
    return _most_frequent(counts, others=0, sketch=sketch_of(counts), most=MOST_LISTED)


def merged_categories(parts: Iterable[CategoryCounts]) -> CategoryCounts:
    """Return the counts of the values of all parts."""
    given = [part for part in parts if part.rows]
    counts: Counter[str] = Counter()
    for part in given:
        counts.update(dict(part.listed))
    return _most_frequent(
        counts,
        others=sum(part.others for part in given),
        sketch=hyperloglog.union([part.distinct for part in given]),
        most=MOST_LISTED,
    )


def sketch_of(values: Iterable[str]) -> hyperloglog.Sketch:
    """Return the sketch of different values."""
    return hyperloglog.of_hashes({hyperloglog.hash_of(value.encode()) for value in values})


def packed_sketch(sketch: hyperloglog.Sketch) -> Json:
    """Return a sketch as JSON."""
    if isinstance(sketch, bytes):
        return base64.b64encode(zlib.compress(sketch)).decode()
    return [f"{one:x}" for one in sketch]


def unpacked_sketch(packed: Json) -> hyperloglog.Sketch:
    """Read a sketch from JSON.

    Raises:
        InvalidSummaryError: It is none.
    """
    try:
        match packed:
            case str(registers):
                inflated = zlib.decompressobj().decompress(
                    base64.b64decode(registers, validate=True), _REGISTERS + 1
                )
                if len(inflated) == _REGISTERS:
                    return inflated
            case list(hashes) if len(hashes) <= hyperloglog.EXACT_UP_TO:
                return sorted({int(str(one), 16) for one in hashes})
    except (ValueError, zlib.error):
        pass
    raise InvalidSummaryError("a sketch of different values is malformed")


def _most_frequent(
    counts: Mapping[str, int], *, others: int, sketch: hyperloglog.Sketch, most: int
) -> CategoryCounts:
    short = {value: count for value, count in counts.items() if len(value) <= LONGEST}
    ranked = sorted(short.items(), key=lambda one: (-one[1], one[0]))[:most]
    unlisted = sum(counts.values()) - sum(count for _, count in ranked)
    return CategoryCounts(listed=tuple(ranked), others=others + unlisted, distinct=sketch)


def _listed(one: Json) -> tuple[str, int]:
    match one:
        case [str(value), count]:
            return value, count_of(count)
        case _:
            raise InvalidSummaryError("a counted value is malformed")

"""Long lists in parts of a fixed length, one part on a page."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Generic, TypeAlias, TypeVar

import attrs
from fastapi import Query

LONGEST: Final = 50
"""How many rows of a long list a page shows."""

GREATEST: Final = 1_000_000

T = TypeVar("T")

PartNumber: TypeAlias = Annotated[int, Query(ge=1, le=GREATEST)]


@attrs.frozen(kw_only=True)
class ListPart(Generic[T]):
    """A part of a list.

    Attributes:
        items: The entries of this part.
        number: The number of the part, from 1.
        count: How many parts the list has; at least 1.
        total: How many entries the whole list has.
    """

    items: Sequence[T]
    number: int
    count: int
    total: int


Entry = TypeVar("Entry", bound=Mapping[str, object])


def of_branch(items: Sequence[Entry], branch: str) -> list[Entry]:
    """Return the entries of a branch, and those of the installation, whose `branch` is empty."""
    return [one for one in items if not one["branch"] or one["branch"] == branch]


def part_of(items: Sequence[T], number: int, *, longest: int = LONGEST) -> ListPart[T]:
    """Return a part of a list; the last one if the list has fewer parts."""
    count = max(1, -(-len(items) // longest))
    at = min(number, count)
    return ListPart(
        items=items[(at - 1) * longest : at * longest], number=at, count=count, total=len(items)
    )

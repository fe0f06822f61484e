"""Find the rows of a batch on which author code fails, with few calls.

A batch that fails is divided, again and again, until the failing rows are known. Rows that pass
keep their results: a batch never fails because of one of its rows. docs/decisions/0037 has the
measurements behind the sizes.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

import attrs

from narthex.errors import UserCodeError

ALONE: Final = 32
"""The size up to which the rows of a failing batch are run one by one in a single call."""
PARTS: Final = 16
"""The greatest number of equal parts into which a failing batch is divided."""
MOST_LOST: Final = 3
"""The number of rows of a batch that are found at the cost of workers; each takes minutes."""

_SMALLEST: Final = ALONE // PARTS

_T = TypeVar("_T")


@attrs.frozen
class Passed(Generic[_T]):
    """Rows on which the code did not fail, by their places in ascending order, and its result."""

    places: Sequence[int]
    result: _T


@attrs.frozen
class Failed:
    """Rows on which the code failed; several if it is unknown which of them is at fault."""

    places: Sequence[int]
    error: UserCodeError


@attrs.frozen
class Isolated(Generic[_T]):
    """The outcome of each row of a batch: each place occurs once, in ascending order in both."""

    passed: tuple[Passed[_T], ...]
    failed: tuple[Failed, ...]


class Attempt(Protocol[_T]):
    """Runs author code on rows of one batch."""

    def together(self, places: range) -> _T:
        """Run the code on rows at once.

        Raises:
            UserCodeError: The code failed on some of them.
        """

    def one_by_one(self, places: range) -> "tuple[Passed[_T], Sequence[Failed]]":
        """Run the code on each row alone.

        Raises:
            UserCodeError: The worker was lost, or its answer is invalid.
        """


def isolate(count: int, attempt: Attempt[_T]) -> Isolated[_T]:
    """Run author code on a batch; if it fails, find the rows on which it fails.

    If no worker is lost, exactly those rows fail on which the code fails alone, and the number of
    calls is at most `most_calls(count)`. A row that loses its worker is tried twice. When
    `MOST_LOST` rows of the batch have done so, further rows that lose a worker together are not
    divided any more: they all fail.
    """
    search = _Search(attempt)
    search.examine(range(count))
    return Isolated(tuple(search.passed), tuple(search.failed))


def most_calls(count: int) -> int:
    """Return the greatest number of calls for a batch of rows if no worker is lost."""
    calls, size = 1, count
    while size > ALONE:
        size = _part_size(size)
        calls += -(-count // size)
    return calls + -(-count // ALONE)


def _part_size(count: int) -> int:
    """Return the size of the parts of a failing batch: 1, 2, 32, 512, 8192 and so on."""
    if count <= _SMALLEST:
        return 1
    size = _SMALLEST
    while size * PARTS < count:
        size *= PARTS
    return size


def _parts(places: range) -> Iterator[range]:
    size = _part_size(len(places))
    for begin in range(places.start, places.stop, size):
        yield range(begin, min(begin + size, places.stop))


@attrs.define
class _Search(Generic[_T]):
    """The outcomes so far.

    Attributes:
        lost: The number of rows that have lost their workers.
    """

    attempt: Attempt[_T]
    passed: list[Passed[_T]] = attrs.field(factory=list)
    failed: list[Failed] = attrs.field(factory=list)
    lost: int = 0

    def examine(self, places: range) -> None:
        """Run rows at once; if the code fails, divide them."""
        try:
            self.passed.append(Passed(places, self.attempt.together(places)))
        except UserCodeError as error:
            if len(places) == 1:
                self._again(places, error)
            elif error.is_worker_lost and self.lost >= MOST_LOST:
                self.failed.append(Failed(places, error))
            elif error.is_worker_lost or len(places) > ALONE:
                self._divide(places)
            else:
                self._one_by_one(places)

    def _again(self, places: range, error: UserCodeError) -> None:
        """Run a single row again if its worker was lost, which may have another reason."""
        if error.is_worker_lost and self.lost < MOST_LOST:
            try:
                self.passed.append(Passed(places, self.attempt.together(places)))
            except UserCodeError as repeated:
                self.lost += repeated.is_worker_lost
                error = repeated
            else:
                return
        self.failed.append(Failed(places, error))

    def _divide(self, places: range) -> None:
        for part in _parts(places):
            if self.lost >= MOST_LOST and part.start > places.start:
                self.examine(range(part.start, places.stop))
                return
            self.examine(part)

    def _one_by_one(self, places: range) -> None:
        try:
            passed, failed = self.attempt.one_by_one(places)
        except UserCodeError:
            self._divide(places)
        else:
            if passed.places:
                self.passed.append(passed)
            self.failed.extend(failed)

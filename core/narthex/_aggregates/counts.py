# mypy: disable-error-code="explicit-any"
"""The number of rows, and the number of distinct values."""

import hashlib
import operator
from collections.abc import Sequence

import attrs
from typing_extensions import override

from narthex._aggregates import hyperloglog
from narthex._aggregates.algebra import Algebra, Order, State
from narthex._aggregates.numeric import present
from narthex._formats.cells import CellBytes
from narthex._ir.facts import Cell

_LONGEST = 24
_DIGEST = b"\xff\xff\xff\xfe"


@attrs.frozen(kw_only=True)
class RowCount(Algebra):
    """The number of rows; the state is this number.

    Attributes:
        dropnull: Whether rows whose cell is null do not count.
    """

    dropnull: bool

    @override
    def identity(self) -> State:
        return 0

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        return len(present(cells)) if self.dropnull else len(cells)

    @override
    def merge(self, left: State, right: State) -> State:
        return left + right

    @override
    def merge_all(self, states: Sequence[State]) -> State:
        return sum(states)

    @override
    def each(self, cells: Sequence[Cell], orders: Sequence[Order]) -> list[State]:
        if self.dropnull:
            return [0 if cell is None else 1 for cell in cells]
        return [1] * len(cells)

    @override
    def merge_pairs(self, left: Sequence[State], right: Sequence[State]) -> list[State]:
        return list(map(operator.add, left, right))

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        return int(state)


@attrs.frozen(kw_only=True)
class DistinctCount(Algebra):
    """The exact number of distinct values; the state is the ascending list of their bytes.

    Attributes:
        encode: Encodes a cell as canonical bytes; long ones are replaced by a digest of 20 bytes.
        dropnull: Whether nulls do not count as a value.
    """

    encode: CellBytes
    dropnull: bool

    @override
    def identity(self) -> State:
        return []

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        counted = present(cells) if self.dropnull else cells
        return sorted({_identity(self.encode(cell)) for cell in counted})

    @override
    def merge(self, left: State, right: State) -> State:
        return sorted({*left, *right})

    @override
    def merge_all(self, states: Sequence[State]) -> State:
        return sorted(set().union(*states))

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        return len(state)


@attrs.frozen(kw_only=True)
class ApproximateCount(Algebra):
    """The approximate distinct count: exact up to 1,024, then within about 0.8 % (one sigma).

    The state is a function of the set of values alone, so the answer is too.
    """

    encode: CellBytes
    dropnull: bool

    @override
    def identity(self) -> State:
        return []

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        counted = present(cells) if self.dropnull else cells
        return hyperloglog.of_hashes({hyperloglog.hash_of(self.encode(cell)) for cell in counted})

    @override
    def merge(self, left: State, right: State) -> State:
        return hyperloglog.union((left, right))

    @override
    def merge_all(self, states: Sequence[State]) -> State:
        return hyperloglog.union(states)

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        return hyperloglog.estimate(state)


def _identity(canonical: bytes) -> bytes:
    if len(canonical) <= _LONGEST:
        return canonical
    return _DIGEST + hashlib.blake2b(canonical, digest_size=20).digest()

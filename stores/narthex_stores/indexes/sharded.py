"""An index in several parts: each key is in the part that has the log's partition of the key.

The writer of a part opens that part alone; readers open all parts as one index.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

import attrs
from typing_extensions import override

from narthex._formats import key_encoder
from narthex._ir import Cell, Fact, IndexSpec, partition_of
from narthex_stores.facts.columns import FactColumns
from narthex_stores.indexes.protocol import (
    AppliedBatch,
    IndexHandle,
    IndexReader,
    Invalidation,
    Key,
    LookupResult,
    Offsets,
    WrongShapeError,
)

_Answer = TypeVar("_Answer")
_KeyEncoder = Callable[[Sequence[Cell]], bytes]


@attrs.frozen
class ShardedReader:
    """One snapshot of each part of an index, each with the newest row of all parts.

    The parts are opened one after the other. Each answer is from one of them, so it is as
    consistent as that of an index of one part.

    Attributes:
        count: The number of parts.
        part: Returns a part by its number.
    """

    count: int
    part: Callable[[int], IndexReader]
    encode_key: _KeyEncoder

    @property
    def parts(self) -> tuple[IndexReader, ...]:
        """All parts."""
        return tuple(map(self.part, range(self.count)))

    @property
    def offsets(self) -> Offsets:
        """The log offsets that the parts contain, each those of its own partitions."""
        return _united(part.offsets for part in self.parts)

    @property
    def is_exact(self) -> bool:
        """Whether no part contains facts beyond its offsets."""
        return all(part.is_exact for part in self.parts)

    @property
    def newest(self) -> int | None:
        """The greatest event time of the rows of all parts; None without rows."""
        return max((part.newest for part in self.parts if part.newest is not None), default=None)

    def with_newest(self, newest: int | None) -> "ShardedReader":
        """Return this snapshot with the newest row of a dataset of which it has a part."""
        parts = tuple(part.with_newest(newest) for part in self.parts)
        return attrs.evolve(self, part=parts.__getitem__)

    @property
    def answered_from(self) -> int | None:
        """The first instant as of which all parts answer lookups; None if they answer all."""
        instants = [part.answered_from for part in self.parts]
        return max((instant for instant in instants if instant is not None), default=None)

    def lookup(self, keys: Sequence[Key], as_of: Sequence[int]) -> list[LookupResult | None]:
        """Return the value of each key as of its instant, from the part that has the key."""

        def answer(part: IndexReader, rows: Sequence[int]) -> Sequence[LookupResult | None]:
            return part.lookup([keys[row] for row in rows], [as_of[row] for row in rows])

        return self._scattered(keys, answer)

    def floor(
        self, keys: Sequence[Key], as_of: Sequence[int], *, not_before: Sequence[int | None]
    ) -> list[LookupResult | None]:
        """Return the newest row of each key at or before an instant, unless it is too old."""

        def answer(part: IndexReader, rows: Sequence[int]) -> Sequence[LookupResult | None]:
            return part.floor(
                [keys[row] for row in rows],
                [as_of[row] for row in rows],
                not_before=[not_before[row] for row in rows],
            )

        return self._scattered(keys, answer)

    def rows(self, by: Key, from_us: int, to_us: int | None) -> list[Fact]:
        """Raise an error: an index by other columns than the key has one part.

        Raises:
            WrongShapeError: Always.
        """
        del by, from_us, to_us
        raise WrongShapeError("only an index of one part has rows by other columns than the key")

    def reading(self, newest_rows: int) -> "ShardedReader":
        """Return this snapshot with another number of rows to read before any tile."""
        parts = tuple(part.reading(newest_rows) for part in self.parts)
        return attrs.evolve(self, part=parts.__getitem__)

    def facts_of(self, shard: int, facts: Sequence[Fact]) -> list[Fact]:
        """Return those facts that a part has to contain."""
        return _facts_of(self.encode_key, shard, len(self.parts), facts)

    def _scattered(
        self, keys: Sequence[Key], answer: Callable[[IndexReader, Sequence[int]], Sequence[_Answer]]
    ) -> list[_Answer]:
        """Ask each part for its keys; return the answers in the order of the keys."""
        if len(keys) == 1:
            part = partition_of(self.encode_key(keys[0]), self.count)
            return [*answer(self.part(part), (0,))]
        rows_of: dict[int, list[int]] = {}
        for row, key in enumerate(keys):
            part = partition_of(self.encode_key(key), self.count)
            rows_of.setdefault(part, []).append(row)
        found: dict[int, _Answer] = {}
        for part, rows in rows_of.items():
            found.update(zip(rows, answer(self.part(part), rows), strict=True))
        return [found[row] for row in range(len(keys))]


class _OpenParts(AbstractContextManager[ShardedReader]):
    """The parts of an index, opened as they are used, until the end of a `with` block."""

    __slots__ = ("_contexts", "_index", "_readers")

    def __init__(self, index: "ShardedIndex") -> None:
        self._index = index
        self._contexts: list[AbstractContextManager[IndexReader]] = []
        self._readers: dict[int, IndexReader] = {}

    @override
    def __enter__(self) -> ShardedReader:
        index = self._index
        reader = ShardedReader(len(index.parts), self._part, index.encode_key)
        if index.spec.history_us is None:
            return reader
        # The watermark is that of the dataset, not of a part.
        try:
            return reader.with_newest(reader.newest)
        except BaseException:
            self.__exit__()
            raise

    @override
    def __exit__(self, *_: object) -> None:
        while self._contexts:
            self._contexts.pop().__exit__(None, None, None)

    def _part(self, number: int) -> IndexReader:
        reader = self._readers.get(number)
        if reader is None:
            context = self._index.parts[number].read()
            reader = self._readers[number] = context.__enter__()
            self._contexts.append(context)
        return reader


@attrs.frozen(eq=False)
class ShardedIndex:
    """All parts of an index, opened together; for writers of several epochs, open one part."""

    name: str
    spec: IndexSpec
    parts: tuple[IndexHandle, ...]
    encode_key: _KeyEncoder

    @classmethod
    def of(
        cls, name: str, spec: IndexSpec, open_part: Callable[[int], IndexHandle]
    ) -> "ShardedIndex":
        """Open all parts, or none.

        Raises:
            IndexMissingError: A part does not exist.
            IndexMismatchError: A part was created for another spec.
        """
        with ExitStack() as opened:
            parts: list[IndexHandle] = []
            for shard in range(spec.shards):
                parts.append(open_part(shard))
                opened.callback(parts[-1].close)
            opened.pop_all()
        return cls(name, spec, tuple(parts), key_encoder(spec.log.keys))

    def apply(
        self, facts: Sequence[Fact], *, offsets: Mapping[tuple[str, int], int], epoch: int
    ) -> AppliedBatch:
        """Apply the facts of each part in one transaction, and then advance the offsets."""
        applied = AppliedBatch(fresh=0, duplicates=0, invalidations=())
        for shard, part in enumerate(self.parts):
            batch = part.apply(self._facts_of(shard, facts), offsets={}, epoch=epoch)
            applied = AppliedBatch(
                fresh=applied.fresh + batch.fresh,
                duplicates=applied.duplicates + batch.duplicates,
                invalidations=(*applied.invalidations, *batch.invalidations),
            )
        for shard, part in enumerate(self.parts):
            mine = {p: at for p, at in offsets.items() if p[1] % len(self.parts) == shard}
            part.apply((), offsets=mine, epoch=epoch)
        return applied

    def expire(self, *, now_us: int, most: int, epoch: int) -> int:
        """Delete rows of each part that no lookup may see any more, up to about so many entries."""
        return sum(part.expire(now_us=now_us, most=most, epoch=epoch) for part in self.parts)

    def _facts_of(self, shard: int, facts: Sequence[Fact]) -> list[Fact]:
        return _facts_of(self.encode_key, shard, len(self.parts), facts)

    @property
    def takes_columns(self) -> bool:
        """False: columns are applied to one part."""
        return False

    def apply_columns(
        self, facts: FactColumns, *, offsets: Mapping[tuple[str, int], int], epoch: int
    ) -> AppliedBatch:
        """Raise an error: columns are applied to one part.

        Raises:
            WrongShapeError: Always.
        """
        del facts, offsets, epoch
        raise WrongShapeError("columns are applied to one part of an index")

    def preview_invalidations(self, facts: Sequence[Fact]) -> tuple[Invalidation, ...]:
        """Return at least the spans that `apply` would change; none for a log without keys."""
        return tuple(
            span
            for shard, part in enumerate(self.parts)
            for span in part.preview_invalidations(self._facts_of(shard, facts))
        )

    def raise_epoch(self, epoch: int) -> None:
        """Refuse writers of earlier epochs of every part from now on."""
        for part in self.parts:
            part.raise_epoch(epoch)

    def offsets(self) -> Offsets:
        """Return the log offsets that the parts contain, each those of its own partitions."""
        return _united(part.offsets() for part in self.parts)

    def read(self) -> AbstractContextManager[ShardedReader]:
        """Open a snapshot of each part, when it is first needed."""
        return _OpenParts(self)

    def is_replaced(self) -> bool:
        """Whether a part was removed or replaced."""
        return any(part.is_replaced() for part in self.parts)

    def sync(self) -> None:
        """Make all batches durable against a loss of power."""
        for part in self.parts:
            part.sync()

    def close(self) -> None:
        """Close all parts; committed batches stay."""
        for part in self.parts:
            part.close()


def _facts_of(
    encode_key: _KeyEncoder, shard: int, shards: int, facts: Sequence[Fact]
) -> list[Fact]:
    return [fact for fact in facts if partition_of(encode_key(fact.key), shards) == shard]


def _united(offsets: Iterator[Offsets]) -> Offsets:
    united: Offsets = {}
    for part in offsets:
        united |= part
    return united

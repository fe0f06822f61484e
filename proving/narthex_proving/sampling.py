"""A share of the keys, drawn by hash, and the rows of the sources that decide about them.

All rows behind a sampled key must be read, and as few others as possible: the columns of the key
are traced through the steps back to the sources. A source in which they cannot be found is read
whole, and so is the right side of a join.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs

from narthex._formats import key_bytes
from narthex._ir import (
    Aggregate,
    Assign,
    AssignCode,
    Cell,
    Column,
    Dataset,
    DatasetRef,
    Dedup,
    Definitions,
    Explode,
    Fact,
    First,
    Join,
    Latest,
    Operator,
    Rename,
    RowId,
    Transform,
    Union,
    inner,
    unrestricted,
)

Names: TypeAlias = tuple[str, ...]

_SPAN = 1 << 64


@attrs.frozen(kw_only=True)
class KeySample:
    """The sampled keys of a dataset.

    Attributes:
        columns: Columns of the key; the hash of their cells decides. Empty draws every key.
        sources: For each dataset that sources fill, where those columns are, in the same order;
            None: all of its rows are needed.
    """

    rate: float
    columns: Names
    sources: Mapping[str, Names | None]

    @property
    def is_whole(self) -> bool:
        """Whether every key is drawn."""
        return not self.columns

    def draws(self, columns: Sequence[Column], cells: Sequence[Cell]) -> bool:
        """Whether these cells of the columns are drawn; null is, because it identifies no key."""
        if self.is_whole or None in cells:
            return True
        # A step may have made a column's type narrower since.
        bare = [
            Column(column.name, unrestricted(inner(unrestricted(column.type))))
            for column in columns
        ]
        digest = hashlib.blake2b(key_bytes(bare, cells), digest_size=8).digest()
        return int.from_bytes(digest) < self.rate * _SPAN

    def draws_key(self, keys: Sequence[Column], cells: Sequence[Cell]) -> bool:
        """Whether a key of the dataset is drawn."""
        named = {column.name: (column, cell) for column, cell in zip(keys, cells, strict=True)}
        chosen = [named[name] for name in self.columns]
        return self.draws([column for column, _ in chosen], [cell for _, cell in chosen])

    def rows(self, dataset: Dataset, facts: Sequence[Fact]) -> list[Fact]:
        """Return the facts of a source that may decide about a drawn key.

        All states of a row come together: a later one may have another key.
        """
        names = self.sources.get(dataset.name)
        if not names:
            return list(facts)
        every = (*dataset.schema.keys, *dataset.schema.values)
        places = [[column.name for column in every].index(name) for name in names]
        columns = [every[place] for place in places]
        drawn: set[RowId] = set()
        for fact in facts:
            cells = (*fact.key, *fact.values)
            if self.draws(columns, [cells[place] for place in places]):
                drawn.add(fact.row_id)
        return [fact for fact in facts if fact.row_id in drawn]


def sample_of(definitions: Definitions, dataset: str, rate: float) -> KeySample:
    """Return the sample of a share of a dataset's keys, and the rows that it needs."""
    by_name = {one.name: one for one in definitions.datasets}
    chosen: Names = () if rate >= 1 else tuple(c.name for c in by_name[dataset].schema.keys)
    while True:
        lost: set[str] = set()
        samples: dict[str, Names | None] = {}
        for source, names in _of_dataset(by_name, dataset, dict(zip(chosen, chosen, strict=True))):
            if names is not None:
                lost |= {name for name in chosen if name not in names}
            at = None if names is None else tuple(names[n] for n in chosen if n in names)
            samples[source] = at if samples.get(source, at) == at else None
        if not lost:
            return KeySample(rate=rate, columns=chosen, sources=samples)
        chosen = tuple(name for name in chosen if name not in lost)


_Where: TypeAlias = "Mapping[str, str] | None"
"""Column of the dataset's key to column here; None: all rows are needed."""


def _of_dataset(
    by_name: Mapping[str, Dataset], name: str, where: _Where
) -> Iterator[tuple[str, _Where]]:
    dataset = by_name[name]
    if where is not None and dataset.schema.keys:
        # The value of a key between two instants depends on all of its rows.
        keys = {column.name for column in dataset.schema.keys}
        where = {ours: here for ours, here in where.items() if here in keys}
    if not dataset.pipelines:
        yield name, where
    for pipeline in dataset.pipelines:
        yield from _of_step(by_name, pipeline.terminal, where)


def _of_step(
    by_name: Mapping[str, Dataset], step: Operator, where: _Where
) -> Iterator[tuple[str, _Where]]:
    if isinstance(step, DatasetRef):
        yield from _of_dataset(by_name, step.dataset, where)
        return
    yield from _of_step(by_name, step.input, _before(step, where))
    match step:
        case Join(right=right):
            yield from _of_dataset(by_name, right.dataset, None)
        case Union(other=other):
            yield from _of_step(by_name, other, where)
        case _:
            pass


def _before(step: Operator, where: _Where) -> _Where:
    """Return the columns' sources before a step; a column that the step creates has none."""
    if where is None:
        return None
    match step:
        case Rename(names=names):
            old = {new: before for before, new in names}
            return {ours: old.get(here, here) for ours, here in where.items()}
        case Aggregate(by=kept) | First(by=kept) | Latest(by=kept) | Dedup(by=kept):
            return {ours: here for ours, here in where.items() if here in kept}
        case Transform():
            return {}
        case _:
            made = _made(step)
            return {ours: here for ours, here in where.items() if here not in made}


def _made(step: Operator) -> frozenset[str]:
    match step:
        case Assign(assignments=assignments):
            return frozenset(assignment.column for assignment in assignments)
        case AssignCode(column=column):
            return frozenset([column.name])
        case Explode(columns=columns):
            return frozenset(columns)
        case Join(fields=fields):
            return frozenset(fields)
        case _:
            return frozenset()

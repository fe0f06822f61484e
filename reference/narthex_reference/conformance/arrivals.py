"""Orders of arrival: all that a transport may do to facts without changing their set."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

from numpy.random import Generator, default_rng

from narthex._ir import Fact

Sent: TypeAlias = tuple[str, Fact]
"""A fact with its dataset."""

Batch: TypeAlias = tuple[str, tuple[Fact, ...]]
"""The facts that are appended to one dataset at once."""

Arrival: TypeAlias = tuple[Batch, ...]


def arrivals(sent: Sequence[Sent], *, seed: int, count: int) -> Iterator[Arrival]:
    """Yield orders of arrival of facts: as sent, reversed, then shuffled, split and repeated.

    Args:
        sent: The facts, in the order in which they were sent.
        seed: The seed of all random choices.
        count: The number of shuffled orders.
    """
    yield cut(sent, [len(sent)])
    yield cut(sent[::-1], [1] * len(sent))
    rng = default_rng(seed)
    for _ in range(count):
        yield shuffled(sent, rng)


def shuffled(sent: Sequence[Sent], rng: Generator) -> Arrival:
    """Shuffle facts, repeat some of them, and split them into batches of any size."""
    twice = [one for one in sent if rng.random() < 0.25]  # noqa: PLR2004 (a quarter)
    all_of_it = [*sent, *twice]
    mixed = [all_of_it[int(place)] for place in rng.permutation(len(all_of_it))]
    sizes: list[int] = []
    while sum(sizes) < len(mixed):
        sizes.append(int(rng.integers(1, 5)))
    return cut(mixed, sizes)


def cut(sent: Sequence[Sent], sizes: Sequence[int]) -> Arrival:
    """Cut facts into runs of the given sizes, each run into batches by dataset."""
    batches: list[Batch] = []
    begin = 0
    for size in sizes:
        run = sent[begin : begin + size]
        begin += size
        for dataset, facts in groupby(run, key=lambda one: one[0]):
            batches.append((dataset, tuple(fact for _, fact in facts)))
    return tuple(batches)

"""The protocol of engines, so that one engine can judge another."""

from collections.abc import Sequence
from typing import Protocol

import attrs

from narthex._ir import Cell, Fact, RowId


@attrs.frozen
class Answer:
    """The value of a key as of an instant.

    Attributes:
        values: Cells of the dataset's value columns, in order; aggregates are finished.
        event_time: The instant from which it is valid, in microseconds; for an aggregate over its
            own windows, the newest instant at which the rows in its windows changed.
    """

    values: tuple[Cell, ...]
    event_time: int


@attrs.frozen(order=True)
class ContributingFact:
    """A fact that contributed to the result of a lookup.

    Attributes:
        dataset: The dataset to which it was appended.
        event_time: Microseconds.
    """

    dataset: str
    event_time: int
    row_id: RowId


class PartialQueryEngine(Protocol):
    """An engine that answers lookups, but may have no rows for some datasets."""

    def facts(self, dataset: str) -> tuple[Fact, ...] | None:
        """Return the current facts, as `QueryEngine` does; None where it has no rows."""

    def lookup(
        self, dataset: str, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        """Return the value of each key as of its instant; None where the key has no value."""


class QueryEngine(Protocol):
    """An engine that answers lookups and returns rows."""

    def facts(self, dataset: str) -> tuple[Fact, ...]:
        """Return the current facts, sorted by event time and row_id.

        For a keyless dataset these are the rows without retracted ones; for a keyed one, the rows
        of every instant and the absences that end a row.
        """

    def lookup(
        self, dataset: str, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        """Return the value of each key as of its instant; None where the key has no value."""


class Engine(QueryEngine, Protocol):
    """An engine that executes the definitions that it was created with."""

    def append(self, dataset: str, facts: Sequence[Fact]) -> None:
        """Append facts of a dataset with sources; they may be unordered, late or repeated."""

"""What an engine can be asked, so that one can be judged by another."""

from collections.abc import Sequence
from typing import Protocol

import attrs

from narthex._ir import Cell, Fact, RowId


@attrs.frozen
class Answer:
    """What stands under a key as of an instant.

    Attributes:
        values: Cells of the dataset's value columns, in order; aggregates are finished.
        event_time: Since when it stands, microseconds; of an aggregate over its own windows, the
            newest instant at which the rows that its windows know changed.
    """

    values: tuple[Cell, ...]
    event_time: int


@attrs.frozen(order=True)
class ContributingFact:
    """A fact that had a part in what a lookup found.

    Attributes:
        dataset: The dataset to which it was appended.
        event_time: Microseconds.
    """

    dataset: str
    event_time: int
    row_id: RowId


class PartialQueryEngine(Protocol):
    """What answers questions, but may have no rows of some datasets."""

    def facts(self, dataset: str) -> tuple[Fact, ...] | None:
        """Return the current facts, as `QueryEngine` does; None where it has no rows."""

    def lookup(
        self, dataset: str, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        """Return the value of each key as of its instant; None where there is none."""


class QueryEngine(Protocol):
    """What answers questions."""

    def facts(self, dataset: str) -> tuple[Fact, ...]:
        """Return the current facts, sorted by event time and row_id.

        Of a keyless dataset the living rows; of a keyed one the rows of every instant, and the
        absences that end a row.
        """

    def lookup(
        self, dataset: str, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        """Return the value of each key as of its instant; None where there is none."""


class Engine(QueryEngine, Protocol):
    """Carries out the definitions that it was made with."""

    def append(self, dataset: str, facts: Sequence[Fact]) -> None:
        """Take facts of a dataset with sources in; any order, late ones and repetitions too."""

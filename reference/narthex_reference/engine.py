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
class Made:
    """A fact that had a part in what a look-up found.

    Attributes:
        dataset: The dataset to which it was appended.
        event_time: Microseconds.
    """

    dataset: str
    event_time: int
    row_id: RowId


class MayBeAsked(Protocol):
    """What answers questions, but may have no rows of some datasets."""

    def facts(self, dataset: str) -> tuple[Fact, ...] | None:
        """Give the facts that stand, as `Asked` does; None where it keeps no rows."""

    def lookup(
        self, dataset: str, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        """Give what stands under each key as of its instant; None where nothing was found."""


class Asked(Protocol):
    """What answers questions."""

    def facts(self, dataset: str) -> tuple[Fact, ...]:
        """Give the facts that stand, by event time and row_id.

        Of a keyless dataset the living rows; of a keyed one the rows of every instant, and the
        absences that end a row.
        """

    def lookup(
        self, dataset: str, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        """Give what stands under each key as of its instant; None where nothing was found."""


class Engine(Asked, Protocol):
    """Carries out the definitions that it was made with."""

    def append(self, dataset: str, facts: Sequence[Fact]) -> None:
        """Take facts of a dataset with sources in; any order, late ones and repetitions too."""

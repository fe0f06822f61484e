"""What an index is: the state of one dataset log, for lookups as of any instant.

An index is a set of facts, each in its state of the highest version, together with the log
offsets that it contains. Facts may come late, twice and in any order; the same facts give the
same answers.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

import attrs

from narthex._ir import Cell, Fact, IndexSpec

Offsets: TypeAlias = dict[tuple[str, int], int]
"""(topic, partition) to the next offset to read."""

Key: TypeAlias = Sequence[Cell]
"""The cells of the key columns, in the log's order."""


class IndexFenced(Exception):
    """A writer of a later epoch has taken the index over; this one must stop."""


class IndexMissingError(FileNotFoundError):
    """No index stands there; only its adapter makes one."""


class IndexMismatchError(ValueError):
    """The index was made for another spec."""


class WrongShapeError(TypeError):
    """A question that this shape of index does not answer."""


class NotCorrectableError(ValueError):
    """A fact takes a row back, in an index whose rows never go: it cannot find where it stood."""


@attrs.frozen(kw_only=True)
class LookupResult:
    """What a lookup found.

    Attributes:
        values: The row's values; of contributions, the aggregates' values in the spec's order.
        event_time: When the row stands from; of contributions, the newest one known.
    """

    values: tuple[Cell, ...]
    event_time: int


@attrs.frozen(kw_only=True)
class Invalidation:
    """A span of a key's past that changed: from inclusive, to exclusive; None is no end."""

    key: tuple[Cell, ...]
    from_us: int
    to_us: int | None


@attrs.frozen(kw_only=True)
class AppliedBatch:
    """What a batch changed.

    Attributes:
        fresh: Facts that changed the state.
        duplicates: Facts that it knew already, or knew newer.
        invalidations: For a keyed log, what each fresh fact changed, up to the next version.
    """

    fresh: int
    duplicates: int
    invalidations: tuple[Invalidation, ...]


class IndexReader(Protocol):
    """One consistent snapshot of an index."""

    @property
    def offsets(self) -> Offsets:
        """The log offsets that the snapshot contains."""

    def lookup(self, keys: Sequence[Key], as_of: Sequence[int]) -> list[LookupResult | None]:
        """Return the value of each key as of its instant.

        Of a keyed log the newest row at or before it, None if there is none or it is absent. Of
        contributions the aggregates' values, the empty ones too; None if no contribution was
        known by then: one that was retracted never was.
        """

    def floor(
        self, keys: Sequence[Key], as_of: Sequence[int], *, not_before: Sequence[int | None]
    ) -> list[LookupResult | None]:
        """Return the newest row of each key at or before an instant, unless it is too old.

        Raises:
            WrongShapeError: The log is not keyed.
        """

    def rows(self, by: Key, from_us: int, to_us: int | None) -> list[Fact]:
        """Return the living rows whose `by` columns have these cells, by event time and row_id.

        Their event times are from `from_us` to before `to_us`; None is no end.

        Raises:
            WrongShapeError: The index has no `by` columns.
        """


class IndexStore(Protocol):
    """An index that can be written."""

    @property
    def spec(self) -> IndexSpec:
        """What is indexed."""

    def apply(
        self, facts: Sequence[Fact], *, offsets: Mapping[tuple[str, int], int], epoch: int
    ) -> AppliedBatch:
        """Take facts in, all of them and the offsets, or none.

        A fact changes the state if none of its row_id, or an older version, is known. One whose
        event time is `NEVER` takes the row back, as if it had never been. Offsets never go back.

        Raises:
            IndexFenced: The index has seen a later epoch.
            NotCorrectableError: A row is taken back, and the index is not correctable.
        """

    def preview_invalidations(self, facts: Sequence[Fact]) -> tuple[Invalidation, ...]:
        """Say what spans `apply` would change, or more; of a log that is not keyed, none."""

    def raise_epoch(self, epoch: int) -> None:
        """Refuse writers of earlier epochs from now on.

        Raises:
            IndexFenced: The index has seen a later epoch.
        """

    def offsets(self) -> Offsets:
        """Return the log offsets that the index contains."""

    def read(self) -> AbstractContextManager[IndexReader]:
        """Open a snapshot; a thread holds one of an index at a time, and not for long."""

# mypy: disable-error-code="explicit-any"
"""Look up keys in the tables of an index, inside one transaction: one consistent snapshot."""

from collections.abc import Callable, Sequence
from typing import Self, assert_never

import attrs

from narthex._aggregates import Folding, IntervalFolding
from narthex._ir import Cell, Fact, RowId, Version
from narthex_stores.indexes.decayed_rows import decayed_rows
from narthex_stores.indexes.expired_rows import answered_from, refuse_expired
from narthex_stores.indexes.key_layout import (
    INSTANT_BYTES,
    IndexLayout,
    Plain,
    event_time_of,
    instant_of,
    unpack,
)
from narthex_stores.indexes.ordered_tables.tables import Tables, Transaction, step_before
from narthex_stores.indexes.ordered_tables.validity_folds import IntervalFolds
from narthex_stores.indexes.ordered_tables.window_results import GroupFolds, plan_fold
from narthex_stores.indexes.protocol import Key, LookupResult, Offsets, WrongShapeError


@attrs.frozen(kw_only=True)
class IndexSnapshot:
    """Answers from one transaction.

    Attributes:
        folding: The aggregates of contributions; None for other shapes.
        newest_rows: How many rows of a group are read before any tile.
        read_offsets: Returns the log offsets that the transaction contains.
        newest: The greatest event time of the rows, as in `IndexReader`.
        horizon: The event time before which rows may be missing; None if none are.
    """

    layout: IndexLayout
    folding: Folding | IntervalFolding | None
    newest_rows: int
    tables: Tables
    transaction: Transaction
    read_offsets: Callable[[], Offsets]
    newest: int | None = None
    horizon: int | None = None
    is_exact: bool = attrs.field(default=True, init=False)

    @property
    def offsets(self) -> Offsets:
        """The log offsets that the snapshot contains."""
        return self.read_offsets()

    @property
    def answered_from(self) -> int | None:
        """The first instant as of which lookups are answered; None if all are."""
        return answered_from(self.layout.spec, self.horizon, self.newest)

    def with_newest(self, newest: int | None) -> Self:
        """Return this snapshot with the newest row of a dataset of which it has a part."""
        return attrs.evolve(self, newest=newest)

    def _oldest_visible(self, as_of: int) -> int:
        return self.layout.spec.oldest_visible(as_of, self.newest)

    def _bounds(self, as_of: Sequence[int]) -> Sequence[int | None]:
        """Return the event times before which lookups see no row."""
        if self.layout.spec.history_us is None:
            return [None] * len(as_of)
        return [self._oldest_visible(instant) for instant in as_of]

    def lookup(self, keys: Sequence[Key], as_of: Sequence[int]) -> list[LookupResult | None]:
        """Return the value of each key as of its instant."""
        if self.layout.spec.by:
            raise WrongShapeError("a columnar index supports `rows`, not key lookups")
        refuse_expired(self.layout.spec, self.horizon, self.newest, as_of)
        match self.folding:
            case None:
                found = self.floor(keys, as_of, not_before=self._bounds(as_of))
                return decayed_rows(self.layout.spec.log, found, as_of)
            case Folding() as folding:
                return self._folded(folding, keys, as_of)
            case IntervalFolding() as folding:
                return self._folded_intervals(folding, keys, as_of)
            case _:
                assert_never(self.folding)

    def _folded(
        self, folding: Folding, keys: Sequence[Key], as_of: Sequence[int]
    ) -> list[LookupResult | None]:
        folds = GroupFolds(
            layout=self.layout,
            folding=folding,
            newest_rows=self.newest_rows,
            facts=self.transaction.cursor(db=self.tables.facts),
            tiles=self.transaction.cursor(db=self.tables.tiles),
        )
        spec = self.layout.spec
        # Most lookups ask for many keys at one instant.
        plans = {
            instant: plan_fold(folding, instant, spec, oldest=self._oldest_visible(instant))
            for instant in dict.fromkeys(as_of)
        }
        group = self.layout.group
        return [
            folds.find(group(key), plans[instant]) for key, instant in zip(keys, as_of, strict=True)
        ]

    def _folded_intervals(
        self, folding: IntervalFolding, keys: Sequence[Key], as_of: Sequence[int]
    ) -> list[LookupResult | None]:
        folds = IntervalFolds(
            layout=self.layout,
            folding=folding,
            facts=self.transaction.cursor(db=self.tables.facts),
            ended=self.transaction.cursor(db=self.tables.tiles),
        )
        group = self.layout.group
        return [
            folds.find(group(key), at, oldest=self._oldest_visible(at))
            for key, at in zip(keys, as_of, strict=True)
        ]

    def reading(self, newest_rows: int) -> Self:
        """Return this snapshot with another number of rows to read before any tile."""
        return attrs.evolve(self, newest_rows=newest_rows)

    def floor(
        self, keys: Sequence[Key], as_of: Sequence[int], *, not_before: Sequence[int | None]
    ) -> list[LookupResult | None]:
        """Return the newest row of each key at or before an instant, unless it is too old."""
        if not self.layout.keyed:
            raise WrongShapeError("only a keyed dataset has a newest row")
        with self.transaction.cursor(db=self.tables.facts) as cursor:
            return [
                self._floor(cursor, self.layout.group(key), instant, least)
                for key, instant, least in zip(keys, as_of, not_before, strict=True)
            ]

    def _floor(
        self, cursor: Transaction, group: bytes, as_of: int, not_before: int | None
    ) -> LookupResult | None:
        if not step_before(cursor, group + instant_of(as_of + 1)):
            return None
        key = cursor.key()
        if not key.startswith(group):
            return None
        event_time = event_time_of(key, group)
        if not_before is not None and event_time < not_before:
            return None
        plain = unpack(cursor.value())
        if len(key) > len(group) + INSTANT_BYTES:
            plain = self._newest(cursor, group + instant_of(event_time), plain)
        if not plain[1]:
            return None
        return LookupResult(values=self.layout.value_cells(plain), event_time=event_time)

    @staticmethod
    def _newest(cursor: Transaction, at: bytes, plain: Plain) -> Plain:
        while cursor.prev() and cursor.key().startswith(at):
            other = unpack(cursor.value())
            if other[0] > plain[0]:
                plain = other
        return plain

    def rows(self, by: Key, from_us: int, to_us: int | None) -> list[Fact]:
        """Return the valid rows whose `by` columns have these cells."""
        if not self.layout.spec.by:
            raise WrongShapeError("only a columnar index supports `rows`")
        group = self.layout.group(by)
        end = None if to_us is None else group + instant_of(to_us)
        found: list[Fact] = []
        with self.transaction.cursor(db=self.tables.facts) as cursor:
            if not cursor.set_range(group + instant_of(from_us)):
                return found
            for key, value in cursor:
                if not key.startswith(group) or (end is not None and key >= end):
                    break
                plain = unpack(value)
                if plain[1]:
                    found.append(self._fact(key, plain, group))
        found.sort(key=lambda fact: (fact.event_time, fact.row_id))
        return found

    def _fact(self, key: bytes, plain: Plain, group: bytes) -> Fact:
        event_time, row_id, cells = self.layout.raw_row(key, plain, group)
        kept: tuple[Cell, ...] = tuple(cells)
        keys = len(self.layout.spec.log.keys)
        return Fact(
            row_id=RowId(row_id),
            version=Version(plain[0]),
            event_time=event_time,
            key=kept[:keys],
            values=kept[keys:],
        )

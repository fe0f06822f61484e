"""The newest row of an LMDB index whose dataset has a history, in its table `meta`.

- `newest`: the greatest event time of its rows, where that only grows
- `w` + event time + identity of a row: all others, so that the next one is known without the newest
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

from narthex._ir import IndexSpec
from narthex_stores.indexes.key_layout import IndexLayout, event_time_of, instant_of, pack, unpack
from narthex_stores.indexes.lmdb.environment import Environment, Transaction
from narthex_stores.indexes.newest_rows import RowInstants, later, newest_of, only_grows
from narthex_stores.indexes.ordered_tables.tables import step_before
from narthex_stores.indexes.ordered_tables.writing import Located

_NEWEST: Final = b"newest"
_ROWS: Final = b"w"
_AFTER_ROWS: Final = b"x"


@attrs.frozen(kw_only=True)
class NewestRow:
    """The newest row of an index; without a history there is none, and nothing is stored."""

    layout: IndexLayout
    environment: Environment

    @property
    def _spec(self) -> IndexSpec:
        return self.layout.spec

    def event_time(self, transaction: Transaction) -> int | None:
        """Return the greatest event time of the rows; None without rows."""
        if self._spec.history_us is None:
            return None
        meta = self.environment.meta
        if only_grows(self._spec):
            stored = transaction.get(_NEWEST, db=meta)
            return None if stored is None else unpack(stored)
        with transaction.cursor(db=meta) as cursor:
            if step_before(cursor, _AFTER_ROWS) and cursor.key().startswith(_ROWS):
                return event_time_of(cursor.key(), _ROWS)
        return None

    def add(
        self, transaction: Transaction, event_times: Sequence[int], alive: Sequence[bool]
    ) -> None:
        """Add the facts of a batch, side by side, where the newest row only grows."""
        if self._spec.history_us is None:
            return
        known, added = self.event_time(transaction), newest_of(event_times, alive)
        newest = later(known, added)
        if newest is not None and newest != known:
            transaction.put(_NEWEST, pack(newest), db=self.environment.meta)

    @contextmanager
    def following(self, transaction: Transaction, located: Sequence[Located]) -> Iterator[None]:
        """Store which rows the block adds, moves and retracts by these facts."""
        if self._spec.history_us is None:
            yield
            return
        if only_grows(self._spec):
            facts = [fact for _, _, fact in located]
            self.add(transaction, [f.event_time for f in facts], [f.alive for f in facts])
            yield
            return
        instants = RowInstants(layout=self.layout, tables=self.environment, transaction=transaction)
        before = instants.of(located)
        yield
        self._move(transaction, before, instants.of(located))

    def _move(
        self,
        transaction: Transaction,
        before: Mapping[bytes, int | None],
        after: Mapping[bytes, int | None],
    ) -> None:
        meta = self.environment.meta
        for identity, instant in after.items():
            left = before[identity]
            if left == instant:
                continue
            if left is not None:
                transaction.delete(_key(left, identity), db=meta)
            if instant is not None:
                transaction.put(_key(instant, identity), b"", db=meta)

    def forget(self, transaction: Transaction, horizon: int, *, most: int) -> int:
        """Delete up to so many entries of rows before an event time; return how many."""
        if only_grows(self._spec):
            return 0
        deleted, end = 0, _ROWS + instant_of(horizon)
        with transaction.cursor(db=self.environment.meta) as cursor:
            more = cursor.set_range(_ROWS)
            while more and deleted < most and cursor.key() < end:
                deleted += cursor.delete()
                more = bool(cursor.key())
        return deleted


def _key(event_time: int, identity: bytes) -> bytes:
    return _ROWS + instant_of(event_time) + identity

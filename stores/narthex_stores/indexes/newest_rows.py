# mypy: disable-error-code="explicit-any"
"""The newest row of an index whose dataset has a history: it decides how far lookups look back.

It is the greatest event time of the rows that the index has. Rows of appended datasets stay rows,
so the greatest event time of all facts is enough. A keyed row can be replaced by an absence at its
instant, and a row of a correctable index can be retracted; then the newest row is an older one.
"""

from collections.abc import Iterable, Sequence

import attrs

from narthex._ir import Fact, IndexSpec, LogShape
from narthex_stores.indexes.key_layout import IndexLayout, event_time_of, row_of, unpack
from narthex_stores.indexes.ordered_tables.tables import Tables, Transaction
from narthex_stores.indexes.ordered_tables.writing import Located


def only_grows(spec: IndexSpec) -> bool:
    """Return whether the newest row of an index is that of all facts that it has ever had."""
    return spec.log.shape is LogShape.CONTRIBUTIONS and not spec.correctable


def newest_of(event_times: Iterable[int], alive: Iterable[bool]) -> int | None:
    """Return the greatest event time of facts that are rows; None without one."""
    return max((at for at, is_row in zip(event_times, alive, strict=True) if is_row), default=None)


def later(one: int | None, other: int | None) -> int | None:
    """Return the greater of two instants, or the only one."""
    return max((at for at in (one, other) if at is not None), default=None)


@attrs.frozen(kw_only=True)
class RowInstants:
    """The event times of the rows of a batch, as one transaction has them."""

    layout: IndexLayout
    tables: Tables
    transaction: Transaction

    def of(self, located: Sequence[Located]) -> dict[bytes, int | None]:
        """Return the event time by identity; None where the index has no such row."""
        if self.layout.spec.correctable:
            return {row: self._of_row(row) for row in map(_row, located)}
        return {key: self._of_place(key, fact) for key, _, fact in located}

    def _of_place(self, key: bytes, fact: Fact) -> int | None:
        stored = self.transaction.get(key, db=self.tables.facts)
        return fact.event_time if stored is not None and unpack(stored)[1] else None

    def _of_row(self, row: bytes) -> int | None:
        position = self.transaction.get(row, db=self.tables.rows)
        _, key, group_length, *ended = (None, None, 0) if position is None else unpack(position)
        if key is None:
            return None
        table = self.tables.tiles if ended else self.tables.facts
        value = self.transaction.get(key, db=table)
        if value is None:  # an interrupted batch has moved the row, and comes again
            return None
        stored = unpack(value)
        if ended:
            event_time: int = stored[4]
            return event_time
        return event_time_of(key, key[:group_length]) if stored[1] else None


def _row(located: Located) -> bytes:
    return row_of(located[2].row_id)

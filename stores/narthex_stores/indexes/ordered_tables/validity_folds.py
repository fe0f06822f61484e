# mypy: disable-error-code="explicit-any"
"""Fold contributions with validity intervals: the valid ones and those that have ended.

Most contributions of a group ended long before a lookup: only those that ended later are read.
"""

import attrs

from narthex._aggregates import IntervalFolding
from narthex_stores.indexes.key_layout import IndexLayout, RawRow, event_time_of, instant_of, unpack
from narthex_stores.indexes.ordered_tables.raw_rows import rows_between
from narthex_stores.indexes.ordered_tables.tables import Transaction, step_before
from narthex_stores.indexes.protocol import LookupResult


@attrs.frozen(kw_only=True)
class IntervalFolds:
    """Folds groups of one snapshot, with one cursor on valid and one on ended contributions."""

    layout: IndexLayout
    folding: IntervalFolding
    facts: Transaction
    ended: Transaction

    def find(self, group: bytes, as_of: int, *, oldest: int) -> LookupResult | None:
        """Return the aggregates of a group; None if it had no contribution by then.

        Rows before `oldest` are not seen.
        """
        folding = self.folding
        known_until, gone_by = folding.known_until(as_of), folding.gone_by(as_of)
        rows = rows_between(self.layout, self.facts, group, None, known_until)
        rows += self._ended_after(group, gone_by)
        fold = folding.fold(
            rows,
            as_of,
            last_gone=self._last_end(group, gone_by, oldest=oldest, known_until=known_until),
            oldest=oldest,
        )
        return None if fold is None else LookupResult(values=fold[0], event_time=fold[1])

    def _ended_after(self, group: bytes, instant: int) -> list[RawRow]:
        rows: list[RawRow] = []
        if self.ended.set_range(group + instant_of(instant + 1)):
            for key, value in self.ended:
                if not key.startswith(group):
                    break
                rows.append(self.layout.ended_row(key, unpack(value), group))
        return rows

    def _last_end(self, group: bytes, by: int, *, oldest: int, known_until: int) -> int | None:
        """Return the last end before an instant, of the entries that are visible."""
        if step_before(self.ended, group + instant_of(by + 1)):
            for key, value in self.ended.iterprev():
                if not key.startswith(group):
                    break
                if oldest <= self.layout.ended_row(key, unpack(value), group)[0] <= known_until:
                    return event_time_of(key, group)
        return None

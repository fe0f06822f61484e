"""The horizon of an LMDB index and the queue of what expires, in its table `meta`.

- `horizon`: the event time before which rows may be missing
- `x` + number of a span + group: an entry of the queue (`narthex_stores.indexes.expired_rows`)
"""

from collections.abc import Sequence
from typing import Final

import attrs

from narthex._ir import IndexSpec
from narthex_stores.indexes.expired_rows import due_before, expired_keys, horizon_at, span_of
from narthex_stores.indexes.key_layout import event_time_of, instant_of, pack, unpack
from narthex_stores.indexes.lmdb.environment import Environment, Transaction
from narthex_stores.indexes.lmdb.newest_row import NewestRow

_HORIZON: Final = b"horizon"
_QUEUE: Final = b"x"
_GROUP_AT: Final = 9
"""Where the group begins in a key of the queue."""


@attrs.frozen(kw_only=True)
class Expiry:
    """The horizon and the queue of an index that expires."""

    spec: IndexSpec
    environment: Environment
    newest_row: NewestRow

    def horizon(self, transaction: Transaction) -> int | None:
        """Return the event time before which rows may be missing; None before the first step."""
        if not self.spec.expires:
            return None
        return self._stored(transaction, _HORIZON)

    def _stored(self, transaction: Transaction, key: bytes) -> int | None:
        stored = transaction.get(key, db=self.environment.meta)
        return None if stored is None else unpack(stored)

    def enqueue(
        self, transaction: Transaction, groups: Sequence[bytes], event_times: Sequence[int]
    ) -> None:
        """Add the rows of a batch, side by side, to the queue."""
        if not self.spec.expires or not groups:
            return
        meta, span = self.environment.meta, span_of(self.spec)
        spans = {(at // span, group) for group, at in zip(groups, event_times, strict=True)}
        with transaction.cursor(db=meta) as cursor:
            cursor.putmulti(
                sorted((_QUEUE + instant_of(number) + group, b"") for number, group in spans),
                overwrite=False,
            )

    def step(self, transaction: Transaction, *, now_us: int, most: int) -> int:
        """Advance the horizon and delete about so many entries; return how many were deleted."""
        horizon = self._advance(transaction, now_us)
        if horizon is None:
            return 0
        environment, deleted = self.environment, 0
        end = _QUEUE + instant_of(due_before(self.spec, horizon))
        with (
            transaction.cursor(db=environment.meta) as queue,
            transaction.cursor(db=environment.facts) as facts,
            transaction.cursor(db=environment.tiles) as tiles,
        ):
            is_due = queue.set_range(_QUEUE) and queue.key() < end
            while is_due and deleted < most:
                deleted += self._delete_span(queue.key(), facts, tiles, most=most - deleted)
                if deleted < most:
                    deleted += queue.delete()
                    is_due = b"" < queue.key() < end
        return deleted + self.newest_row.forget(transaction, horizon, most=most - deleted)

    def _advance(self, transaction: Transaction, now_us: int) -> int | None:
        newest = self.newest_row.event_time(transaction)
        known = self._stored(transaction, _HORIZON)
        reached = None if newest is None else horizon_at(self.spec, newest, now_us)
        if reached is None or (known is not None and reached <= known):
            return known
        transaction.put(_HORIZON, pack(reached), db=self.environment.meta)
        return reached

    def _delete_span(self, key: bytes, facts: Transaction, tiles: Transaction, *, most: int) -> int:
        """Delete up to so many rows and tiles of an entry of the queue; return how many."""
        group, number = key[_GROUP_AT:], event_time_of(key, _QUEUE)
        of_rows, of_tiles = expired_keys(self.spec, group, number)
        deleted = _delete(facts, *of_rows, most=most)
        for bounds in of_tiles:
            deleted += _delete(tiles, *bounds, most=most - deleted)
        return deleted


def _delete(cursor: Transaction, start: bytes, end: bytes, *, most: int) -> int:
    """Delete up to so many entries of a range of keys; return how many were deleted."""
    deleted = 0
    more = cursor.set_range(start)
    while more and deleted < most and cursor.key() < end:
        cursor.delete()
        deleted += 1
        more = bool(cursor.key())
    return deleted

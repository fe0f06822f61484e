"""The in-memory index for tests: it defines the right answers, and has no tiles."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self, TypeAlias

import attrs

from narthex._aggregates import IntervalFolding, fold, seen_until
from narthex._ir import TOMBSTONE_TIME, Cell, Fact, IndexSpec, LogShape
from narthex_stores.indexes.decayed_rows import decayed_rows
from narthex_stores.indexes.expired_rows import answered_from, horizon_at, refuse_expired
from narthex_stores.indexes.fold_choice import folding_of
from narthex_stores.indexes.key_layout import IndexLayout
from narthex_stores.indexes.newest_rows import later, newest_of, only_grows
from narthex_stores.indexes.protocol import (
    AppliedBatch,
    IndexFenced,
    Invalidation,
    Key,
    LookupResult,
    NotCorrectableError,
    Offsets,
    WrongShapeError,
)

_Identity: TypeAlias = tuple[bytes, ...]
_States: TypeAlias = dict[_Identity, tuple[bytes, Fact]]
_Places: TypeAlias = dict[tuple[bytes, int], tuple[Cell, ...]]


@attrs.frozen(kw_only=True)
class MemorySnapshot:
    """Answers from a copy of the facts; each lookup scans the whole group."""

    spec: IndexSpec
    layout: IndexLayout
    groups: dict[bytes, list[Fact]]
    offsets: Offsets
    newest: int | None
    horizon: int | None
    is_exact: bool = attrs.field(default=True, init=False)

    @property
    def answered_from(self) -> int | None:
        """The first instant as of which lookups are answered; None if all are."""
        return answered_from(self.spec, self.horizon, self.newest)

    def with_newest(self, newest: int | None) -> Self:
        """Return this snapshot with the newest row of a dataset of which it has a part."""
        return attrs.evolve(self, newest=newest)

    def lookup(self, keys: Sequence[Key], as_of: Sequence[int]) -> list[LookupResult | None]:
        """Return the value of each key as of its instant."""
        if self.spec.by:
            raise WrongShapeError("a columnar index supports `rows`, not key lookups")
        refuse_expired(self.spec, self.horizon, self.newest, as_of)
        if self.spec.log.shape is not LogShape.CONTRIBUTIONS:
            oldest = [self.spec.oldest_visible(instant, self.newest) for instant in as_of]
            found = self.floor(keys, as_of, not_before=oldest)
            return decayed_rows(self.spec.log, found, as_of)
        return [self._folded(key, at) for key, at in zip(keys, as_of, strict=True)]

    def _folded(self, key: Key, as_of: int) -> LookupResult | None:
        oldest = self.spec.oldest_visible(as_of, self.newest)
        group = self.groups.get(self.layout.group(key), [])
        facts = [fact for fact in group if oldest <= fact.event_time]
        rows = [(fact.event_time, fact.row_id, fact.values) for fact in facts]
        intervals = folding_of(self.spec)
        if isinstance(intervals, IntervalFolding):
            answer = intervals.fold(rows, as_of)
            return None if answer is None else LookupResult(values=answer[0], event_time=answer[1])
        until = seen_until(self.spec.aggregates, as_of) if self.spec.aggregates else as_of
        seen = [fact.event_time for fact in facts if fact.event_time <= until]
        if not seen:
            return None
        columns = tuple(column.name for column in self.spec.log.values)
        return LookupResult(
            values=fold(self.spec.aggregates, columns, rows, as_of), event_time=max(seen)
        )

    def floor(
        self, keys: Sequence[Key], as_of: Sequence[int], *, not_before: Sequence[int | None]
    ) -> list[LookupResult | None]:
        """Return the newest row of each key at or before an instant, unless it is too old."""
        if not self.layout.keyed:
            raise WrongShapeError("only a keyed dataset has a newest row")
        return [
            self._floor(key, at, least)
            for key, at, least in zip(keys, as_of, not_before, strict=True)
        ]

    def _floor(self, key: Key, as_of: int, not_before: int | None) -> LookupResult | None:
        facts = self.groups.get(self.layout.group(key), [])
        known = [fact for fact in facts if fact.event_time <= as_of]
        newest = max(known, key=lambda fact: (fact.event_time, fact.version), default=None)
        if newest is None or not newest.alive:
            return None
        if not_before is not None and newest.event_time < not_before:
            return None
        return LookupResult(values=newest.values, event_time=newest.event_time)

    def reading(self, newest_rows: int) -> Self:
        """Return this snapshot, because it has no tiles."""
        del newest_rows
        return self

    def rows(self, by: Key, from_us: int, to_us: int | None) -> list[Fact]:
        """Return the valid rows whose `by` columns have these cells."""
        if not self.spec.by:
            raise WrongShapeError("only a columnar index supports `rows`")
        found = [
            fact
            for fact in self.groups.get(self.layout.group(by), [])
            if fact.alive
            and from_us <= fact.event_time
            and (to_us is None or fact.event_time < to_us)
        ]
        return sorted(found, key=lambda fact: (fact.event_time, fact.row_id))


class InMemoryIndex:
    """Keeps each row's newest state, and no derived data that could be wrong."""

    def __init__(self, spec: IndexSpec) -> None:
        """Create an empty index."""
        self.spec = spec
        self._layout = IndexLayout(spec=spec)
        self._states: _States = {}
        self._offsets: Offsets = {}
        self._newest_ever: int | None = None
        self._horizon: int | None = None
        self._epoch = -1

    def apply(
        self, facts: Sequence[Fact], *, offsets: Mapping[tuple[str, int], int], epoch: int
    ) -> AppliedBatch:
        """Apply facts and offsets in one transaction."""
        self.raise_epoch(epoch)
        if not self.spec.correctable and any(fact.event_time == TOMBSTONE_TIME for fact in facts):
            raise NotCorrectableError("a fact deletes a row")
        fresh = 0
        changed: _Places = {}
        for fact in facts:
            _, group = self._layout.locate(fact)
            identity = self._identity(fact)
            known = self._states.get(identity)
            if known is not None and known[1].version >= fact.version:
                continue
            fresh += 1
            changed |= self._places(known, (group, fact))
            self._states[identity] = (group, fact)
        self._newest_ever = later(self._newest_ever, _newest(facts))
        for partition, offset in offsets.items():
            self._offsets[partition] = max(offset, self._offsets.get(partition, offset))
        return AppliedBatch(
            fresh=fresh, duplicates=len(facts) - fresh, invalidations=self._invalidations(changed)
        )

    def _places(self, *states: tuple[bytes, Fact] | None) -> _Places:
        return {
            (state[0], state[1].event_time): state[1].key
            for state in states
            if state is not None and self._layout.has_place(state[1])
        }

    def _identity(self, fact: Fact) -> _Identity:
        if self.spec.correctable:
            return (fact.row_id,)
        return self._layout.locate(fact)

    def _invalidations(self, changed: _Places) -> tuple[Invalidation, ...]:
        if not self._layout.keyed:
            return ()
        groups = self._groups()
        return tuple(
            Invalidation(
                key=key,
                from_us=event_time,
                to_us=min(
                    (f.event_time for f in groups.get(group, ()) if f.event_time > event_time),
                    default=None,
                ),
            )
            for (group, event_time), key in changed.items()
        )

    def expire(self, *, now_us: int, most: int, epoch: int) -> int:
        """Delete rows that no lookup may see any more, up to so many."""
        self.raise_epoch(epoch)
        newest = self._newest_row()
        reached = None if newest is None else horizon_at(self.spec, newest, now_us)
        if reached is None:
            return 0
        self._horizon = max(reached, reached if self._horizon is None else self._horizon)
        due = sorted(
            (fact.event_time, identity)
            for identity, (_, fact) in self._states.items()
            if fact.event_time < self._horizon
        )
        for _, identity in due[:most]:
            del self._states[identity]
        return len(due[:most])

    def preview_invalidations(self, facts: Sequence[Fact]) -> tuple[Invalidation, ...]:
        """Return at least the spans that `apply` would change; none for a log without keys."""
        changed: _Places = {}
        for fact in facts:
            known = self._states.get(self._identity(fact))
            if known is None or known[1].version < fact.version:
                changed |= self._places(known, (self._layout.locate(fact)[1], fact))
        return self._invalidations(changed)

    def raise_epoch(self, epoch: int) -> None:
        """Refuse writers of earlier epochs from now on."""
        if epoch < self._epoch:
            raise IndexFenced(
                f"a writer of epoch {self._epoch} has taken over; epoch {epoch} must stop"
            )
        self._epoch = epoch

    def offsets(self) -> Offsets:
        """Return the log offsets that the index contains."""
        return dict(self._offsets)

    def _newest_row(self) -> int | None:
        if self.spec.history_us is None:
            return None
        if only_grows(self.spec):
            return self._newest_ever
        return _newest([fact for _, fact in self._states.values()])

    def _groups(self) -> dict[bytes, list[Fact]]:
        groups: dict[bytes, list[Fact]] = {}
        for group, fact in self._states.values():
            if self._layout.has_place(fact):
                groups.setdefault(group, []).append(fact)
        return groups

    @contextmanager
    def read(self) -> Iterator[MemorySnapshot]:
        """Open a snapshot, which later batches do not change."""
        yield MemorySnapshot(
            spec=self.spec,
            layout=self._layout,
            groups=self._groups(),
            offsets=self.offsets(),
            newest=self._newest_row(),
            horizon=self._horizon,
        )

    def sync(self) -> None:
        """Do nothing, because memory is never durable."""

    def close(self) -> None:
        """Do nothing."""


def _newest(facts: Sequence[Fact]) -> int | None:
    return newest_of([fact.event_time for fact in facts], [fact.alive for fact in facts])

"""Apply a batch of facts: read the groups that it visits, fold, write each group at once.

Each group has the token of its last write. A group is written only if its token is still the one
that was read; so a write that comes late or twice changes nothing, and a batch that meets another
writer's begins anew.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import attrs

from narthex._aggregates import Folding, IntervalFolding
from narthex._ir import Fact
from narthex_stores.facts.columns import FactColumns
from narthex_stores.indexes.key_layout import INSTANT_BYTES, IndexLayout, row_of, unpack
from narthex_stores.indexes.newest_rows import RowInstants
from narthex_stores.indexes.ordered_tables.writing import (
    BatchWriter,
    Located,
    Span,
    changed_places,
    locate_all,
    locate_columns,
    next_version,
)
from narthex_stores.indexes.protocol import AppliedBatch, Invalidation
from narthex_stores.indexes.redis.dividing import DividingNeeds
from narthex_stores.indexes.redis.expiry import RedisExpiry
from narthex_stores.indexes.redis.header import fresh_token
from narthex_stores.indexes.redis.members import FACTS, TILES, IndexKeys, member_of
from narthex_stores.indexes.redis.newest_row import RedisNewestRow
from narthex_stores.indexes.redis.planning import BatchNeeds
from narthex_stores.indexes.redis.row_positions import (
    Place,
    RowPosition,
    Settled,
    moved_position,
    settle,
    unpack_position,
)
from narthex_stores.indexes.redis.scripts import STAGE_GROUP, STAGE_ROWS, WRITE_GROUP, WRITE_ROWS
from narthex_stores.indexes.redis.servers import Argument, Reply, ServerCall, Servers
from narthex_stores.indexes.redis.staged_tables import StagedTables, add_entries

_TILE_SUFFIX = 1 + INSTANT_BYTES


class GroupChangedError(Exception):
    """Another writer changed a group after this batch had read it: begin the batch anew."""


@attrs.frozen(kw_only=True)
class WriterIdentity:
    """The writer of a batch.

    Attributes:
        epoch: Its epoch; None for one that only reads.
        writer: Distinguishes writers, also those of one epoch.
        number: Distinguishes the batches of a writer; above 0.
    """

    epoch: int | None
    writer: str
    number: int

    @property
    def token(self) -> str:
        """The token of what it writes."""
        return fresh_token(self.epoch or 0, self.writer, self.number)

    def fencing(self, *, takes_over: bool) -> tuple[Argument, Argument]:
        """Return the first two arguments of the scripts that read for it."""
        if self.epoch is None:
            return "", ""
        return self.epoch, fresh_token(self.epoch, self.writer, 0) if takes_over else ""


@attrs.define(kw_only=True, eq=False)
class StagedBatch:
    """One attempt to apply one batch.

    Attributes:
        before: Calls to make with the first ones; they refuse a writer that was replaced.
    """

    layout: IndexLayout
    folding: Folding | IntervalFolding | None
    keys: IndexKeys
    servers: Servers
    identity: WriterIdentity
    before: Sequence[ServerCall] = ()
    tables: StagedTables = attrs.field(factory=StagedTables)
    _tokens: dict[bytes, bytes] = attrs.field(factory=dict)
    _lengths: dict[bytes, int] = attrs.field(factory=dict)

    def apply(self, facts: Sequence[Fact]) -> AppliedBatch:
        """Apply facts.

        Raises:
            GroupChangedError: Another writer was faster.
        """
        if self.layout.spec.correctable:
            return self._apply_correctable(facts)
        located = locate_all(self.layout, facts)
        self._enqueue([one[1] for one in located], [one[2].event_time for one in located])
        self._read([(group, key, fact.event_time) for key, group, fact in located])
        self._read_removals([(group, key, fact) for key, group, fact in located])
        applied = self._writer(()).apply_located(located)
        self._store_instants(located)
        self._write_groups()
        return applied

    def apply_columns(self, facts: FactColumns) -> AppliedBatch:
        """Apply contributions as columns; the index must not be correctable."""
        located = locate_columns(self.layout, facts)
        self._enqueue(located.groups, facts.event_times)
        self._read(list(zip(located.groups, located.keys, facts.event_times, strict=True)))
        seen: set[bytes] = set()
        again: list[tuple[bytes, bytes, Fact]] = []
        for place, key in enumerate(located.keys):
            if key in seen or key in self.tables.facts.entries:
                again.append((located.groups[place], key, facts.fact(place)))
            seen.add(key)
        self._read_removals(again)
        applied = self._writer(()).apply_located_columns(located)
        self._write_groups()
        return applied

    def preview(self, facts: Sequence[Fact]) -> tuple[Invalidation, ...]:
        """Return at least the spans that `apply` would change, for a keyed log."""
        located = locate_all(self.layout, facts)
        undone: list[Span] = []
        if self.layout.spec.correctable:
            settled, _ = self._settle(located)
            located, undone = settled.located, settled.undone
        else:
            self._read([(group, key, fact.event_time) for key, group, fact in located])
        order = {id(fact): place for place, fact in enumerate(facts)}
        spans = {(group, event_time): key for group, event_time, key in undone}
        for _, _, fact in sorted(located, key=lambda one: order[id(one[2])]):
            spans |= changed_places(self.layout, self.tables, self.tables, fact)
        return tuple(
            Invalidation(
                key=key,
                from_us=place[1],
                to_us=next_version(self.tables, self.tables, *place),
            )
            for place, key in spans.items()
        )

    def _enqueue(self, groups: Sequence[bytes], event_times: Sequence[int]) -> None:
        expiry = RedisExpiry(spec=self.layout.spec, keys=self.keys, servers=self.servers)
        self.before = (*self.before, *expiry.enqueuing(groups, event_times))

    def _store_instants(self, located: Sequence[Located]) -> None:
        newest = RedisNewestRow(spec=self.layout.spec, keys=self.keys, servers=self.servers)
        if newest.is_tracked and self.identity.epoch is not None:
            tables = self.tables
            instants = RowInstants(layout=self.layout, tables=tables, transaction=tables)
            self._write(newest.storing(instants.of(located), self.identity.epoch))

    def _needs(self) -> BatchNeeds:
        folding = self.folding if isinstance(self.folding, Folding) else None
        return BatchNeeds.of(self.layout, folding)

    def _writer(self, undone: Sequence[Span]) -> BatchWriter:
        return BatchWriter(
            layout=self.layout,
            folding=self.folding if isinstance(self.folding, Folding) else None,
            tables=self.tables,
            transaction=self.tables,
            undone=undone,
        )

    def _read(self, places: Sequence[tuple[bytes, bytes, int]]) -> None:
        needs = self._needs()
        needs.add_facts(places)
        for group, key, _ in places:
            self._lengths[key] = len(group)
        self._stage(needs)
        self._read_parts([(group, at) for group, _, at in places])

    def _read_parts(self, places: Sequence[tuple[bytes, int]]) -> None:
        """Read what new facts visit in tiles with many rows."""
        folding = self.folding if isinstance(self.folding, Folding) else None
        dividing = DividingNeeds.of(self.layout, folding, self.tables)
        if dividing is None:
            return
        for choose in (dividing.of_tiles, dividing.of_parts):
            needs = choose(places)
            if needs.groups:
                self._stage(needs)

    def _read_removals(self, places: Sequence[tuple[bytes, bytes, Fact]]) -> None:
        """Read what facts visit that replace an older version of their row."""
        needs = self._needs()
        seen: set[bytes] = set()
        for group, key, fact in places:
            stored = self.tables.facts.entries.get(key)
            if key in seen or (stored is not None and unpack(stored)[0] < fact.version):
                needs.add_removal(group, fact.event_time)
            seen.add(key)
        if needs.groups:
            self._stage(needs)

    def _run(self, calls: Sequence[ServerCall]) -> Sequence[Reply]:
        """Run calls that read, together with the check of the epoch where it is not yet done."""
        before, self.before = self.before, ()
        return self.servers.run([*before, *calls])[len(before) :]

    def _write(self, calls: Iterable[ServerCall]) -> None:
        if any(reply != 1 for reply in self.servers.run(list(calls))):
            raise GroupChangedError

    def _stage(self, needs: BatchNeeds) -> None:
        first, token = self.identity.fencing(takes_over=self.layout.spec.correctable)
        calls = [
            ServerCall(STAGE_GROUP, self.keys.group(group), (first, token, *wanted.arguments()))
            for group, wanted in needs.groups.items()
        ]
        replies = self._run(calls)
        for group, call, (found, *members) in zip(needs.groups, calls, replies, strict=True):
            if self._tokens.setdefault(call.key, found) != found:
                raise GroupChangedError
            add_entries(self.tables, group, members)

    def _apply_correctable(self, facts: Sequence[Fact]) -> AppliedBatch:
        located = locate_all(self.layout, facts)
        settled, buckets = self._settle(located)
        applied = self._writer(settled.undone).apply_located(settled.located)
        self._store_instants(located)
        moved: dict[bytes, list[Argument]] = {}
        for row, _, after in self.tables.rows.changes():
            if after is not None:
                position = moved_position(after, settled.stood.get(row, ()))
                moved.setdefault(buckets[row], []).extend((row, position.packed()))
                self._note(position.places)
        self._write(
            ServerCall(WRITE_ROWS, bucket, (self._tokens[bucket], self.identity.token, *positions))
            for bucket, positions in moved.items()
        )
        self._write_groups()
        return attrs.evolve(applied, duplicates=len(facts) - applied.fresh)

    def _settle(self, located: Sequence[Located]) -> tuple[Settled, dict[bytes, bytes]]:
        """Read rows' positions and then their groups; return also the bucket of each row."""
        facts = [(row_of(one[2].row_id), one) for one in located]
        buckets = {row: self.keys.bucket(row) for row, _ in facts}
        positions = self._positions(buckets)
        needs = self._needs()
        times = Counter(row for row, _ in facts)
        for row, (key, group, fact) in facts:
            needs.add_fact(group, key, fact.event_time)
            self._lengths[key] = len(group)
            if times[row] > 1:
                needs.add_removal(group, fact.event_time)
        for position in positions.values():
            self._add_places(needs, position)
        self._stage(needs)
        self._read_parts([(group, fact.event_time) for _, (_, group, fact) in facts])
        return settle(self.layout, self.tables, positions, facts), buckets

    def _positions(self, buckets: dict[bytes, bytes]) -> dict[bytes, RowPosition]:
        rows: dict[bytes, list[bytes]] = {}
        for row, bucket in buckets.items():
            rows.setdefault(bucket, []).append(row)
        first, token = self.identity.fencing(takes_over=True)
        calls = [
            ServerCall(STAGE_ROWS, bucket, (first, token, *them)) for bucket, them in rows.items()
        ]
        found: dict[bytes, RowPosition] = {}
        for (bucket, them), reply in zip(rows.items(), self._run(calls), strict=True):
            self._tokens[bucket] = reply[0]
            for row, value in zip(them, reply[1:], strict=True):
                if value:
                    found[row] = unpack_position(value)
        self._note([place for position in found.values() for place in position.places])
        return found

    def _note(self, places: Sequence[Place]) -> None:
        for place in places:
            self._lengths[place.key] = place.group_length

    def _add_places(self, needs: BatchNeeds, position: RowPosition) -> None:
        for place in position.places:
            if place.has_ended:
                prefix = TILES + place.key[place.group_length :]
                needs.group(place.group).prefixes[prefix] = None
            else:
                needs.add_fact(place.group, place.key, place.instant)
                needs.add_removal(place.group, place.instant)

    def _write_groups(self) -> None:
        removed: dict[bytes, list[Argument]] = {}
        added: dict[bytes, list[Argument]] = {}
        for table, changes in ((FACTS, self.tables.facts), (TILES, self.tables.tiles)):
            for key, before, after in changes.changes():
                length = self._lengths.get(key, len(key) - _TILE_SUFFIX)
                group, suffix = key[:length], key[length:]
                if before is not None:
                    removed.setdefault(group, []).append(member_of(table, suffix, before))
                if after is not None:
                    added.setdefault(group, []).append(member_of(table, suffix, after))
        calls: list[ServerCall] = []
        for group in dict.fromkeys([*removed, *added]):
            key, gone = self.keys.group(group), removed.get(group, [])
            tokens = self._tokens[key], self.identity.token
            calls.append(
                ServerCall(WRITE_GROUP, key, (*tokens, len(gone), *gone, *added.get(group, [])))
            )
        self._write(calls)

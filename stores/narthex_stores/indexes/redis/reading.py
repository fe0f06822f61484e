"""Answer lookups: read what they visit in each group at once, then fold it here.

Most groups have few rows, and most windows end now: the newest rows of a group are read first, in
the same call that reads tiles and older rows if there are more.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Self, TypeAlias

import attrs

from narthex._aggregates import Folding, IntervalFolding
from narthex._ir import Fact, IndexSpec
from narthex_stores.indexes.expired_rows import answered_from, refuse_expired
from narthex_stores.indexes.key_layout import (
    IndexLayout,
    instant_of,
    level_prefix,
    tile_key,
    unpack,
)
from narthex_stores.indexes.ordered_tables.divided_spans import WindowEnd
from narthex_stores.indexes.ordered_tables.index_snapshot import IndexSnapshot
from narthex_stores.indexes.ordered_tables.window_results import FoldPlan, plan_fold
from narthex_stores.indexes.protocol import Key, LookupResult, Offsets, WrongShapeError
from narthex_stores.indexes.redis.header import Header, bounds_of
from narthex_stores.indexes.redis.members import AFTER, FACTS, TILES, IndexKeys, entry_of
from narthex_stores.indexes.redis.scripts import READ_GROUP
from narthex_stores.indexes.redis.servers import Argument, Reply, ServerCall, Servers
from narthex_stores.indexes.redis.staged_tables import StagedTables, add_entries

_DEEPER = 8
_MOST_ROWS = 1 << 31
"""More rows than a group may have; the servers' numbers have 64 bits."""

Bounds: TypeAlias = tuple[bytes, bytes]
"""Members from inclusive, to exclusive."""

Range: TypeAlias = tuple[bytes, bytes, int]
"""Members from inclusive, to exclusive; the first so many, the last if negative, all if 0."""


def _always(_newest: Sequence[bytes]) -> bool:
    return True


@attrs.frozen(kw_only=True)
class ReadEnd:
    """The members of the end of a window: its rows, or parts of its tile if they are many.

    Attributes:
        is_divided: Whether it had many rows when they were last read.
    """

    spec: IndexSpec = attrs.field(eq=False, repr=False)
    end: WindowEnd
    is_divided: bool = False

    def ranges(self) -> list[Range]:
        """Return what to read."""
        bounds = self._bounds()
        if not self.end.may_divide:
            return [(*bounds, 0)]
        one_more = self.spec.divided_above + 1
        if not self.is_divided:
            return [(*bounds, one_more)]
        # A part that is not divided has few rows, at one end or at the other.
        return [(*bounds, one_more), (*bounds, -one_more), *self._tiles()]

    def _bounds(self) -> Bounds:
        return FACTS + instant_of(self.end.first), FACTS + instant_of(self.end.last + 1)

    def _tiles(self) -> Iterator[Range]:
        """Yield the tile, and of each length the parts inside that contain an end, or are near."""
        first, last = self.end.first, self.end.last
        around = self.spec.ladder_us[0]
        yield _tiles_of(0, first // around, last // around)
        for level, length in enumerate(self.spec.parts_us, len(self.spec.ladder_us)):
            until = min(last, (first // around + 1) * around - 1)
            since = max(first, last // around * around)
            if until == last or first % around:
                yield _tiles_of(level, first // length, until // length)
            if since > first and (last + 1) % around:
                yield _tiles_of(level, since // length, last // length)
            around = length

    def deeper(self, found: Sequence[bytes]) -> "ReadEnd":
        """Return this end, or one that reads parts if these members have too many of its rows."""
        if self.is_divided or not self.end.may_divide or len(found) <= self.spec.divided_above:
            return self
        first, end = self._bounds()
        rows = sum(1 for member in found if first <= member < end)
        return attrs.evolve(self, is_divided=rows > self.spec.divided_above)


def _tiles_of(level: int, first: int, last: int) -> Range:
    return TILES + tile_key(b"", level, first), TILES + tile_key(b"", level, last + 1), 0


@attrs.frozen(kw_only=True)
class Block:
    """The members of a group that one lookup reads.

    Attributes:
        kind: `r`, `i` or `n`, as `scripts.READ_GROUP` describes them.
        bounds: The members to read the newest of, or all.
        limit: How many of the newest to read.
        few: Up to how many of the newest need no `others`.
        others: What else to read if there are more.
        ends: The ends of windows, whose rows are read too if there are more.
        is_enough: Decides by the newest members whether older ones must be read too.
    """

    kind: bytes
    bounds: Bounds
    limit: int = 1
    few: int = 0
    others: tuple[Range, ...] = ()
    ends: tuple[ReadEnd, ...] = ()
    is_enough: Callable[[Sequence[bytes]], bool] = _always

    def arguments(self) -> list[Argument]:
        """Return the arguments of the script."""
        found: list[Argument] = [self.kind, *self.bounds]
        if self.kind == b"n":
            ranges = [*self.others, *(one for end in self.ends for one in end.ranges())]
            found += [self.limit, self.few, len(ranges)]
            for one in ranges:
                found += one
        return found

    def deeper(self, newest: Sequence[bytes], others: Sequence[bytes]) -> "Block":
        """Return this block, or one that reads more if these members are not enough."""
        if self.kind != b"n":
            return self
        found = self
        if self.ends:
            found = attrs.evolve(self, ends=tuple(end.deeper(others) for end in self.ends))
        if len(newest) < self.limit or self.is_enough(newest):
            return found
        return attrs.evolve(found, limit=self.limit * _DEEPER)


@attrs.frozen(kw_only=True)
class RedisReader:
    """Answers as of one instant or later: each group is read at one instant.

    Attributes:
        newest: The greatest event time of the rows below the offsets; None without rows.
        horizon: The event time before which rows may be missing; None if none are.
    """

    layout: IndexLayout
    folding: Folding | IntervalFolding | None
    newest_rows: int
    keys: IndexKeys
    servers: Servers
    header: Header
    offsets: Offsets
    newest: int | None
    horizon: int | None
    is_exact: bool = attrs.field(default=False, init=False)

    def lookup(self, keys: Sequence[Key], as_of: Sequence[int]) -> list[LookupResult | None]:
        """Return the value of each key as of its instant."""
        if self.layout.spec.by:
            raise WrongShapeError("a columnar index supports `rows`, not key lookups")
        spec = self.layout.spec
        refuse_expired(spec, self.horizon, self.newest, as_of)
        found = self._read(keys, as_of).lookup(keys, as_of)
        if not spec.expires or not as_of:
            return found
        # The writer may have deleted rows since the header was read.
        (stored,) = self.servers.run([self.header.reading_bounds()])
        newest, horizon = bounds_of(stored)
        if horizon is None or horizon <= self._oldest_visible(min(as_of)):
            return found
        return attrs.evolve(self, newest=newest, horizon=horizon).lookup(keys, as_of)

    def _oldest_visible(self, as_of: int) -> int:
        return self.layout.spec.oldest_visible(as_of, self.newest)

    @property
    def answered_from(self) -> int | None:
        """The first instant as of which lookups are answered; None if all are."""
        return answered_from(self.layout.spec, self.horizon, self.newest)

    def with_newest(self, newest: int | None) -> Self:
        """Return this snapshot with the newest row of a dataset of which it has a part."""
        return attrs.evolve(self, newest=newest)

    def floor(
        self, keys: Sequence[Key], as_of: Sequence[int], *, not_before: Sequence[int | None]
    ) -> list[LookupResult | None]:
        """Return the newest row of each key at or before an instant, unless it is too old."""
        if not self.layout.keyed:
            raise WrongShapeError("only a keyed dataset has a newest row")
        return self._read(keys, as_of).floor(keys, as_of, not_before=not_before)

    def rows(self, by: Key, from_us: int, to_us: int | None) -> list[Fact]:
        """Return the valid rows whose `by` columns have these cells."""
        if not self.layout.spec.by:
            raise WrongShapeError("only a columnar index supports `rows`")
        end = AFTER[FACTS] if to_us is None else FACTS + instant_of(to_us)
        block = Block(kind=b"r", bounds=(FACTS + instant_of(from_us), end))
        staged = self._staged({self.layout.group(by): [block]})
        return self._snapshot(staged).rows(by, from_us, to_us)

    def reading(self, newest_rows: int) -> Self:
        """Return this snapshot with another number of rows to read before any tile."""
        return attrs.evolve(self, newest_rows=newest_rows)

    def _snapshot(self, tables: StagedTables) -> IndexSnapshot:
        return IndexSnapshot(
            layout=self.layout,
            folding=self.folding,
            newest_rows=self.newest_rows,
            tables=tables,
            transaction=tables,
            read_offsets=lambda: self.offsets,
            newest=self.newest,
        )

    def _read(self, keys: Sequence[Key], as_of: Sequence[int]) -> IndexSnapshot:
        instants: dict[bytes, dict[int, None]] = {}
        for key, instant in zip(keys, as_of, strict=True):
            # Some cells have no hash, such as structs, so the key itself cannot be one.
            instants.setdefault(self.layout.group(key), {})[instant] = None
        made = {at: self._blocks(at) for at in dict.fromkeys(as_of)}
        wanted = {
            group: [block for instant in asked for block in made[instant]]
            for group, asked in instants.items()
        }
        return self._snapshot(self._staged(wanted))

    def _blocks(self, as_of: int) -> list[Block]:
        oldest = self._oldest_visible(as_of)
        match self.folding:
            case Folding() as folding:
                return [
                    self._window_block(plan_fold(folding, as_of, self.layout.spec, oldest=oldest))
                ]
            case IntervalFolding() as folding:
                return _interval_blocks(folding, as_of, oldest)
            case None:
                return [Block(kind=b"i", bounds=(FACTS, FACTS + instant_of(as_of + 1)))]

    def _window_block(self, plan: FoldPlan) -> Block:
        newest_rows = min(self.newest_rows, _MOST_ROWS)
        spec = self.layout.spec
        spans = dict.fromkeys(
            part for span in plan.spans if not span.ends for part in span.cover.raw_spans
        )
        ends = dict.fromkeys(
            ReadEnd(spec=spec, end=end) for span in plan.spans for end in span.ends
        )
        runs = dict.fromkeys(run for span in plan.spans for run in span.cover.tile_ranges)
        tiles = [
            (
                TILES
                + (level_prefix(b"", level) if first is None else tile_key(b"", level, first)),
                TILES + tile_key(b"", level, last + 1),
                0,
            )
            for level, first, last in runs
        ]
        rows = [
            (
                FACTS if first is None else FACTS + instant_of(first),
                FACTS + instant_of(last + 1),
                0,
            )
            for first, last in spans
        ]
        return Block(
            kind=b"n",
            bounds=(FACTS, FACTS + instant_of(plan.seen_until + 1)),
            limit=newest_rows + 1,
            few=newest_rows,
            others=(*rows, *tiles),
            ends=tuple(ends),
            is_enough=_has_alive,
        )

    def _staged(self, wanted: dict[bytes, list[Block]]) -> StagedTables:
        """Read groups; those whose newest members were not enough are read again as a whole."""
        tables = StagedTables()
        while wanted:
            replies = self.servers.run(
                [
                    ServerCall(
                        READ_GROUP,
                        self.keys.group(group),
                        [argument for block in blocks for argument in block.arguments()],
                    )
                    for group, blocks in wanted.items()
                ]
            )
            again: dict[bytes, list[Block]] = {}
            for (group, blocks), reply in zip(wanted.items(), replies, strict=True):
                deeper = [
                    block.deeper(newest, others)
                    for block, newest, others in zip(blocks, reply[::2], reply[1::2], strict=True)
                ]
                if deeper == blocks:
                    _add(tables, group, reply)
                else:
                    again[group] = deeper
            wanted = again
        return tables


def _add(tables: StagedTables, group: bytes, reply: Reply) -> None:
    for members in reply:
        if members:
            add_entries(tables, group, members)


def _has_alive(newest: Sequence[bytes]) -> bool:
    return any(unpack(entry_of(member)[2])[1] for member in newest)


def _interval_blocks(folding: IntervalFolding, as_of: int, oldest: int) -> list[Block]:
    known_until, gone_by = folding.known_until(as_of), folding.gone_by(as_of)
    after_gone = TILES + instant_of(gone_by + 1)

    def is_visible(newest: Sequence[bytes]) -> bool:
        # The fifth part of an ended contribution is its event time.
        return any(oldest <= unpack(entry_of(member)[2])[4] <= known_until for member in newest)

    return [
        Block(kind=b"r", bounds=(FACTS, FACTS + instant_of(known_until + 1))),
        Block(kind=b"r", bounds=(after_gone, AFTER[TILES])),
        Block(kind=b"n", bounds=(TILES, after_gone), is_enough=is_visible),
    ]

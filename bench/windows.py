"""Measure reads of windows for quiet and hot keys; print a table and one line of JSON.

    python -m bench.windows [--redis] [--only NAME …] [--rounds 200]

Ten aggregates over ten windows, from a minute to 30 days (or from an hour, whose finest tiles are
longer), of a key with few rows, with many spread over the month, and with very many in the last
minute or seconds. All contenders run in this process, on the same rows: the index, an index whose
tiles are not divided into parts, SQL over the same tiles in SQLite; and, with `--redis`, the index
on a Redis server and a sorted set by hand. Reports the CPU milliseconds of a read of one key and of
a hundred, those of the Redis server, and the wall-clock time of the first read after an index was
opened with its file not in memory. Answers are first compared with the definition; a wrong run is
void.
"""

import argparse
import bisect
import functools
import gc
import math
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random  # noqa: TID251 - seeded below
from typing import TypeAlias

import attrs
import redis

from bench.figures import keep_raw, load_average, quantile, report_result, show
from bench.index import START_US
from narthex._aggregates import cover_span, fold, span
from narthex._aggregates.tiles import DIVIDED_ABOVE, ladder, parts
from narthex._base.times import DAY_US, MINUTE_US, SECOND_US
from narthex._ir.aggregate_specs import (
    AggregateSpec,
    Average,
    Count,
    Distinct,
    LastK,
    Max,
    Min,
    Quantile,
    Sum,
    TypedAggregate,
)
from narthex._ir.assets import IndexSpec, LogShape, LogSpec
from narthex._ir.facts import Cell, Fact, RowId, Version, position
from narthex._ir.schema import Column
from narthex._ir.types import DataType, Float, Int, List, Optional, Str
from narthex._ir.windows import Continuous
from narthex_stores.indexes import (
    LmdbIndex,
    RedisIndex,
    RedisIndexAdapter,
    RedisServers,
    parse_address,
)
from tests.redis_servers import redis_server

AS_OF = START_US + 40 * DAY_US + 31 * SECOND_US + 417_003
"""Amid a minute and amid a second, so that all windows begin and end inside tiles."""

MANY = 100
BATCH = 20_000
TOO_LONG_MS = 1_500
"""A read of many keys that takes longer is not measured."""

TARGETS_MS = {1: 5.0, MANY: 25.0}
WINDOWS = {
    "from 1 m": ("1m", "5m", "15m", "1h", "3h", "6h", "1d", "7d", "14d", "30d"),
    "from 1 h": ("1h", "2h", "3h", "6h", "12h", "1d", "3d", "7d", "14d", "30d"),
}
LOG = LogSpec(
    shape=LogShape.CONTRIBUTIONS,
    keys=(Column("user", Str()),),
    values=(Column("amount", Int()), Column("price", Float()), Column("kind", Str())),
    time_field="at",
)
_NAME = "nx_bench_windows"
OURS, BEFORE = "lmdb", "lmdb without parts"
CONTENDERS = (OURS, BEFORE, "redis", "sqlite", "sorted set")


@attrs.frozen(kw_only=True)
class Profile:
    """How the rows of a key fall.

    Attributes:
        keys: How many such keys there are.
        rows: The rows of each.
        within_us: They fall in a span of this length that ends as of the read.
    """

    keys: int
    rows: int
    within_us: int

    def instants(self, rng: Random) -> list[int]:
        """Draw the event times of one key's rows."""
        return sorted(AS_OF - rng.randrange(self.within_us) for _ in range(self.rows))


PROFILES = {
    "quiet: 20 rows": Profile(keys=MANY, rows=20, within_us=30 * DAY_US),
    "2,000 rows in 30 d": Profile(keys=MANY, rows=2_000, within_us=30 * DAY_US),
    "40,000 rows in 30 d": Profile(keys=5, rows=40_000, within_us=30 * DAY_US),
    "hot: 20,000 rows in 1 m": Profile(keys=5, rows=20_000, within_us=MINUTE_US),
    "hot: 10,000 rows/s, 10 s": Profile(keys=2, rows=100_000, within_us=10 * SECOND_US),
}


def aggregates(windows: Sequence[str]) -> tuple[TypedAggregate, ...]:
    """Ask ten aggregates, each over a window of its own."""
    spans = [Continuous(window) for window in windows]
    asked: tuple[tuple[AggregateSpec, DataType | None, DataType], ...] = (
        (Count(into="n0", window=spans[0]), None, Int()),
        (Sum(into="s1", window=spans[1], of="amount"), Int(), Int()),
        (Average(into="a2", window=spans[2], of="price"), Float(), Float()),
        (Min(into="l3", window=spans[3], of="price", default=0.0), Float(), Float()),
        (Max(into="m4", window=spans[4], of="amount", default=0), Int(), Int()),
        (Distinct(into="u5", window=spans[5], of="kind", unordered=True), Str(), List(Str())),
        (LastK(into="k6", window=spans[6], of="amount", limit=5, dedup=False), Int(), List(Int())),
        (Quantile(into="q7", window=spans[7], of="price", p=0.9, approx=True), Float(), _PRICE),
        (Sum(into="s8", window=spans[8], of="amount"), Int(), Int()),
        (Count(into="n9", window=spans[9]), None, Int()),
    )
    return tuple(TypedAggregate(spec, of, into) for spec, of, into in asked)


_PRICE = Optional(Float())


def facts_of(profile: Profile) -> Iterator[Fact]:
    """Draw the rows of all keys, in order of time for each key."""
    rng = Random(7)  # noqa: S311 - reproducible, not secret
    offset = 0
    for key in range(profile.keys):
        for at in profile.instants(rng):
            yield Fact(
                row_id=RowId(position("kafka:localhost:9092/payments", 0, offset)),
                version=Version(b"\x00"),
                event_time=at,
                key=(f"user-{key}",),
                values=(rng.randrange(1000), rng.random() * 100, f"kind-{rng.randrange(12)}"),
            )
            offset += 1


@attrs.frozen(kw_only=True)
class Asked:
    """The keys of a read, each as of an instant; repeated keys are asked as of earlier instants."""

    keys: list[tuple[Cell, ...]]
    as_of: list[int]

    @classmethod
    def of(cls, number: int, distinct: int, shift: int) -> "Asked":
        """Ask for a number of keys, of which so many are distinct."""
        return cls(
            keys=[(f"user-{(shift + at) % distinct}",) for at in range(number)],
            as_of=[AS_OF - at // distinct for at in range(number)],
        )


Values: TypeAlias = tuple[Cell, ...] | None
Read: TypeAlias = Callable[[Asked], Sequence[Values]]


def read_index(index: LmdbIndex | RedisIndex, asked: Asked) -> list[Values]:
    """Look keys up."""
    with index.read() as reader:
        found = reader.lookup(asked.keys, asked.as_of)
    return [None if one is None else one.values for one in found]


_ROWS = (
    "SELECT 1 n, amount, price, price least, amount most FROM facts"
    " WHERE user = ? AND at BETWEEN ? AND ?"
)
_TILES = (
    "SELECT n, amount, price, least, most FROM tiles"
    " WHERE user = ? AND level = ? AND number BETWEEN ? AND ?"
)


class SqlTiles:
    """Tiles and rows in SQLite, as an index has them, and a statement for each aggregate.

    It has no states of lists: it answers the seven aggregates that SQL computes from sums.
    """

    answers = (0, 1, 2, 3, 4, 8, 9)

    def __init__(self, path: Path, spec: IndexSpec, facts: Sequence[Fact]) -> None:
        """Store the rows and their tiles."""
        self._spec = spec
        self._db = sqlite3.connect(path)
        self._db.executescript(
            "CREATE TABLE facts (user, at, row, amount, price, PRIMARY KEY (user, at, row))"
            " WITHOUT ROWID;"
            "CREATE TABLE tiles (user, level, number, n, amount, price, least, most,"
            " PRIMARY KEY (user, level, number)) WITHOUT ROWID;"
        )
        self._db.executemany(
            "INSERT INTO facts VALUES (?, ?, ?, ?, ?)",
            ((f.key[0], f.event_time, f.row_id, *f.values[:2]) for f in facts),
        )
        for level, length in enumerate(spec.ladder_us):
            self._db.execute(
                "INSERT INTO tiles SELECT user, ?, at / ?, count(*), sum(amount), sum(price),"
                " min(price), max(amount) FROM facts GROUP BY user, at / ?",
                (level, length, length),
            )
        self._db.commit()

    _VALUES = ("sum(n)", "sum(amount)", "sum(price) / sum(n)", "min(least)", "max(most)")

    def read(self, asked: Asked) -> list[Values]:
        """Return the seven values of each key."""
        kinds = (0, 1, 2, 3, 4, 1, 0)
        return [
            tuple(
                self._value(str(key[0]), at, slot, self._VALUES[kind])
                for slot, kind in zip(self.answers, kinds, strict=True)
            )
            for key, at in zip(asked.keys, asked.as_of, strict=True)
        ]

    def _value(self, user: str, as_of: int, slot: int, value: str) -> Cell:
        parts, given = self._parts(as_of, slot)
        (found,) = self._db.execute(
            f"SELECT {value} FROM ({parts})",  # noqa: S608 - no input
            [user if one is None else one for one in given],
        ).fetchone()
        return 0 if found is None else found

    @functools.lru_cache(maxsize=256)  # noqa: B019 - the bench ends with it
    def _parts(self, as_of: int, slot: int) -> tuple[str, tuple[int | None, ...]]:
        window = self._spec.aggregates[slot].spec.window
        cover = cover_span(span(window, as_of), self._spec.ladder_us)
        selected = [_ROWS] * len(cover.raw_spans) + [_TILES] * len(cover.tile_ranges)
        given: list[int | None] = []
        for first, last in cover.raw_spans:
            given += (None, first, last)
        for level, first, last in cover.tile_ranges:
            given += (None, level, first, last)
        return " UNION ALL ".join(selected), tuple(given)


class SortedSet:
    """A sorted set for each key in Redis, by event time, as applications write it by hand."""

    def __init__(self, client: "redis.Redis", spec: IndexSpec, facts: Sequence[Fact]) -> None:
        """Store the rows."""
        self._client, self._spec = client, spec
        self._columns = tuple(column.name for column in LOG.values)
        for start in range(0, len(facts), BATCH):
            with client.pipeline(transaction=False) as pipe:
                for f in facts[start : start + BATCH]:
                    amount, price, kind = f.values
                    member = f"{f.row_id.hex()}|{amount}|{price!r}|{kind}"
                    pipe.zadd(f"by-hand:{f.key[0]}", {member: f.event_time})
                pipe.execute()

    def read(self, asked: Asked) -> list[Values]:
        """Read the rows of the longest window, and compute all values from them."""
        with self._client.pipeline(transaction=False) as pipe:
            for key, at in zip(asked.keys, asked.as_of, strict=True):
                pipe.zrangebyscore(f"by-hand:{key[0]}", at - 30 * DAY_US, at, withscores=True)
            replies = pipe.execute()
        return [self._values(reply, at) for reply, at in zip(replies, asked.as_of, strict=True)]

    def _values(self, reply: list[tuple[bytes, float]], as_of: int) -> tuple[Cell, ...]:
        rows = [(int(score), *member.decode().split("|")) for member, score in reply]
        starts = [
            as_of - one.spec.window.duration
            for one in self._spec.aggregates
            if isinstance(one.spec.window, Continuous) and one.spec.window.duration is not None
        ]
        amounts, prices = [int(row[2]) for row in rows], [float(row[3]) for row in rows]
        at: list[int] = [row[0] for row in rows]
        begin = [bisect.bisect_left(at, start) for start in starts]
        few = sorted(prices[begin[7] :])
        return (
            len(rows) - begin[0],
            sum(amounts[begin[1] :]),
            math.fsum(prices[begin[2] :]) / max(len(rows) - begin[2], 1),
            min(prices[begin[3] :], default=0.0),
            max(amounts[begin[4] :], default=0),
            tuple(dict.fromkeys(row[4] for row in rows[begin[5] :])),
            tuple(amounts[begin[6] :][-5:][::-1]),
            few[min(math.floor(0.9 * len(few)), len(few) - 1)] if few else None,
            sum(amounts[begin[8] :]),
            len(rows) - begin[9],
        )


def meant(spec: IndexSpec, facts: Sequence[Fact], asked: Asked) -> list[Values]:
    """Return the values by definition."""
    columns = tuple(column.name for column in LOG.values)
    return [
        fold(
            spec.aggregates,
            columns,
            [(f.event_time, f.row_id, f.values) for f in facts if f.key == key],
            at,
        )
        for key, at in zip(asked.keys, asked.as_of, strict=True)
    ]


def check(name: str, found: Sequence[Values], wanted: Sequence[Values], within: float) -> None:
    """Compare answers; floats within a relative distance.

    Raises:
        SystemExit: An answer is wrong.
    """
    for ours, theirs in zip(found, wanted, strict=True):
        for a, b in zip(ours or (), theirs or (), strict=True):
            if not (math.isclose(a, b, rel_tol=within) if isinstance(b, float) else a == b):
                raise SystemExit(f"{name} answers {a!r} instead of {b!r}")


@attrs.frozen(kw_only=True)
class Spent:
    """CPU milliseconds of reads, of this process; and those of the server, on average."""

    p50: float
    p99: float
    servers: float


def measured(read: Read, number: int, keys: int, rounds: int, cpu: Callable[[], float]) -> Spent:
    """Read keys many times, after a few reads that do not count."""
    for shift in range(3):
        read(Asked.of(number, keys, shift))
    before = cpu()
    took: list[float] = []
    for shift in range(rounds):
        asked = Asked.of(number, keys, shift)
        began = time.process_time()
        read(asked)
        took.append((time.process_time() - began) * 1e3)
    spent = (cpu() - before) / rounds * 1e3
    return Spent(p50=quantile(took, 0.5), p99=quantile(took, 0.99), servers=spent)


def first_read(path: Path, spec: IndexSpec) -> float:
    """Return the milliseconds of opening an index whose file is not in memory, and of a read."""
    with (path / "data.mdb").open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    began = time.perf_counter()
    index = LmdbIndex(path, spec, readonly=True)
    read_index(index, Asked.of(1, 1, 0))
    took = (time.perf_counter() - began) * 1e3
    index.close()
    return took


def write_all(index: LmdbIndex | RedisIndex, facts: Sequence[Fact]) -> float:
    """Write facts in batches; return facts per CPU-second of this process."""
    began = time.process_time()
    for start in range(0, len(facts), BATCH):
        index.apply(facts[start : start + BATCH], offsets={("payments", 0): start}, epoch=1)
    index.sync()
    return len(facts) / (time.process_time() - began)


@attrs.frozen(kw_only=True)
class Bench:
    """The contenders on one set of rows."""

    spec: IndexSpec
    profile: Profile
    facts: Sequence[Fact]
    rounds: int
    url: str | None

    def run(self) -> dict[str, float]:
        """Measure all contenders."""
        figures: dict[str, float] = {}
        with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
            path = Path(directory)
            undivided = attrs.evolve(self.spec, parts_us=(), divided_above=0)
            for name, spec in ((OURS, self.spec), (BEFORE, undivided)):
                (path / name).mkdir()
                index = LmdbIndex(path / name, spec)
                figures[f"{name}, rows per CPU-second written"] = write_all(index, self.facts)
                index.close()
                figures[f"{name}, first read, wall ms"] = first_read(path / name, spec)
                index = LmdbIndex(path / name, spec, readonly=True)
                stack.callback(index.close)
                figures |= self._measure(name, functools.partial(read_index, index))
            sql = SqlTiles(path / "tiles.db", self.spec, self.facts)
            figures |= self._measure("sqlite", sql.read, sql.answers)
            if self.url is not None:
                figures |= self._on_redis(self.url)
        return figures

    def _on_redis(self, url: str) -> dict[str, float]:
        client = redis.Redis.from_url(url, socket_timeout=60.0)
        servers = RedisServers(parse_address(url))

        def cpu() -> float:
            found = client.info("cpu")
            return float(found["used_cpu_user"]) + float(found["used_cpu_sys"])

        adapter = RedisIndexAdapter(connect=lambda: servers)
        adapter.create(_NAME, self.spec, asset_id=1, timeout_s=60.0)
        index = RedisIndex(servers, _NAME, self.spec)
        figures = {"redis, rows per CPU-second written": write_all(index, self.facts)}
        figures |= self._measure("redis", functools.partial(read_index, index), cpu=cpu)
        by_hand = SortedSet(client, self.spec, self.facts)
        figures |= self._measure("sorted set", by_hand.read, within=0.02, cpu=cpu)
        client.flushall()
        return figures

    def _measure(
        self,
        name: str,
        read: Read,
        slots: Sequence[int] | None = None,
        *,
        within: float = 1e-9,
        cpu: Callable[[], float] = lambda: 0.0,
    ) -> dict[str, float]:
        asked = Asked.of(min(3, 2 * self.profile.keys), min(2, self.profile.keys), 0)
        wanted = meant(self.spec, self.facts, asked)
        if slots is not None:
            wanted = [None if one is None else tuple(one[at] for at in slots) for one in wanted]
        check(name, read(asked), wanted, within)
        figures: dict[str, float] = {}
        for number in TARGETS_MS:
            rounds = max(5, self.rounds // (1 if number == 1 else 10))
            if number * figures.get(f"{name}, 1 keys, p50 ms", 0.0) > TOO_LONG_MS:
                continue
            spent = measured(read, number, self.profile.keys, rounds, cpu)
            figures |= {
                f"{name}, {number} keys, {part} ms": value
                for part, value in attrs.asdict(spent).items()
                if part != "servers" or value
            }
        return figures


def tell(name: str, figures: dict[str, float]) -> None:
    """Print the figures of one set of rows."""
    rows = []
    for contender in CONTENDERS:
        for number, target in TARGETS_MS.items():
            label = f"{contender}, {number} keys"
            if f"{label}, p50 ms" not in figures:
                continue
            p50, p99 = figures[f"{label}, p50 ms"], figures[f"{label}, p99 ms"]
            servers = figures.get(f"{label}, servers ms", 0.0)
            ours = contender in (OURS, "redis")
            rows.append(
                (
                    label,
                    f"{p50:.2f}",
                    f"{p99:.2f}",
                    f"{servers:.2f}",
                    f"< {target:g}: {'met' if p99 < target else 'missed'}" if ours else "",
                )
            )
    show(name, ("contender", "p50, CPU ms", "p99", "server", "target"), rows)


def main() -> None:
    """Measure all sets of rows, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--redis", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    result: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        url = stack.enter_context(redis_server(Path(directory))).url if given.redis else None
        for name, profile in PROFILES.items():
            if given.only and not any(one in name for one in given.only):
                continue
            facts = list(facts_of(profile))
            # A reader has no rows in memory; keep the collector off the bench's own objects.
            gc.freeze()
            for windows, lengths in WINDOWS.items():
                asked = aggregates(lengths)
                spec = IndexSpec(
                    log=LOG,
                    aggregates=asked,
                    ladder_us=ladder(asked),
                    parts_us=parts(ladder(asked)),
                    divided_above=DIVIDED_ABOVE,
                )
                bench = Bench(spec=spec, profile=profile, facts=facts, rounds=given.rounds, url=url)
                figures = bench.run()
                tell(f"{name}; windows {windows}", figures)
                result |= {f"{name}; {windows}; {key}": one for key, one in figures.items()}
    keep_raw("windows", ("figure", "value"), sorted(result.items()))
    report_result("windows", {**result, "load_average": load_average()})


if __name__ == "__main__":
    main()

"""An audit finds each entry of an index that its log does not explain, in every store."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import attrs
import lmdb
import pytest

from narthex._formats import key_encoder
from narthex._ir import TOMBSTONE_TIME, Cell, Fact, IndexSpec
from narthex_stores.indexes import (
    IndexHandle,
    InMemoryIndex,
    LmdbIndexStore,
    Part,
    RedisIndex,
    RedisIndexAdapter,
    RedisServers,
    ShardedReader,
    StoredDifference,
    WrongShapeError,
    parse_address,
    shard_path,
    stored_entries,
)
from narthex_stores.indexes.redis.servers import ServerCall
from tests.redis_servers import redis_cluster, redis_server, require_redis
from tests.stores.indexes.index_suite import KEYED, ROWS, contribution, contributions_spec, row

pytestmark = pytest.mark.slow

TIMEOUT_S = 10.0
_numbers = itertools.count(1)


class AuditedStore(Protocol):
    """A store whose entries a test can change behind the index's back."""

    def create(self, spec: IndexSpec) -> IndexHandle:
        """Create and open an index."""

    def drop_fact(self, index: IndexHandle) -> IndexHandle:
        """Remove a stored fact; return the index, opened again."""


@attrs.frozen
class AuditedLmdb:
    root: Path

    def create(self, spec: IndexSpec) -> IndexHandle:
        store, name = LmdbIndexStore(self.root), f"nx_audit_{next(_numbers)}"
        store.adapter().create(name, spec, asset_id=1, timeout_s=TIMEOUT_S)
        return store.open(name, spec)

    def drop_fact(self, index: IndexHandle) -> IndexHandle:
        index.close()
        last = shard_path(self.root / index.name, index.spec, index.spec.shards - 1)
        environment = lmdb.open(str(last), max_dbs=4)
        table = environment.open_db(b"facts")
        with environment.begin(write=True) as transaction, transaction.cursor(db=table) as cursor:
            assert cursor.first()
            assert cursor.delete()
        environment.close()
        return LmdbIndexStore(self.root).open(index.name, index.spec)


@attrs.frozen
class AuditedRedis:
    servers: RedisServers

    def create(self, spec: IndexSpec) -> IndexHandle:
        name = f"nx_audit_{next(_numbers)}"
        adapter = RedisIndexAdapter(connect=lambda: self.servers)
        adapter.create(name, spec, asset_id=1, timeout_s=TIMEOUT_S)
        return RedisIndex(self.servers, name, spec)

    def drop_fact(self, index: IndexHandle) -> IndexHandle:
        for keys in self.servers.scan(b"{%b:*" % index.name.encode()):
            for key in keys:
                if key.split(b":", 1)[1][:1] == b"\x00":
                    (members,) = self.servers.run([ServerCall("ZRANGEBYLEX", key, ("[f", "(g"))])
                    (removed,) = self.servers.run([ServerCall("ZREM", key, members[:1])])
                    assert removed == 1
                    return index
        raise AssertionError("the index has no facts")


@pytest.fixture(
    scope="module",
    params=[
        "lmdb",
        pytest.param("one server", marks=pytest.mark.redis),
        pytest.param("cluster", marks=pytest.mark.redis),
    ],
)
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AuditedStore]:
    home = tmp_path_factory.mktemp("audited")
    if request.param == "lmdb":
        yield AuditedLmdb(home)
        return
    require_redis()
    if request.param == "cluster":
        with redis_cluster(home) as nodes:
            yield AuditedRedis(RedisServers(parse_address(nodes[0].url)))
    else:
        with redis_server(home) as node:
            yield AuditedRedis(RedisServers(parse_address(node.url)))


def users(number: int) -> str:
    """Return one of 40 users, whose groups are spread over the servers."""
    return f"user {number % 40}"


def contributions(*, step: int = 1) -> list[Fact]:
    """Return contributions: each seventh moves to another user, each eleventh is retracted."""
    first = [
        contribution(b"r%03d" % n, n * step, n, n / 2, user=users(n), version=b"\x01")
        for n in range(200)
    ]
    moved = [
        attrs.evolve(fact, version=b"\x02", key=(users(number + 1),))
        for number, fact in enumerate(first)
        if number % 7 == 0
    ]
    retracted = [
        attrs.evolve(fact, version=b"\x03", alive=False, event_time=TOMBSTONE_TIME)
        for number, fact in enumerate(first)
        if number % 11 == 5
    ]
    return first + retracted + moved


def rows() -> list[Fact]:
    """Return keyed rows, some of which have ended."""
    prices: list[Cell] = [None, 1, 2]
    return [row(users(n), n, b"\x01", prices[n % 3], ("x",), alive=n % 5 != 0) for n in range(120)]


def keyless() -> list[Fact]:
    """Return rows without keys."""
    return [
        Fact(
            row_id=b"k%03d" % n,  # type: ignore[arg-type]
            version=b"\x01",  # type: ignore[arg-type]
            event_time=n,
            key=(),
            values=(users(n), n % 2 == 0),
        )
        for n in range(90)
    ]


SHAPES = {
    "contributions": (contributions_spec((4, 12, 24)), contributions()[:200]),
    "correctable contributions": (
        contributions_spec((4, 12, 24), correctable=True),
        contributions(),
    ),
    "contributions in shards": (
        attrs.evolve(contributions_spec((4, 12, 24)), shards=3),
        contributions()[:200],
    ),
    "keyed rows": (IndexSpec(log=KEYED), rows()),
    "keyed rows in shards": (IndexSpec(log=KEYED, shards=3), rows()),
    "correctable keyed rows": (IndexSpec(log=KEYED, correctable=True), rows()),
    "rows by a column": (IndexSpec(log=ROWS, by=("user",)), keyless()),
}


def _filled(store: AuditedStore, spec: IndexSpec, facts: Sequence[Fact]) -> IndexHandle:
    index = store.create(spec)
    for start in range(0, len(facts), 50):
        index.apply(facts[start : start + 50], offsets={("t", 0): start + 50}, epoch=1)
    return index


def _differences(
    index: IndexHandle,
    facts: Sequence[Fact],
    *,
    changing: Sequence[Fact] = (),
    is_sample: bool = False,
) -> list[StoredDifference]:
    with index.read() as snapshot, stored_entries(snapshot) as entries:
        return entries.differences(facts, changing=changing, is_sample=is_sample)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_index_of_its_log_has_no_difference(store: AuditedStore, shape: str) -> None:
    spec, facts = SHAPES[shape]
    index = _filled(store, spec, facts)

    assert _differences(index, facts) == []
    index.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_dropped_fact_is_found(store: AuditedStore, shape: str) -> None:
    spec, facts = SHAPES[shape]
    index = store.drop_fact(_filled(store, spec, facts))

    (difference,) = _differences(index, facts)

    assert (difference.part, difference.found) == (Part.ROWS, None)
    assert difference.meant is not None
    index.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_fact_that_the_log_does_not_have_is_found(store: AuditedStore, shape: str) -> None:
    spec, facts = SHAPES[shape]
    index = _filled(store, spec, facts)

    found = _differences(index, facts[:-1])

    assert Part.ROWS in {difference.part for difference in found}
    index.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_facts_that_may_have_come_besides_are_not_compared(store: AuditedStore, shape: str) -> None:
    spec, facts = SHAPES[shape]
    index = _filled(store, spec, facts)
    known, later = facts[:-30], facts[-30:]

    assert _differences(index, known) != []
    assert _differences(index, known, changing=later) == []
    index.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_dropped_fact_is_found_beside_groups_that_are_changing(
    store: AuditedStore, shape: str
) -> None:
    spec, facts = SHAPES[shape]
    index = store.drop_fact(_filled(store, spec, facts))
    (dropped,) = _differences(index, facts)
    apart = {fact.row_id for fact in facts if dropped.key in (fact.key, fact.values[:1])}
    later = [fact for fact in facts[-12:] if fact.row_id not in apart]
    known = [fact for fact in facts if fact not in later]
    assert later

    assert dropped in _differences(index, known, changing=later)
    index.close()


def test_entries_in_memory_are_refused() -> None:
    index = InMemoryIndex(IndexSpec(log=KEYED))

    with index.read() as snapshot:
        shards = ShardedReader(2, lambda _: snapshot, key_encoder(KEYED.keys))
        for refused in (snapshot, shards):
            with pytest.raises(WrongShapeError, match="in memory"), stored_entries(refused):
                pass


EXPIRING = {
    "contributions": attrs.evolve(contributions_spec((4, 12, 24)), history_us=40, expires=True),
    "keyed rows": attrs.evolve(IndexSpec(log=KEYED), history_us=40, expires=True),
}


def _made(shape: str, instants: Iterable[int]) -> list[Fact]:
    if shape == "keyed rows":
        return [row(users(n * n), n, b"\x01") for n in instants]
    return [contribution(b"r%04d" % n, n, n % 7, n / 2, user=users(n * n)) for n in instants]


def _sizes(index: IndexHandle) -> dict[Part, int]:
    with index.read() as snapshot, stored_entries(snapshot) as entries:
        return {part: sum(1 for _ in entries.tables.entries(part)) for part in Part}


@pytest.mark.parametrize("most", [0, 30, 10_000])
@pytest.mark.parametrize("shape", EXPIRING)
def test_expired_rows_are_not_reported_as_differences(
    store: AuditedStore, shape: str, most: int
) -> None:
    facts = _made(shape, range(200))
    index = _filled(store, EXPIRING[shape], facts)

    deleted = index.expire(now_us=1_000, most=most, epoch=1)

    assert bool(deleted) == bool(most)
    assert _differences(index, facts) == []
    index.close()


@pytest.mark.parametrize("shape", EXPIRING)
def test_a_row_that_was_lost_before_it_expired_is_found(store: AuditedStore, shape: str) -> None:
    facts = _made(shape, range(200))
    kept = [fact for fact in facts if fact.event_time != 150]
    index = _filled(store, EXPIRING[shape], kept)
    index.expire(now_us=1_000, most=10_000, epoch=1)

    found = _differences(index, facts)

    assert {(one.part, one.instant) for one in found if one.part is Part.ROWS} == {(Part.ROWS, 150)}
    index.close()


@pytest.mark.parametrize("shape", EXPIRING)
def test_an_index_under_constant_load_stays_as_large_as_its_history(
    store: AuditedStore, shape: str
) -> None:
    index = store.create(EXPIRING[shape])
    sizes: list[int] = []
    for start in range(0, 1_000, 20):
        index.apply(_made(shape, range(start, start + 20)), offsets={}, epoch=1)
        index.expire(now_us=10_000, most=200, epoch=1)
        sizes.append(_sizes(index)[Part.ROWS])

    # Two histories of 40, a span of 2 that is not over, and the newest batch.
    assert max(sizes) <= 2 * 40 + 2 + 20
    assert _sizes(index)[Part.TILES] < 4 * max(sizes)
    index.close()

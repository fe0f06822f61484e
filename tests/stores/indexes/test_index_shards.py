"""An index in parts answers as one, and each part has a writer, an epoch and offsets of its own."""

import hashlib
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import lmdb
import pytest
from typing_extensions import override

from narthex._base import to_plain
from narthex._formats import key_encoder
from narthex._ir import IndexSpec, partition_of
from narthex._ir.shards import shards_of_index
from narthex_stores import LmdbIndexStore
from narthex_stores.indexes import (
    IndexFenced,
    IndexHandle,
    IndexMissingError,
    LmdbIndex,
    RedisIndex,
    RedisIndexAdapter,
    ShardedIndex,
    WrongShapeError,
    parse_address,
    shared_servers,
    stored_entries,
)
from tests.redis_servers import redis_server, require_redis
from tests.stores.indexes.index_suite import KEYED, ROWS, USER, IndexSuite, row

pytestmark = pytest.mark.slow

SPEC = IndexSpec(log=KEYED, shards=3)
TIMEOUT_S = 10.0


def part_of(user: str) -> int:
    return partition_of(key_encoder((USER,))((user,)), SPEC.shards)


USERS = {part_of(user): user for user in "abcdefghij"}
"""A key of each part."""


@contextmanager
def _opened(spec: IndexSpec) -> Iterator[IndexHandle]:
    with tempfile.TemporaryDirectory() as home:
        store = LmdbIndexStore(Path(home))
        store.adapter().create("nx_index", spec, asset_id=1, timeout_s=TIMEOUT_S)
        index = store.open("nx_index", spec)
        yield index
        index.close()


class TestShardedIndex(IndexSuite):
    @override
    @contextmanager
    def opened(self, spec: IndexSpec) -> Iterator[IndexHandle]:
        with _opened(attrs.evolve(spec, shards=shards_of_index(spec, 3))) as index:
            yield index


@pytest.fixture
def store(tmp_path: Path) -> LmdbIndexStore:
    """A store with one index of three parts."""
    store = LmdbIndexStore(tmp_path)
    store.adapter().create("nx_index", SPEC, asset_id=1, timeout_s=TIMEOUT_S)
    return store


def test_readers_find_what_the_writer_of_each_part_wrote(store: LmdbIndexStore) -> None:
    for shard, user in USERS.items():
        writer = store.open("nx_index", SPEC, shard=shard)
        writer.apply([row(user, 5, b"v")], offsets={("t", shard): 7 + shard}, epoch=shard)
        assert writer.offsets() == {("t", shard): 7 + shard}
        writer.close()

    reader = store.open("nx_index", SPEC, readonly=True)
    with reader.read() as snapshot:
        assert snapshot.offsets == {("t", 0): 7, ("t", 1): 8, ("t", 2): 9}
        found = snapshot.lookup([(user,) for user in "cjabdighef"], [9] * 10)
    assert [answer is not None for answer in found] == [
        user in USERS.values() for user in "cjabdighef"
    ]
    reader.close()


def test_a_part_refuses_a_replaced_writer_and_the_others_do_not(store: LmdbIndexStore) -> None:
    first, second = (store.open("nx_index", SPEC, shard=shard) for shard in (0, 1))
    first.raise_epoch(9)

    with pytest.raises(IndexFenced):
        first.apply([row(USERS[0], 1, b"v")], offsets={("t", 0): 1}, epoch=8)
    second.apply([row(USERS[1], 1, b"v")], offsets={("t", 1): 1}, epoch=8)

    assert (first.offsets(), second.offsets()) == ({}, {("t", 1): 1})
    first.close()
    second.close()


def test_an_index_without_one_of_its_parts_is_missing(store: LmdbIndexStore) -> None:
    (store.root / "nx_index" / "s1").rename(store.root / "gone")

    with pytest.raises(IndexMissingError):
        store.open("nx_index", SPEC, readonly=True)


def test_a_part_that_was_replaced_is_noticed(store: LmdbIndexStore) -> None:
    reader = store.open("nx_index", SPEC, readonly=True)
    assert not reader.is_replaced()

    (store.root / "nx_index" / "s1").rename(store.root / "gone")

    assert reader.is_replaced()
    reader.close()


def test_an_index_by_other_columns_is_not_divided() -> None:
    with _opened(attrs.evolve(SPEC, log=ROWS, by=(), shards=2)) as index:
        assert isinstance(index, ShardedIndex)
        with index.read() as snapshot, pytest.raises(WrongShapeError):
            snapshot.rows(("a",), 0, None)


def test_an_index_that_was_created_before_shards_existed_is_one_part(tmp_path: Path) -> None:
    old = attrs.evolve(SPEC, shards=1)
    plain = to_plain(old)
    assert isinstance(plain, dict)
    for later in ("shards", "parts_us", "divided_above"):
        del plain[later]
    store = LmdbIndexStore(tmp_path)
    store.adapter().create("nx_index", old, asset_id=1, timeout_s=TIMEOUT_S)
    mark = tmp_path / "nx_index" / "OWNER.json"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"spec": plain}))
    with lmdb.open(str(tmp_path / "nx_index"), max_dbs=4) as environment:
        digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).digest()
        with environment.begin(write=True) as transaction:
            transaction.put(b"spec", digest, db=environment.open_db(b"meta", transaction))

    index = store.open("nx_index", old)

    assert isinstance(index, LmdbIndex)
    assert type(store.adapter().probe("nx_index", old, timeout_s=1.0)).__name__ == "Match"
    index.close()


@pytest.mark.redis
def test_parts_on_servers_that_are_corrected_do_not_refuse_each_other(tmp_path: Path) -> None:
    require_redis()
    spec = attrs.evolve(SPEC, correctable=True)
    users = [f"user {number}" for number in range(600)]
    first_rows, second_rows = (
        [row(user, 1, b"v") for user in users if part_of(user) == shard] for shard in (0, 1)
    )
    with redis_server(tmp_path / "redis") as node:
        servers = shared_servers(parse_address(node.url))
        RedisIndexAdapter(connect=lambda: servers).create(
            "nx_index", spec, asset_id=1, timeout_s=TIMEOUT_S
        )
        first, second = (RedisIndex(servers, "nx_index", spec, shard=shard) for shard in (0, 1))

        # So many rows share buckets of positions.
        first.apply(first_rows, offsets={("t", 0): 1}, epoch=8)
        second.apply(second_rows, offsets={("t", 1): 1}, epoch=3)
        first.apply(first_rows, offsets={("t", 0): 2}, epoch=8)

        with (
            RedisIndex(servers, "nx_index", spec).read() as snapshot,
            stored_entries(snapshot) as entries,
        ):
            assert snapshot.offsets == {("t", 0): 2, ("t", 1): 1}
            assert entries.differences([*first_rows, *second_rows]) == []


@pytest.mark.redis
def test_the_parts_of_an_index_on_servers_have_epochs_of_their_own(tmp_path: Path) -> None:
    require_redis()
    with redis_server(tmp_path / "redis") as node:
        servers = shared_servers(parse_address(node.url))
        adapter = RedisIndexAdapter(connect=lambda: servers)
        adapter.create("nx_index", SPEC, asset_id=1, timeout_s=TIMEOUT_S)
        first, second = (RedisIndex(servers, "nx_index", SPEC, shard=shard) for shard in (0, 1))
        first.raise_epoch(9)

        with pytest.raises(IndexFenced):
            first.apply([row(USERS[0], 1, b"v")], offsets={("t", 0): 1}, epoch=8)
        second.apply([row(USERS[1], 1, b"v")], offsets={("t", 1): 1}, epoch=3)

        with RedisIndex(servers, "nx_index", SPEC).read() as snapshot:
            assert snapshot.offsets == {("t", 1): 1}
            found = snapshot.lookup([(USERS[0],), (USERS[1],)], [9, 9])
        assert [answer is None for answer in found] == [True, False]

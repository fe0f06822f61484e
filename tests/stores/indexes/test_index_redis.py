"""The index on Redis servers fulfils the contract of every index, on one server and on three."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typing_extensions import override

from narthex._ir.assets import IndexSpec
from narthex_stores.indexes import RedisIndex, RedisIndexAdapter, RedisServers, parse_address
from tests.redis_servers import redis_cluster, redis_server, require_redis
from tests.stores.indexes.history_suite import HistorySuite
from tests.stores.indexes.index_suite import KEYED, IndexSuite, row
from tests.stores.indexes.test_index_validity import ValiditySuite

pytestmark = [pytest.mark.redis, pytest.mark.slow]

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServers]:
    require_redis()
    with redis_server(tmp_path_factory.mktemp("redis")) as node:
        yield RedisServers(parse_address(node.url))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServers]:
    require_redis()
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as nodes:
        yield RedisServers(parse_address(nodes[0].url))


@contextmanager
def opened_on(
    servers: RedisServers, spec: IndexSpec, *, newest_rows: int = 3
) -> Iterator[RedisIndex]:
    """Create an index of its own, and remove it at the end."""
    name = f"nx_suite_{next(_numbers)}"
    adapter = RedisIndexAdapter(connect=lambda: servers)
    adapter.create(name, spec, asset_id=1, timeout_s=10.0)
    yield RedisIndex(servers, name, spec, newest_rows=newest_rows)
    adapter.destroy(name, external_id=None, timeout_s=10.0)


class RedisSuite(IndexSuite, ValiditySuite, HistorySuite):
    """The contracts of indexes on the servers of a fixture."""

    newest_rows = 3
    servers: RedisServers

    @override
    @contextmanager
    def opened(self, spec: IndexSpec) -> Iterator[RedisIndex]:
        with opened_on(self.servers, spec, newest_rows=self.newest_rows) as index:
            yield index

    @override
    def test_a_snapshot_does_not_see_what_comes_later(self) -> None:
        """A networked store is consistent per group: its offsets are a lower bound."""
        with self.opened(IndexSpec(log=KEYED)) as index:
            with index.read() as reader:
                index.apply([row("a", 5, b"v", 1, ())], offsets={("t", 0): 1}, epoch=1)
                assert reader.offsets == {}
            with index.read() as reader:
                assert reader.offsets == {("t", 0): 1}
                assert reader.lookup([("a",)], [9]) != [None]


class TestIndexOnOneServer(RedisSuite):
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _connect(cls, single: RedisServers) -> None:
        cls.servers = single


class TestIndexOnAClusterThatReadsTiles(RedisSuite):
    newest_rows = 0

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _connect(cls, cluster: RedisServers) -> None:
        cls.servers = cluster

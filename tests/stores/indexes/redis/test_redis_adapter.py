"""The adapter of indexes on Redis servers fulfils the contract of every adapter."""

from collections.abc import Iterator

import pytest
from typing_extensions import override

from narthex._ir.assets import AssetSpec, IndexSpec
from narthex_stack.machine.ports import HOST, free_ports
from narthex_stores import Adapter, PermanentError, Unknown
from narthex_stores.indexes import RedisIndexAdapter, RedisServers, parse_address
from tests.redis_servers import RedisNode, redis_server, require_redis
from tests.stores.adapters.adapter_suite import TIMEOUT_S, AdapterSuite
from tests.stores.indexes.index_suite import KEYED, contributions_spec

pytestmark = pytest.mark.redis

KEYED_INDEX = IndexSpec(log=KEYED)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisNode]:
    require_redis()
    with redis_server(tmp_path_factory.mktemp("redis")) as node:
        yield node


class TestRedisIndexAdapter(AdapterSuite):
    @pytest.fixture
    @override
    def adapter(self, node: RedisNode) -> Adapter:
        node.connect().flushall()
        servers = RedisServers(parse_address(node.url))
        return RedisIndexAdapter(connect=lambda: servers)

    @pytest.fixture
    @override
    def spec(self) -> AssetSpec:
        return KEYED_INDEX

    @pytest.fixture
    @override
    def other_spec(self) -> AssetSpec:
        return contributions_spec((4,))


def test_a_store_that_is_away_is_unknown() -> None:
    (port,) = free_ports(1)
    address = parse_address(f"redis://{HOST}:{port}")
    adapter = RedisIndexAdapter(connect=lambda: RedisServers(address))

    assert isinstance(adapter.probe("nx_a", KEYED_INDEX, timeout_s=TIMEOUT_S), Unknown)


def test_a_store_without_an_account_is_refused(node: RedisNode) -> None:
    with pytest.raises(PermanentError):
        RedisServers(parse_address(node.url, password="unasked"))

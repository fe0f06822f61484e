"""A batch that an index confirms is on replicas, if the address asks for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from narthex._base import Backoff
from narthex_stores import PermanentError, TransientError
from narthex_stores.indexes import RedisIndex, RedisIndexAdapter, RedisServers, parse_address
from tests.redis_servers import RedisNode, redis_cluster, redis_server, require_redis
from tests.stores.indexes.index_suite import contribution, contributions_spec

pytestmark = pytest.mark.slow

TIMEOUT_S = 10.0
SPEC = contributions_spec((4, 12, 24))
NAME = "nx_replicated"
POLL = Backoff(first_s=0.05, greatest_s=0.2)
OFFSETS = {("t", 0): 40}
FACTS = [contribution(b"%d" % n, n, n, n / 8, user=f"user {n}") for n in range(40)]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RedisNode]:
    require_redis()
    with redis_server(tmp_path / "primary") as node:
        yield node


def opened(url: str) -> RedisIndex:
    """Create an index where replicas are not asked for, and open it at an address."""
    plain = RedisServers(parse_address(url.partition("?")[0]))
    adapter = RedisIndexAdapter(connect=lambda: plain)
    adapter.create(NAME, SPEC, asset_id=1, timeout_s=TIMEOUT_S)
    return RedisIndex(RedisServers(parse_address(url), timeout_s=1.0), NAME, SPEC)


def wait_in_step(replica: RedisNode) -> None:
    """Wait until a replica has its primary's data."""

    def is_in_step() -> bool:
        return bool(replica.connect().info("replication").get("master_link_status") == "up")

    assert POLL.until(is_in_step, within_s=60.0)


def test_an_address_may_ask_for_replicas() -> None:
    asked = parse_address("redis://one:7000,two?replicas=2")

    assert asked.replicas == 2
    assert str(asked) == "redis://one:7000,two:6379?replicas=2"
    assert parse_address("redis://one").replicas == 0


@pytest.mark.parametrize("query", ["replicas=-1", "replicas=x", "replicas=1&a=b", "replicas="])
def test_another_option_of_an_address_is_refused(query: str) -> None:
    with pytest.raises(PermanentError, match="replicas"):
        parse_address(f"redis://one?{query}")


@pytest.mark.redis
def test_a_batch_without_a_replica_is_not_confirmed(node: RedisNode, tmp_path: Path) -> None:
    index = opened(f"{node.url}?replicas=1")

    with pytest.raises(TransientError, match="0 of 1 replicas"):
        index.apply(FACTS, offsets=OFFSETS, epoch=1)
    assert index.offsets() == {}

    with redis_server(tmp_path / "replica") as replica:
        node.connect().config_set("repl-diskless-sync-delay", 0)
        replica.connect().execute_command("REPLICAOF", node.host, node.port)
        wait_in_step(replica)
        index.apply(FACTS, offsets=OFFSETS, epoch=1)

        assert index.offsets() == OFFSETS
        assert replica.connect().dbsize() == node.connect().dbsize()


@pytest.mark.redis
def test_no_replica_is_waited_for_unless_the_address_asks(node: RedisNode) -> None:
    index = opened(node.url)

    index.apply(FACTS, offsets=OFFSETS, epoch=1)

    assert index.offsets() == OFFSETS
    assert "cmdstat_wait" not in node.connect().info("commandstats")


@pytest.mark.redis
def test_a_repeated_batch_also_waits_for_what_it_finds_written(tmp_path: Path) -> None:
    require_redis()
    with redis_cluster(tmp_path, replicas=1) as nodes:
        index = opened(f"{nodes[0].url}?replicas=1")
        holder = RedisServers(parse_address(nodes[0].url)).names(b"{%b}" % NAME.encode())
        alone, replica, other = servers_beside(nodes, holder)
        for one in nodes:
            one.connect().config_set("cluster-allow-replica-migration", "no")
        replica.connect().execute_command("CLUSTER", "REPLICATE", other)

        # The first attempt writes all groups; the second one finds them.
        for _ in range(2):
            with pytest.raises(TransientError, match="of 1 replicas"):
                index.apply(FACTS, offsets=OFFSETS, epoch=1)
        assert index.offsets() == {}

        replica.connect().execute_command("CLUSTER", "REPLICATE", alone)
        wait_in_step(replica)
        index.apply(FACTS, offsets=OFFSETS, epoch=1)
        assert index.offsets() == OFFSETS


def servers_beside(nodes: list[RedisNode], holder: str) -> tuple[str, RedisNode, str]:
    """Return the id of a primary that is not `holder`, its replica, and another primary's id."""
    ids = {node.port: node.connect().execute_command("CLUSTER", "MYID").decode() for node in nodes}
    primaries = {
        node.connect().info("replication")["master_port"]: node
        for node in nodes
        if node.connect().info("replication")["role"] == "slave"
    }
    alone, other = [port for port in primaries if not holder.endswith(f":{port}")]
    return ids[alone], primaries[alone], ids[other]


@pytest.mark.redis
def test_a_server_that_lacks_its_replicas_is_tried_again(node: RedisNode) -> None:
    index = opened(node.url)
    node.connect().config_set("min-replicas-to-write", 1)

    with pytest.raises(TransientError, match="NOREPLICAS"):
        index.apply(FACTS, offsets=OFFSETS, epoch=1)

    node.connect().config_set("min-replicas-to-write", 0)
    index.apply(FACTS, offsets=OFFSETS, epoch=1)
    assert index.offsets() == OFFSETS

"""Proofs of indexes on Redis servers, whose snapshots may contain rows beyond their offsets."""

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from narthex._formats import key_bytes
from narthex._formats.avro import fact_codec
from narthex._ir import Fact, Version
from narthex_proving.proof_runs import NOT_COMPARED, status_of
from narthex_stores import IndexStore, LmdbIndexStore, LogProducer, RedisIndexStore, parse_address
from narthex_stores.indexes import RedisServers
from narthex_stores.indexes.redis.servers import ServerCall
from tests.proving.proving_shop import Shop, buyers, store_shop
from tests.proving.test_logged_queries import answered, keep
from tests.redis_servers import RedisNode, redis_cluster, require_redis

pytestmark = [pytest.mark.kafka, pytest.mark.redis, pytest.mark.slow]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisNode]:
    require_redis()
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as nodes:
        yield nodes[0]


@pytest.fixture
def store(node: RedisNode) -> IndexStore:
    return RedisIndexStore(parse_address(node.url))


def append(shop: Shop, name: str, fact: Fact) -> None:
    """Append a fact to a dataset's log that no index and no history has taken in."""
    spec = shop.platform.log(name)
    with LogProducer(shop.bootstrap) as producer:
        topic = shop.platform.topic(name).physical_name
        value, key = fact_codec(spec).encode(fact), key_bytes(spec.keys, fact.key)
        producer.post(topic, value=value, key=key)
        producer.flush()


def applied_without_its_offset(shop: Shop, store: IndexStore) -> None:
    """Let an index have a row of the log beyond its offsets, as amid a batch."""
    last = buyers()[-1]
    moved = attrs.evolve(last, version=Version(last.version + b"\x01"), values=("elsewhere",))
    append(shop, "Buyers", moved)
    path, spec = shop.index("Buyers")
    index = store.open(path.name, spec)
    index.apply([moved], offsets={}, epoch=1)
    index.close()


@pytest.mark.parametrize("partitions", [2, 4])
def test_correct_indexes_prove_equal_and_a_dropped_row_is_found(
    kafka_bootstrap: str, node: RedisNode, store: IndexStore, tmp_path: Path, partitions: int
) -> None:
    shop = store_shop(kafka_bootstrap, tmp_path, indexes=store, partitions=partitions)

    proof = shop.prove()

    assert proof.differences == ()
    assert proof.unproved == ()
    assert proof.compared["Spend.index"] > 12 * 20

    servers = RedisServers(parse_address(node.url))
    name = shop.index("Spend")[0].name.encode()
    groups = [key for keys in servers.scan(b"{%b:\x00*" % name) for key in keys]
    (members,) = servers.run([ServerCall("ZRANGEBYLEX", groups[0], ("[f", "(g"))])
    assert servers.run([ServerCall("ZREM", groups[0], members[:1])]) == [1]
    servers.close()
    found = shop.prove("Spend").differences
    assert "a stored row" in {one.what for one in found}
    assert {one.store for one in found} == {"index"}


def test_rows_that_arrive_meanwhile_are_reported_and_not_compared(
    kafka_bootstrap: str, store: IndexStore, tmp_path: Path
) -> None:
    shop = store_shop(kafka_bootstrap, tmp_path, indexes=store)
    applied_without_its_offset(shop, store)

    proof = shop.prove("Buyers")

    assert proof.differences == ()
    (unproved,) = proof.unproved
    assert (unproved.store, status_of(proof)) == ("index", NOT_COMPARED)
    assert unproved.why.startswith("1 of its keys received rows while it was read")


def test_the_same_row_in_an_exact_index_is_a_difference(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    shop = store_shop(kafka_bootstrap, tmp_path)
    applied_without_its_offset(shop, LmdbIndexStore(tmp_path / "index"))

    assert shop.prove("Buyers").differences != ()


def test_an_answer_that_may_have_read_later_rows_is_undecided(
    kafka_bootstrap: str, store: IndexStore, tmp_path: Path
) -> None:
    shop = store_shop(kafka_bootstrap, tmp_path / "shop", indexes=store)
    early = answered(shop, 0.1, home=tmp_path / "early")
    late = answered(shop, 1.0, home=tmp_path / "late")
    wrong = attrs.evolve(late, outputs=early.outputs)
    keep(shop, [late, attrs.evolve(late, offsets=early.offsets), wrong])

    proof = shop.prove()

    assert {one.store for one in proof.differences} == {"answers"}
    (unproved,) = proof.unproved
    assert unproved.why.startswith("1 logged queries differ, and may have read rows")
    assert proof.compared["answers"] == 2

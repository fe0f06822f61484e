"""A search finds a key wherever an index on Redis servers has it, and what is left of an index."""

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from narthex._formats.keys import key_bytes
from narthex._ir.assets import IndexSpec
from narthex._ir.facts import Fact
from narthex.settings import Settings
from narthex_stores import Needle, PermanentError, index_names, index_store, search_indexes
from tests.redis_servers import RedisNode, redis_cluster, redis_server, require_redis
from tests.server.conftest import settings_at
from tests.stores.indexes.index_suite import CONTRIBUTIONS, KEYED, USER, contribution, row

pytestmark = pytest.mark.redis

ERASED, KEPT = "hedwig-7031", "konrad-2290"
INDEX, OTHER = "nx_tests000_ix_a_i1", "nx_tests000_ix_a_i2"
SPEC = IndexSpec(log=KEYED, correctable=True)
TIMEOUT_S = 10.0
NEEDLES = [Needle(cells={"user": ERASED}, key=key_bytes((USER,), (ERASED,)))]


def fact(person: str, tags: tuple[str, ...] = ()) -> Fact:
    return row(person, 1, b"1", None, tags)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisNode]:
    require_redis()
    with redis_server(tmp_path_factory.mktemp("redis")) as node:
        yield node


@pytest.fixture(params=["one server", "a cluster"])
def settings(request: pytest.FixtureRequest, tmp_path: Path, node: RedisNode) -> Iterator[Settings]:
    plain = settings_at(tmp_path, dsn="", kafka="")
    if request.param == "one server":
        node.connect().flushall()
        yield attrs.evolve(plain, index_store=node.url)
        return
    with redis_cluster(tmp_path / "cluster") as nodes:
        yield attrs.evolve(plain, index_store=nodes[0].url)


def created(settings: Settings, name: str, *facts: Fact, spec: IndexSpec = SPEC) -> None:
    store = index_store(settings)
    store.adapter().create(name, spec, asset_id=1, timeout_s=TIMEOUT_S)
    index = store.open(name, spec)
    index.apply(facts, offsets={("t", 0): len(facts)}, epoch=1)
    index.close()


def found(settings: Settings) -> dict[str, bool]:
    results = search_indexes(settings, [INDEX, OTHER], NEEDLES)
    return {name: bool(result.found) for name, result in results.items()}


def test_keys_and_values_are_found_until_the_index_is_destroyed(settings: Settings) -> None:
    created(settings, INDEX, fact(ERASED), fact(KEPT))
    created(settings, OTHER, fact(KEPT, ("chess", f"{ERASED}-x")), fact("bea"))
    assert found(settings) == {INDEX: True, OTHER: True}
    (read, _) = search_indexes(settings, [INDEX, OTHER], NEEDLES).values()
    assert read.items > 2
    assert ERASED not in str(read.found)

    others = [attrs.evolve(NEEDLES[0], others=frozenset({f"{ERASED}-x"}))]
    results = search_indexes(settings, [OTHER], others)
    assert results[OTHER].found == (), "a longer key of another row is not the key"

    adapter = index_store(settings).adapter()
    adapter.destroy(INDEX, external_id=None, timeout_s=TIMEOUT_S)
    adapter.destroy(OTHER, external_id=None, timeout_s=TIMEOUT_S)

    assert found(settings) == {INDEX: False, OTHER: False}
    assert index_names(settings) & {INDEX, OTHER} == frozenset()


def test_a_contribution_is_found_by_its_group(settings: Settings) -> None:
    spec = IndexSpec(log=CONTRIBUTIONS)
    created(settings, INDEX, contribution(b"1", 1, user=ERASED), spec=spec)
    created(settings, OTHER, contribution(b"2", 1, user=KEPT), spec=spec)

    assert found(settings) == {INDEX: True, OTHER: False}


def test_keys_of_a_late_write_are_found_and_destroyed(node: RedisNode, tmp_path: Path) -> None:
    node.connect().flushall()
    settings = attrs.evolve(settings_at(tmp_path, dsn="", kafka=""), index_store=node.url)
    created(settings, INDEX, fact(KEPT))
    adapter = index_store(settings).adapter()
    adapter.destroy(INDEX, external_id=None, timeout_s=TIMEOUT_S)
    client = node.connect()
    client.zadd(f"{{{INDEX}:late}}token", {f"f{ERASED}": 0})
    client.hset(f"{{{INDEX}:~1}}token", "row", ERASED)

    assert found(settings) == {INDEX: True, OTHER: False}
    assert INDEX in index_names(settings)

    adapter.destroy(INDEX, external_id=None, timeout_s=TIMEOUT_S)
    assert found(settings) == {INDEX: False, OTHER: False}
    assert INDEX not in index_names(settings)


def test_a_key_of_an_unknown_type_is_refused(node: RedisNode, tmp_path: Path) -> None:
    node.connect().flushall()
    settings = attrs.evolve(settings_at(tmp_path, dsn="", kafka=""), index_store=node.url)
    node.connect().xadd(f"{{{INDEX}:odd}}token", {"person": ERASED})

    with pytest.raises(PermanentError, match="stream"):
        found(settings)

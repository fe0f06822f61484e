"""An installation's settings select the store of its indexes."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from narthex._ir import IndexSpec
from narthex.settings import Settings
from narthex_stack.machine.ports import HOST, free_ports
from narthex_stores import (
    IndexMissingError,
    IndexStore,
    Match,
    PermanentError,
    TransientError,
    index_store,
)
from tests.redis_servers import redis_cluster, redis_server, require_redis
from tests.stores.indexes.index_suite import KEYED, row

PASSWORD = "the-password-of-the-store"
SPEC = IndexSpec(log=KEYED)
TIMEOUT_S = 10.0

_numbers = itertools.count(1)


def settings_of(home: Path, **chosen: str) -> Settings:
    return Settings(
        home=home,
        install_id="abcdefgh",
        ledger_dsn="",
        kafka="",
        server_url="",
        token="",
        index_dir=home / "index",
        history_dir="",
        checkpoint_dir=home / "checkpoints",
        files_root=home,
        jars_dir=home,
        **chosen,
    )


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
) -> Iterator[IndexStore]:
    home = tmp_path_factory.mktemp("home")
    if request.param == "lmdb":
        yield index_store(settings_of(home))
        return
    require_redis()
    if request.param == "cluster":
        with redis_cluster(home / "redis") as nodes:
            yield index_store(settings_of(home, index_store=nodes[0].url))
    else:
        with redis_server(home / "redis") as node:
            yield index_store(settings_of(home, index_store=node.url))


@pytest.fixture
def name(store: IndexStore) -> Iterator[str]:
    """An index of its own in the store."""
    created = f"nx_store_{next(_numbers)}"
    store.adapter().create(created, SPEC, asset_id=1, timeout_s=TIMEOUT_S)
    yield created
    store.adapter().destroy(created, external_id=None, timeout_s=TIMEOUT_S)


def test_a_reader_finds_the_rows_of_a_writer(store: IndexStore, name: str) -> None:
    writer = store.open(name, SPEC)
    writer.apply([row("a", 5, b"v", 1, ())], offsets={("t", 0): 1}, epoch=1)
    writer.close()

    reader = store.open(name, SPEC, readonly=True)
    with reader.read() as snapshot:
        assert snapshot.offsets == {("t", 0): 1}
        assert snapshot.lookup([("a",)], [9]) != [None]
    reader.close()
    assert reader.name == name
    assert isinstance(store.adapter().probe(name, SPEC, timeout_s=TIMEOUT_S), Match)


def test_only_the_adapter_creates_an_index(store: IndexStore) -> None:
    with pytest.raises(IndexMissingError):
        store.open("nx_absent", SPEC)


def test_a_removed_index_is_noticed(store: IndexStore) -> None:
    store.adapter().create("nx_removed", SPEC, asset_id=1, timeout_s=TIMEOUT_S)
    opened = store.open("nx_removed", SPEC, readonly=True)
    assert not opened.is_replaced()

    store.adapter().destroy("nx_removed", external_id=None, timeout_s=TIMEOUT_S)
    if store.is_shared:
        with pytest.raises(IndexMissingError):
            opened.offsets()

    assert opened.is_replaced()
    opened.close()


def test_the_password_is_neither_sent_nor_shown(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, index_store="redis://store", index_store_password=PASSWORD)

    sent = settings.without_secrets()

    assert sent.index_store_password == ""
    assert PASSWORD not in repr(settings) + repr(index_store(settings))
    assert sent.with_secrets({}) == sent
    received = sent.with_secrets({"NARTHEX_INDEX_STORE_PASSWORD": PASSWORD})
    assert received.index_store_password == PASSWORD
    assert received.index_store == settings.index_store


def test_secrets_come_from_the_file_of_the_installation_too(tmp_path: Path) -> None:
    (tmp_path / "services.json").write_text(f'{{"index_store_password": "{PASSWORD}"}}')

    assert settings_of(tmp_path).with_secrets({}).index_store_password == PASSWORD


def test_nothing_is_connected_before_an_index_is_needed(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    store = index_store(settings_of(tmp_path, index_store=f"redis://{HOST}:{port}"))

    with pytest.raises(TransientError, match="did not answer"):
        store.open("nx_any", SPEC)


def test_an_address_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="http://store"):
        index_store(attrs.evolve(settings_of(tmp_path), index_store="http://store"))

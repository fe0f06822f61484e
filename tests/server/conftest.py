"""A server in this process: its real application around a real ledger."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import attrs
import pytest

from narthex._ir.assets import AssetKind
from narthex.settings import Settings
from narthex_ledger import Ledger
from narthex_server.__main__ import make_services
from narthex_server.app import make_app
from narthex_server.services.container import Services
from narthex_server.services.record_counts import RecordCounts
from narthex_server.tracing import Tracing
from narthex_stores import Adapter, InMemoryAdapter
from tests.server.calling import TestClient
from tests.server.sampled_minutes import Minutes
from tests.shared_services import fresh_install_id

_serving = threading.Event()
"""Set while a test of the server runs; other rooms' engines pickle in the same process."""


def _refuse_pickle(event: str, arguments: tuple[object, ...]) -> None:
    if event == "pickle.find_class" and _serving.is_set():
        raise AssertionError(f"something is unpickled: {arguments}")


sys.addaudithook(_refuse_pickle)


@pytest.fixture(autouse=True)
def nothing_is_unpickled() -> Iterator[None]:
    """Fail on any unpickling while a test of the server runs."""
    _serving.set()
    yield
    _serving.clear()


TOKEN = "a-token-of-tests"
DAGS_TOKEN = "a-token-of-airflow"
NOBODY = "127.0.0.1:1"

Adapters = Mapping[AssetKind, Adapter]


@attrs.frozen(kw_only=True)
class House:
    """A server and a client of it that has the token."""

    services: Services
    client: TestClient

    @property
    def ledger(self) -> Ledger:
        return self.services.ledger


MakeHouse = Callable[..., AbstractContextManager[House]]


def settings_at(home: Path, *, dsn: str, kafka: str) -> Settings:
    return Settings(
        home=home,
        # A real broker has the topics of other tests too.
        install_id="tests000" if kafka == NOBODY else fresh_install_id(),
        ledger_dsn=dsn,
        kafka=kafka,
        server_url="http://127.0.0.1:1",
        token=TOKEN,
        dags_token=DAGS_TOKEN,
        index_dir=home / "index",
        history_dir=str(home / "history"),
        checkpoint_dir=home / "checkpoints",
        files_root=home / "files",
        jars_dir=home / "jars",
    )


@contextmanager
def house_at(
    settings: Settings, *, adapters: Adapters | None = None, tracing: Tracing | None = None
) -> Iterator[House]:
    """Serve without the recovery loop: a test takes the steps itself."""
    services = make_services(settings, adapters=adapters, tracing=tracing)
    if settings.kafka == NOBODY:
        # Many pages count records, and each would wait for seconds.
        counts = RecordCounts(services.ends, ask_s=0.05)
        services = attrs.evolve(services, record_counts=counts)
    with ExitStack() as closing:
        closing.callback(services.close)
        client = TestClient(make_app(services), headers={"authorization": f"Bearer {TOKEN}"})
        closing.callback(client.close)
        yield House(services=services, client=client)


def in_memory() -> dict[AssetKind, Adapter]:
    kinds = (AssetKind.KAFKA_TOPIC, AssetKind.INDEX, AssetKind.HISTORY, AssetKind.CHECKPOINT)
    return {kind: InMemoryAdapter(kind) for kind in kinds}


@pytest.fixture
def adapters() -> dict[AssetKind, Adapter]:
    return in_memory()


@pytest.fixture
def house(tmp_path: Path, ledger_dsn: str, adapters: dict[AssetKind, Adapter]) -> Iterator[House]:
    """A server whose stores are in memory."""
    with house_at(settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY), adapters=adapters) as made:
        yield made


@pytest.fixture
def minutes(house: House) -> Iterator[Minutes]:
    made = Minutes(house)
    yield made
    for ledger in made.opened:
        ledger.close()

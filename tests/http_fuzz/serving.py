"""The server under test: a process of its own, on a real broker and a real database."""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import attrs
import httpx
import psutil
import structlog

from narthex_server.app import make_app
from narthex_stack.machine.ports import free_ports
from tests.server.conftest import TOKEN, house_at, settings_at
from tests.server.driving import serve
from tests.server.listening import listening
from tests.server.shop import shop_definitions

STARTS_S = 120.0
QUIET = 50
ENDPOINT = "orders"
PLATFORM = "platform"
"""Callers with the installation's own token."""


@attrs.frozen(kw_only=True)
class ServerUnderTest:
    """A server that serves the shop on `main`.

    Attributes:
        commit_id: The commit that serves.
        topic: The topic of the endpoint for orders.
    """

    process: psutil.Process
    home: Path
    url: str
    commit_id: str
    topic: str

    def memory_mib(self) -> float:
        """Return the memory that only this process has."""
        return float(self.process.memory_full_info().uss) / 2**20


@contextmanager
def run_server(home: Path, *, dsn: str, kafka: str) -> Iterator[ServerUnderTest]:
    """Start the server, commit the shop, and serve until the end of the block."""
    ours, theirs = multiprocessing.Pipe()
    (port,) = free_ports(1)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve, args=(home, dsn, kafka, port, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(STARTS_S):
            raise TimeoutError("the server under test did not start")
        commit_id, topic = ours.recv()
        yield ServerUnderTest(
            process=psutil.Process(process.pid),
            home=home,
            url=f"http://127.0.0.1:{port}",
            commit_id=commit_id,
            topic=topic,
        )
    finally:
        process.terminate()
        process.join(30)


def _serve(home: Path, dsn: str, kafka: str, port: int, ready: Connection) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(QUIET))
    with house_at(settings_at(home, dsn=dsn, kafka=kafka)) as house:
        commit_id = serve(house, shop_definitions())
        topic = house.services.snapshots.head("main").topic(f"webhook/shop/{ENDPOINT}/ingest")
        with listening(make_app(house.services), port):
            ready.send((commit_id, topic))
            while True:
                time.sleep(3600)


def tokens(url: str, roles: tuple[str, ...]) -> dict[str, str]:
    """Create a token for each role; without a role, an unknown token."""
    found = {"none": "nx_unknown", PLATFORM: TOKEN}
    for role in roles:
        body = {"name": f"fuzz of {role}", "scopes": [role], "branches": ["*"]}
        answer = httpx.post(
            f"{url}/api/v1/tokens",
            json=body,
            headers={"authorization": f"Bearer {TOKEN}"},
            timeout=60.0,
        )
        answer.raise_for_status()
        found[role] = str(answer.json()["token"])
    return found

"""One token, or none, does not use up what all callers need: threads, connections, the broker."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from narthex._ir.entities import Definitions
from narthex_server.security.request_checks import THREADS, THREADS_EACH
from tests.security.conftest import Listening
from tests.security.test_policy_doors import read_from, topic
from tests.server.conftest import TOKEN
from tests.server.shop import payload

pytestmark = pytest.mark.postgres

WITHIN_S = 60.0


@contextmanager
def silent_broker() -> Iterator[tuple[int, threading.Semaphore]]:
    """Accept connections and answer nothing; yield the port, and what each connection releases."""
    accepted, kept = threading.Semaphore(0), list[socket.socket]()
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:

        def accept() -> None:
            while True:
                try:
                    kept.append(server.accept()[0])
                except OSError:
                    return
                accepted.release()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield server.getsockname()[1], accepted
        finally:
            server.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for one in kept:
                one.close()


def sources_of(port: int, count: int) -> Definitions:
    """Return datasets whose plan asks a broker how many rows it has, one after the other."""
    found = [
        read_from(topic("orders", f"127.0.0.1:{port}"), name=f"Orders{number}").datasets[0]
        for number in range(count)
    ]
    return Definitions(datasets=tuple(found), featuresets=())


def test_slow_calls_of_one_token_leave_threads_to_others(quick_door: Listening) -> None:
    """An author asks for more plans than there are threads; each waits for a broker."""
    house, url = quick_door.house, f"http://127.0.0.1:{quick_door.port}/api/v1"
    house.ledger.tokens.put("nx_author", name="author", scopes=("author",))
    policy = house.services.settings.policy_file
    many = httpx.Limits(max_connections=None)
    with (
        silent_broker() as (port, accepted),
        httpx.Client(timeout=WITHIN_S, limits=many) as client,
    ):
        policy.write_text(f'[egress]\nallow = ["127.0.0.1:{port}"]\n')
        body = payload(sources_of(port, 3))
        ended = list[int]()

        def preview() -> None:
            answer = client.post(
                f"{url}/commit",
                content=body,
                params={"preview": True},
                headers={"authorization": "Bearer nx_author"},
            )
            ended.append(answer.status_code)

        with ThreadPoolExecutor(THREADS + 8) as pool:
            asked = [pool.submit(preview) for _ in range(THREADS + 8)]
            for _ in range(THREADS_EACH):
                assert accepted.acquire(timeout=WITHIN_S)
            told = httpx.get(
                f"{url}/branch/list",
                headers={"authorization": f"Bearer {TOKEN}"},
                timeout=WITHIN_S,
            )
            before = len(ended)

    assert told.status_code == 200
    assert before == 0
    assert ended == [200] * len(asked)

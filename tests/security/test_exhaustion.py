"""One token, or none, does not use up what all callers need: threads, connections, the broker."""

import resource
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import attrs
import httpx
import pytest
import sqlalchemy as sa

from narthex._base import Backoff
from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex_server.app import make_app
from narthex_server.security.request_checks import STRANGERS_THREADS, THREADS, THREADS_EACH
from narthex_server.web.bounded_http import KEPT_DESCRIPTORS, BoundedHttp, most_connections
from narthex_stack.machine.ports import free_ports
from tests.security.conftest import Listening
from tests.security.test_policy_doors import client_of, read_from, topic
from tests.server.calling import TestClient
from tests.server.conftest import NOBODY, TOKEN, House, house_at, in_memory, settings_at
from tests.server.driving import deploy
from tests.server.listening import listening
from tests.server.shop import Orders, payload

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

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
        read_from(topic(f"t{number}", f"127.0.0.1:{port}"), name=f"Orders{number}").datasets[0]
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
        body = payload(sources_of(port, 2))
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


def test_strangers_who_wait_for_the_ledger_make_no_known_token_wait(
    quick_door: Listening,
) -> None:
    """Tokens cannot be looked up while the test holds a lock on their table."""
    house, url = quick_door.house, f"http://127.0.0.1:{quick_door.port}/api/v1/branch/list"
    engine = sa.create_engine(house.services.settings.ledger_dsn)
    with engine.begin() as connection:
        connection.execute(sa.text("LOCK TABLE api_token IN ACCESS EXCLUSIVE MODE"))
        strangers = [sent_by_stranger(quick_door.port, number) for number in range(THREADS + 8)]
        waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        for _ in Backoff(first_s=0.02, greatest_s=0.1).attempts(within_s=WITHIN_S):
            if connection.execute(waiting).scalar_one() >= STRANGERS_THREADS:
                break

        told = httpx.get(url, headers={"authorization": f"Bearer {TOKEN}"}, timeout=WITHIN_S)

    engine.dispose()
    assert told.status_code == 200
    for one in strangers:
        assert one.recv(1 << 16).startswith(b"HTTP/1.1 401 ")
        one.close()


def sent_by_stranger(port: int, number: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S)
    connection.sendall(
        b"GET /api/v1/branch/list HTTP/1.1\r\nhost: x\r\n"
        b"authorization: Bearer nx_guess%d\r\n\r\n" % number
    )
    return connection


def test_a_plan_does_not_ask_a_silent_broker_for_each_of_its_topics(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three seconds for each of a thousand topics would occupy a thread for an hour."""
    monkeypatch.setattr("narthex_server.deploy.backfill_estimates.ASK_ALL_S", 1.0)
    with silent_broker() as (port, _):
        house.services.settings.policy_file.write_text(f'[egress]\nallow = ["127.0.0.1:{port}"]\n')
        told = house.client.post(
            "/api/v1/commit", content=payload(sources_of(port, 12)), params={"preview": True}
        )

    assert told.status_code == 200
    reasons = [one["basis"] for one in told.json()["report"]["backfill"]]
    assert len(reasons) == 12
    assert sum("brokers have been asked for 1 s" in one for one in reasons) == 11


class FewHttp(BoundedHttp):
    """Has few connections, which may be slow."""

    head_s = WITHIN_S
    most = 8


@pytest.fixture
def few(house: House) -> Iterator[int]:
    """Serve few connections over a real socket."""
    (port,) = free_ports(1)
    with listening(make_app(house.services), port, http=FewHttp, has_tasks=False):
        yield port


HEAD = b"POST /console/sign-in HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n"
WHOLE = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize(
    "begun", [b"", b"GET /he", HEAD, HEAD + b"\r\ntoken=", WHOLE], ids=lambda one: str(len(one))
)
def test_connections_without_a_request_make_place_for_others(few: int, begun: bytes) -> None:
    """Silent clients, slow heads, slow bodies, and connections that stay after an answer."""
    held = []
    for _ in range(3 * FewHttp.most):
        held.append(socket.create_connection(("127.0.0.1", few), timeout=WITHIN_S))
        held[-1].sendall(begun)
        if begun == WHOLE:
            assert held[-1].recv(1 << 16).startswith(b"HTTP/1.1 200")

    told = httpx.get(f"http://127.0.0.1:{few}/healthz", timeout=WITHIN_S)

    assert told.status_code == 200
    first, last = held[0], held[-1]
    assert first.recv(1 << 16) == b""
    last.settimeout(0.2)
    with pytest.raises(TimeoutError):
        last.recv(1)
    for one in held:
        one.close()


def test_a_server_leaves_descriptors_to_its_own_connections() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)

    assert most_connections() + min(KEPT_DESCRIPTORS, soft // 2) <= soft
    assert BoundedHttp.most is None


def test_the_definitions_of_a_branch_are_bounded(house: House) -> None:
    """Checks of 8,000 datasets take the server a minute, and they would become 24,000 stores."""
    few = attrs.evolve(
        house.services, settings=attrs.evolve(house.services.settings, most_definitions=3)
    )
    client = TestClient(make_app(few), headers={"authorization": f"Bearer {TOKEN}"})
    (orders,) = definitions([Orders], []).datasets
    many = [attrs.evolve(orders, name=f"Orders{number}") for number in range(4)]
    at_once, three, fourth = (
        Definitions(datasets=tuple(some), featuresets=()) for some in (many, many[:3], many[3:])
    )

    refused = client.post("/api/v1/commit", content=payload(at_once))
    deploy(client, three)
    added = client.post("/api/v1/commit", content=payload(fourth), params={"incremental": True})

    for answer in (refused, added):
        assert answer.status_code == 400, answer.text
        assert "would have 4 datasets and featuresets; at most 3 are allowed" in answer.text
        assert "`NARTHEX_MOST_DEFINITIONS`" in answer.text


def test_the_branches_of_a_token_are_bounded(tmp_path: Path, ledger_dsn: str) -> None:
    settings = attrs.evolve(settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY), most_branches=3)
    with house_at(settings, adapters=in_memory()) as house:
        clients = {name: client_of(house, name, "author") for name in ("ann", "ben")}
        made = [
            clients[who].post(
                "/api/v1/init", json=body, headers={"x-narthex-branch": f"{who}-{number}"}
            )
            for who in clients
            for number, body in enumerate([{}, {"clone_from": "main"}, {}, {}])
        ]

    assert [one.status_code for one in made] == [200, 200, 200, 409] * 2
    assert "`ann` has made 3 branches" in made[3].text
    assert "`NARTHEX_MOST_BRANCHES`" in made[3].text

"""Refused calls are counted: no client makes the server store something for each of its calls."""

import asyncio
import contextlib
import datetime as dt
import json
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from narthex_server.__main__ import make_services
from narthex_server.app import make_app
from narthex_server.operations.request_metrics import Measured
from narthex_server.security import known_tokens
from narthex_server.security.audit_log import AuditLog
from narthex_server.security.audit_log_heads import LogHeads
from narthex_server.security.known_tokens import KnownTokens
from narthex_server.services.meters import Meters
from narthex_server.web.bounded_http import MOST_WARNINGS, BoundedHttp, FewWarnings, bound_warnings
from narthex_server.web.refused_calls import (
    MOST_ADDRESSES,
    MOST_LISTED,
    MOST_OF_TOKENS,
    OTHER_ADDRESSES,
    OTHER_TOKENS,
    RefusedCalls,
    told_address,
)
from tests.server.calling import PlainClient, TestClient
from tests.server.conftest import NOBODY, House, in_memory, settings_at
from tests.server.declared import DECLARED
from tests.server.security.test_doors import PLACES

AT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
CALLS = 100
MALFORMED = {
    "none": {},
    "unknown": {"authorization": "Bearer nx_nothing"},
    "of another kind": {"authorization": "Basic bnhfOm54Xw=="},
    "empty": {"authorization": "Bearer "},
    "long": {"authorization": "Bearer nx_" + "a" * 20_000},
    "with spaces": {"authorization": "Bearer nx_a nx_b"},
    "no session": {"cookie": "narthex_session=abc"},
}


def entries(house: House) -> list[Any]:
    return [one.entry for one in house.ledger.control_log.entries()]


def listed(house: House) -> list[Any]:
    answer = house.client.get("/api/v1/control-log", params={"limit": 1_000}).json()
    return [one["entry"] for one in answer["entries"]]


def is_whole(house: House) -> bool:
    return bool(house.client.get("/api/v1/control-log/verify").json()["whole"])


@pytest.mark.postgres
@pytest.mark.parametrize("headers", MALFORMED.values(), ids=MALFORMED)
def test_calls_without_a_valid_token_are_one_row_with_their_count(
    house: House, headers: dict[str, str]
) -> None:
    stranger = PlainClient(house.client.app, headers=headers)

    statuses = {stranger.post("/api/v1/tokens", json={}).status_code for _ in range(CALLS)}

    assert statuses == {401}
    assert entries(house) == []  # before the end of the minute
    rows = listed(house)
    assert [row["count"] for row in rows] == [CALLS]
    assert {(row["who"], row["address"], row["status"]) for row in rows} == {
        ("nobody", "testclient", 401)
    }
    assert {kind for row in rows for kind in row["calls"]} == {"POST /tokens 401"}
    assert is_whole(house)


@pytest.mark.slow
@pytest.mark.postgres
def test_no_route_stores_a_row_for_a_call_of_a_stranger(house: House) -> None:
    stranger = PlainClient(house.client.app)
    long = {"x-long": "a" * 40_000}
    paths = sorted({*(path for _, path in DECLARED.rights), "/sso/token", "/nowhere"})
    made = 0
    for path in paths:
        address = path if path.startswith("/console") else f"/api/v1{path}"
        for place, value in PLACES.items():
            address = address.replace(place, value)
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"):
            for headers in ({}, long, {"authorization": "Bearer nx_x"}):
                stranger.request(method, address, headers=headers, follow_redirects=False)
                made += 1
    for path in ("sign-in", "sign-out", "sso", "sso/callback"):
        for method in ("GET", "POST"):
            for data in ({}, {"token": "nx_wrong"}, {"token": "a" * 20_000}):
                stranger.request(method, f"/console/{path}", data=data, follow_redirects=False)

    assert made > CALLS
    assert entries(house) == []  # before the end of the minute
    rows = listed(house)
    assert len(rows) == 1
    assert all(len(row["calls"]) <= MOST_LISTED + 1 for row in rows)
    assert max(len(json.dumps(row)) for row in rows) < 3_000


@pytest.mark.postgres
def test_refusals_of_a_token_are_one_row_for_each_route(house: House) -> None:
    house.ledger.tokens.put("nx_ada", name="ada", scopes=("reader",), token_id="of-ada")
    ada = TestClient(house.client.app, headers={"authorization": "Bearer nx_ada"})
    bob = TestClient(house.client.app)

    for _ in range(CALLS):
        ada.post("/api/v1/init", json={}, headers={"x-narthex-branch": "dev"})
        ada.get("/api/v1/tokens")
    bob.get("/api/v1/tokens")

    names = ("who", "token_id", "verb", "path", "status", "count")
    assert [tuple(row[name] for name in names) for row in listed(house)] == [
        ("ada", "of-ada", "POST", "/init", 403, CALLS),
        ("ada", "of-ada", "GET", "/tokens", 403, CALLS),
        ("nobody", "", "GET", "/tokens", 401, 1),
    ]
    assert is_whole(house)


@pytest.mark.postgres
def test_the_rows_are_written_when_the_server_stops(tmp_path: Path, ledger_dsn: str) -> None:
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY)
    services = make_services(settings, adapters=in_memory())
    with PlainClient(make_app(services)) as client:
        for _ in range(CALLS):
            client.get("/api/v1/commits")

    found = [one.entry for one in services.ledger.control_log.entries()]
    heads = LogHeads(settings.control_log_heads_file).read()
    assert sum(one["count"] for one in found) == CALLS  # type: ignore[index, call-overload, misc]
    assert len(found) == len(heads) <= 2
    assert services.ledger.control_log.verify(heads) is None


def entry(**more: Any) -> dict[str, Any]:
    first = {"who": "nobody", "token_id": "", "verb": "GET", "path": "/commits", "status": 401}
    return first | more


def test_addresses_beyond_a_bound_are_counted_together() -> None:
    refused = RefusedCalls()
    for number in range(10_000):
        refused.note_stranger(entry(), address=f"10.0.{number % 5_000}", at=AT)

    rows = refused.take()

    assert len(rows) == MOST_ADDRESSES + 1
    assert sum(row["count"] for row in rows) == 10_000  # type: ignore[misc]
    assert rows[-1]["address"] == OTHER_ADDRESSES
    assert rows[-1]["count"] == 10_000 - 2 * MOST_ADDRESSES
    assert refused.take() == []


def test_routes_of_tokens_beyond_a_bound_are_counted_together_apart_from_strangers() -> None:
    refused = RefusedCalls()
    for number in range(10_000):
        refused.note_stranger(entry(), address=f"10.0.{number}", at=AT)
        refused.note_holder(entry(who="ada", token_id=f"t{number}", status=403), at=AT)

    rows = refused.take()
    of_tokens = [row for row in rows if "address" not in row]

    assert len(of_tokens) == MOST_OF_TOKENS + 1
    assert of_tokens[-1]["who"] == OTHER_TOKENS
    assert of_tokens[-1]["count"] == 10_000 - MOST_OF_TOKENS


def test_a_row_has_the_first_call_and_what_is_known_about_all() -> None:
    refused = RefusedCalls()
    for number in range(30):
        at = AT + dt.timedelta(seconds=number)
        more = {"path": f"/{number}", "cancelled_tags": [f"tag{number}"]}
        refused.note_holder(entry(who="ada", token_id="of-ada", branch="dev") | more, at=at)
        refused.note_stranger(entry(path=f"/{number}"), address="10.0.0.1", at=at)

    (stranger,) = [row for row in refused.take() if "address" in row]

    assert (stranger["path"], stranger["count"]) == ("/0", 30)
    assert (stranger["from"], stranger["to"]) == (
        AT.isoformat(),
        (AT + dt.timedelta(seconds=29)).isoformat(),
    )
    assert stranger["calls"] == {
        **{f"GET /{number} 401": 1 for number in range(MOST_LISTED)},
        "other": 30 - MOST_LISTED,
    }


def test_addresses_are_those_of_sites_and_of_bounded_length() -> None:
    assert told_address("10.0.0.1") == told_address("::ffff:10.0.0.1") == "10.0.0.1"
    assert told_address("2001:db8::1") == told_address("2001:db8::ffff:1") == "2001:db8::/64"
    assert told_address("2001:db8:0:1::1") != told_address("2001:db8::1")
    assert len(told_address("x" * 10_000)) == 64
    assert told_address("a\nb\x00c") == "abc"


@pytest.mark.postgres
def test_wrong_tokens_take_no_room_from_valid_ones(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_tokens, "_MOST", 10)
    monkeypatch.setattr(known_tokens, "_MOST_UNKNOWN", 10)
    house.ledger.tokens.put("nx_ada", name="ada", scopes=("reader",))
    tokens = KnownTokens(ledger=house.ledger, settings=house.services.settings)
    assert tokens.holder("nx_ada") is not None

    for number in range(100):
        assert tokens.holder(f"nx_{number}") is None
        assert tokens.holder("nx_" + "a" * 20_000 + str(number)) is None
        assert tokens.holder(f"other {number}") is None

    assert tokens.known("nx_ada") is not None
    caches = (tokens._tokens, tokens._unknown)  # noqa: SLF001 - nothing else tells what is kept
    kept = [one for cache in caches for one in cache.recent_keys()]
    assert len(kept) <= 11
    assert max(map(len, kept)) < 20


def test_warnings_are_bounded_and_errors_are_not() -> None:
    now = [0.0]
    few = FewWarnings(now=lambda: now[0])

    def passed(level: int) -> int:
        record = logging.LogRecord("uvicorn.error", level, "", 0, "invalid", (), None)
        return sum(few.filter(record) for _ in range(CALLS))

    assert (passed(logging.WARNING), passed(logging.ERROR)) == (MOST_WARNINGS, CALLS)
    now[0] = 61.0
    assert passed(logging.WARNING) == MOST_WARNINGS


@contextlib.contextmanager
def listening() -> Iterator[int]:
    """Serve nothing on a port with the protocol of the server."""

    async def nothing(_scope: Any, _receive: Any, _send: Any) -> None:
        raise AssertionError("no request is complete")

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        config = uvicorn.Config(nothing, http=BoundedHttp, lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        thread = threading.Thread(
            target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True
        )
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(timeout=30.0)


def test_malformed_requests_write_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("uvicorn.error")
    before = logger.filters[:]
    bound_warnings()
    try:
        with caplog.at_level(logging.WARNING, "uvicorn.error"), listening() as port:
            for _ in range(CALLS):
                with socket.create_connection(("127.0.0.1", port), timeout=30.0) as client:
                    client.sendall(b"no HTTP at all\r\n\r\n")
                    while client.recv(1_024):
                        pass
    finally:
        logger.filters[:] = before

    lines = [one for one in caplog.records if one.name == "uvicorn.error"]
    assert 1 <= len(lines) <= 2 * MOST_WARNINGS


def test_labels_of_metrics_are_those_of_routes(tmp_path: Path) -> None:
    meters = Meters()

    async def unknown(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})

    log = AuditLog(ledger=None, heads=LogHeads(tmp_path / "heads"))  # type: ignore[arg-type]
    app = Measured(unknown, meters=meters, audit_log=log, api="/api/v1")

    async def call(number: int) -> None:
        async def send(_message: Any) -> None:
            return

        scope = {"type": "http", "method": f"M{number}", "path": f"/{number}", "headers": []}
        await app(scope, None, send)  # type: ignore[arg-type]

    async def calls() -> None:
        for number in range(CALLS):
            await call(number)

    asyncio.run(calls())

    assert meters.requests.read() == {(("route", "unknown"), ("status", "404")): CALLS}

"""No address, header, cookie or body makes the server fail."""

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from fastapi.routing import APIRoute

from narthex._ir.expression_nodes import Literal
from narthex._ir.operators import Filter
from narthex._ir.types import Bool
from narthex_ledger import NotOpenedError, load_sealer
from narthex_server.app import API, make_routes
from narthex_server.operations.api_document import document
from narthex_server.security.browser_sessions import COOKIE
from narthex_server.security.route_rights import Right, requirement_of
from narthex_server.security.sign_in_attempts import (
    GREATEST_OF_ALL,
    GREATEST_OF_ONE,
    WITHIN_S,
    Attempts,
)
from tests.server.calling import TestClient
from tests.server.conftest import TOKEN, House
from tests.server.declared import DECLARED
from tests.server.driving import payload, serve
from tests.server.shop import shop_definitions

pytestmark = pytest.mark.slow

ID = "00000000-0000-8000-8000-000000000000"


@pytest.fixture
def client(house: House) -> TestClient:
    """A client that sees a failure as the status 500, as people do."""
    return TestClient(
        house.client.app,
        headers={"authorization": f"Bearer {TOKEN}"},
        raise_server_exceptions=False,
    )


def routes(client: TestClient) -> Iterator[tuple[str, APIRoute]]:
    for route in client.app.routes:  # type: ignore[attr-defined]
        for method in sorted(route.methods):
            yield method, route


def filled(route: APIRoute, value: str) -> str:
    """Put a value into each place of a path that takes a text."""
    path = route.path
    for place in ("{name:path}", "{name}", "{token_id}", "{step}"):
        path = path.replace(place, value)
    return (
        path.replace("{commit_id}", ID)
        .replace("{drill_id}", ID)
        .replace("{asset_id}", value or "1")
    )


def is_open(route: APIRoute) -> bool:
    requirement = requirement_of(route)
    return requirement is not None and requirement.is_open


ODD = ["%00", "a%00b", "%ED%A0%80", "%FF", "%0A", "%7F", "%F0%9F%98%80", "-1", str(2**63)]
NUMBERS = ["", "x", "1e3", "9" * 23, "NaN", "0"]
PARAMETERS = ("limit", "after", "n", "key", "branch", "of", "request_id", "expect_plan")


def failed(client: TestClient, method: str, path: str, **sent: Any) -> bool:
    """Return whether a call made the server fail; an unimplemented call does not count."""
    return client.request(method, path, **sent).status_code == 500


@pytest.mark.postgres
def test_odd_urls_do_not_fail_the_server(client: TestClient) -> None:
    paths = [
        (method, filled(route, value))
        for method, route in routes(client)
        if "{" in route.path
        for value in ODD
    ]
    paths += [
        (method, f"{filled(route, '1')}?{query}")
        for method, route in routes(client)
        if method == "GET" or route.path.endswith("/commit")
        for value in (*ODD, *NUMBERS)
        for query in (f"limit={value}&after={value}", "&".join(f"{p}={value}" for p in PARAMETERS))
    ]

    assert len(paths) > 1_000
    assert [path for method, path in paths if failed(client, method, path, content=b"{}")] == []


@pytest.mark.postgres
@pytest.mark.parametrize("name", ["limit", "after", "n"])
def test_a_number_that_the_ledger_cannot_have_is_refused(client: TestClient, name: str) -> None:
    for value in ("-1", str(2**63), "x"):
        told = [
            client.get(f"/api/v1/{path}", params={name: value}).status_code
            for path in ("commits", "assets", "audits", "control-log", "dataset/Orders/inspect")
        ]
        assert 400 in told, (name, value)
        assert 500 not in told


BODIES = [
    b'{"name": "\\ud800", "scopes": ["reader"]}',
    b'{"name": "\\u0000", "scopes": ["reader"]}',
    b'{"\\ud800": 1}',
    b'{"value": "\\udfff"}',
    b'{"value": "\\u0000"}',
    b'{"value": "\xed\xa0\x80"}',
    b'{"clone_from": "\\u0000"}',
    b'{"clone_from": "\\ud83d"}',
    b'{"to": -1}',
    b'{"to": 9223372036854775808}',
    b'{"to": 1e400}',
    b'{"to": ' + b"1" * 5000 + b"}",
    b'{"webhook": "\\u0000", "endpoint": "\\u0000", "data": []}',
    b'{"inputs": ["\\u0000"], "outputs": ["\\u0000"], "data": {"\\u0000": [1]}}',
    b'{"inputs": [], "outputs": [], "data": {}, "as_of": ' + b"9" * 400 + b"}",
    b"[" * 64 + b"]" * 64,
    b"\xff",
    b"NaN",
]


@pytest.mark.postgres
def test_odd_bodies_do_not_fail_the_server(house: House, client: TestClient) -> None:
    serve(house, shop_definitions())
    calls = [
        (method, filled(route, "Spend"), body, kind)
        for method, route in routes(client)
        if method != "GET" and "/steps/" not in route.path
        for body in BODIES
        for kind in ("application/json", "text/plain")
    ]

    failures = [
        (method, path, body)
        for method, path, body, kind in calls
        if failed(client, method, path, content=body, headers={"content-type": kind})
    ]

    assert len(calls) > 500
    assert failures == []


@pytest.mark.postgres
@pytest.mark.parametrize("steps", [201, 230, 1_000])
def test_a_pipeline_of_many_steps_does_not_fail_the_server(
    house: House, client: TestClient, steps: int
) -> None:
    shop = shop_definitions()
    spend = next(one for one in shop.datasets if one.pipelines)
    longer = spend.pipelines[0].terminal
    for _ in range(steps):
        longer = Filter(longer, Literal(True, Bool()))
    deep = attrs.evolve(spend, pipelines=(attrs.evolve(spend.pipelines[0], terminal=longer),))
    datasets = tuple(deep if one is spend else one for one in shop.datasets)

    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)  # an attacker's program has other limits
    body = payload(attrs.evolve(shop, datasets=datasets))
    sys.setrecursionlimit(usual)

    answer = client.post("/api/v1/commit", content=body)

    assert answer.status_code == 400, answer.text
    assert "200 steps" in answer.text or "nests deeper" in answer.text
    assert house.ledger.commits.newest() == ()


def logged(house: House) -> list[Any]:
    """Return the entries of the control log, as its route writes and lists them."""
    listed = house.client.get("/api/v1/control-log", params={"limit": 1_000}).json()
    return [one["entry"] for one in listed["entries"]]


@pytest.mark.postgres
def test_an_address_with_nul_is_refused_and_recorded(house: House, client: TestClient) -> None:
    answer = client.delete("/api/v1/secret/a%00b")

    assert answer.status_code == 400
    assert "printable" in answer.json()["err_msg"]
    (entry,) = logged(house)
    assert (entry["path"], entry["status"]) == ("/secret/{name:path}", 400)
    assert entry["of"] == {"name": "a\N{REPLACEMENT CHARACTER}b"}


@pytest.mark.postgres
def test_a_refused_call_leaves_little_in_the_log(house: House) -> None:
    stranger = TestClient(house.client.app)
    long = "k" * 20_000

    answer = stranger.post(
        f"/api/v1/secret/{'s' * 5_000}",
        json={"value": "v"},
        headers={"idempotency-key": long, "x-narthex-branch": long[:5_000]},
    )

    assert answer.status_code == 401
    (entry,) = logged(house)
    assert len(json.dumps(entry)) < 1_700
    assert entry["path"] == "/secret/{name:path}"


@pytest.mark.postgres
@pytest.mark.parametrize(
    "cookie",
    [
        base64.urlsafe_b64encode(b"[" * 40_000).decode(),
        base64.urlsafe_b64encode(b'{"own_key":' * 20_000).decode(),
        base64.urlsafe_b64encode(b"[" * 2_000).decode(),
        "e30=",
        base64.urlsafe_b64encode(b'{"key_id":1,"own_key":1,"value":1}').decode(),
        base64.urlsafe_b64encode(b'{"key_id":"a","own_key":"a","value":"\xc3\xa9"}').decode(),
    ],
)
def test_odd_cookies_do_not_fail_the_server(house: House, cookie: str) -> None:
    browser = TestClient(house.client.app, cookies={COOKIE: cookie}, raise_server_exceptions=False)

    assert browser.get("/console").status_code in {401, 431}


@pytest.mark.postgres
def test_every_flipped_bit_of_a_cookie_is_detected(house: House) -> None:
    browser = signed_in(house)
    cookie = browser.cookies[COOKIE]
    sealer = house.services.sealer
    content = json.loads(base64.urlsafe_b64decode(cookie))
    assert sealer.open(content, about="console session").endswith(f" {TOKEN}")

    let_in = []
    for place in range(len(cookie)):
        for bit in range(7):
            flipped = chr(ord(cookie[place]) ^ (1 << bit))
            changed = cookie[:place] + flipped + cookie[place + 1 :]
            if is_let_in(house, changed):
                let_in.append((place, bit))

    assert let_in == []
    assert is_let_in(house, cookie)


def is_let_in(house: House, cookie: str) -> bool:
    """Say whether a cookie is taken: what a browser would send, byte by byte."""
    answer = TestClient(house.client.app).get(
        "/api/v1/branch/list", headers={"cookie": f"{COOKIE}={cookie}".encode("latin-1")}
    )
    return answer.status_code == 200


def signed_in(house: House, token: str = TOKEN, **headers: str) -> TestClient:
    browser = TestClient(house.client.app)
    answer = browser.post(
        "/console/sign-in", data={"token": token}, headers=headers, follow_redirects=False
    )
    assert answer.status_code == 303, answer.text
    return browser


def test_a_sealed_value_names_its_key(tmp_path: Path) -> None:
    sealer = load_sealer(tmp_path / "key")
    sealed: Any = sealer.seal("a value", about="x")

    assert sealer.open(sealed, about="x") == "a value"
    for changed in (
        {**sealed, "key_id": "0" * 16},
        {**sealed, "key_id": "é"},
        {**sealed, "value": sealed["value"] + "\n"},
        {**sealed, "value": "AAAA"},
        {**sealed, "own_key": "*"},
        {name: sealed[name] for name in ("own_key", "value")},
    ):
        with pytest.raises(NotOpenedError):
            sealer.open(changed, about="x")


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://testserver.evil.example"}, 403),
        ({"origin": "http://testserver"}, 303),
        ({"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://proxy.example", "x-forwarded-host": "proxy.example"}, 303),
        ({}, 303),
    ],
)
def test_a_form_of_another_site_cannot_sign_a_user_in_or_out(
    house: House, headers: dict[str, str], status: int
) -> None:
    browser = signed_in(house)
    cookie = browser.cookies[COOKIE]

    signed = TestClient(house.client.app).post(
        "/console/sign-in", data={"token": TOKEN}, headers=headers, follow_redirects=False
    )
    out = browser.post("/console/sign-out", headers=headers, follow_redirects=False)

    assert (signed.status_code, out.status_code) == (status, status)
    assert is_let_in(house, cookie) is (status == 403)


@pytest.mark.postgres
def test_sign_ins_and_sign_outs_are_recorded_with_the_person(house: House) -> None:
    house.ledger.tokens.put("nx_tests_ada", name="ada", scopes=("reader",), token_id="of-ada")
    stranger = TestClient(house.client.app)

    browser = signed_in(house, "nx_tests_ada")
    browser.post("/console/sign-out", follow_redirects=False)
    stranger.post("/console/sign-in", data={"token": "nx_wrong"})

    entries = logged(house)
    assert [
        tuple(entry[part] for part in ("who", "token_id", "path", "status"))  # type: ignore[index, call-overload]
        for entry in entries
    ] == [
        ("ada", "of-ada", "/console/sign-in", 303),
        ("ada", "of-ada", "/console/sign-out", 303),
        ("nobody", "", "/console/sign-in", 401),
    ]
    assert "nx_" not in json.dumps(entries)


@pytest.mark.postgres
def test_a_cookie_opens_nothing_after_its_session_was_ended(house: House) -> None:
    browser, other = signed_in(house), signed_in(house)
    cookie = browser.cookies[COOKIE]
    assert is_let_in(house, cookie)

    browser.post("/console/sign-out", follow_redirects=False)

    assert not is_let_in(house, cookie)
    assert is_let_in(house, other.cookies[COOKIE])
    assert house.client.get("/api/v1/tokens").json() == {"tokens": []}


@pytest.mark.postgres
def test_the_key_of_a_session_is_not_a_token(house: House) -> None:
    browser = signed_in(house)
    content = json.loads(base64.urlsafe_b64decode(browser.cookies[COOKIE]))
    _, key, _ = house.services.sealer.open(content, about="console session").split(" ")

    answer = TestClient(house.client.app).get(
        "/api/v1/branch/list", headers={"authorization": f"Bearer {key}"}
    )

    assert answer.status_code == 401


@pytest.mark.postgres
def test_a_token_cannot_grant_a_right_that_it_lacks(house: House) -> None:
    house.ledger.tokens.put("nx_only", name="only", scopes=("administer", "read:definitions"))
    only = TestClient(house.client.app, headers={"authorization": "Bearer nx_only"})

    def made(*scopes: str) -> int:
        return only.post("/api/v1/tokens", json={"name": "x", "scopes": scopes}).status_code

    assert made("read:definitions") == 200
    assert made("administer") == 200
    for scope in ("admin", "author", "reader", "ingest", "dags"):
        assert made(scope) == 403
    for right in set(Right) - {Right.ADMINISTER, Right.READ_DEFINITIONS}:
        assert made("read:definitions", right.value) == 403


@pytest.mark.postgres
def test_names_in_metrics_are_escaped(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = 'a"} 1\nnarthex_job_up{job="b\\'
    row = {
        "asset_id": 1,
        "label": evil,
        "kind": evil,
        "behind": 1,
        "succeeded_at": "1970-01-01T00:00:01Z",
        "phase": "running",
        "desired": "running",
        "expectations": {evil: {"quarantined": 1, "dropped": 0}},
    }
    monkeypatch.setattr("narthex_server.operations.metrics.job_rows", lambda *_: [row])

    text = house.client.get("/api/v1/metrics").text

    told = [line for line in text.splitlines() if line.startswith("narthex_job_")]
    escaped = 'a\\"} 1\\nnarthex_job_up{job=\\"b\\\\'
    assert told == [
        f'{name}{{job="{escaped}",kind="{escaped}"}} 1'
        for name in ("narthex_job_backlog", "narthex_job_success_seconds", "narthex_job_up")
    ]
    labels = f'job="{escaped}",expectation="{escaped}",action="quarantined"'
    assert f"narthex_expectation_broken_rows{{{labels}}} 1" in text.splitlines()


@pytest.mark.postgres
@pytest.mark.parametrize(
    "data",
    [
        {"at": [1, 2], "u": ["a"]},
        {"at": [1], "u": [["a"], 1]},
        {"at": [1], "u": [{}]},
        {"at": [1], "u": [2**70]},
        {"at": ["x", 1], "u": ["a", "b"]},
        {"at": [1], "u": ["a"], "\0": [1]},
        {"at": [1]},
        {"u": ["a"]},
        {"at": [1], "u": ["a"], "x" * 70_000: [{"a": []}]},
    ],
)
def test_an_invalid_spine_leaves_nothing_behind(
    house: House, client: TestClient, data: dict[str, Any]
) -> None:
    serve(house, shop_definitions())
    spine = {name.replace("u", "Buyer.user"): column for name, column in data.items()}
    call = {
        "inputs": ["Buyer.user"],
        "outputs": ["Buyer.spent"],
        "timestamp_column": "at",
        "data": spine,
    }

    answer = client.post("/api/v1/query_offline", json=call)
    missing = client.post("/api/v1/query_offline", json=call | {"offsets": "none"})

    offline = house.services.settings.home / "offline"
    queued = 1 if answer.status_code == 200 else 0
    assert answer.status_code in {200, 400}, answer.text
    assert missing.status_code == 400
    assert len(list(offline.glob("*"))) == queued


@pytest.mark.postgres
def test_an_address_with_many_wrong_tokens_must_wait(house: House) -> None:
    guesser = TestClient(house.client.app)

    told = [
        guesser.post("/console/sign-in", data={"token": f"nx_{number}"}).status_code
        for number in range(GREATEST_OF_ONE + 2)
    ]
    right = guesser.post("/console/sign-in", data={"token": TOKEN}).status_code

    assert told == [401] * GREATEST_OF_ONE + [429] * 2
    assert right == 429


def test_attempts_are_counted_by_caller_and_from_all() -> None:
    moments = [0.0]
    attempts = Attempts(now=lambda: moments[0])
    for _ in range(GREATEST_OF_ONE):
        assert attempts.may_try("a")
        attempts.failed("a")

    assert (attempts.may_try("a"), attempts.may_try("b")) == (False, True)
    for number in range(GREATEST_OF_ALL - GREATEST_OF_ONE):
        attempts.failed(str(number))
    assert not attempts.may_try("b")
    moments[0] = WITHIN_S
    assert attempts.may_try("a")
    assert attempts.may_try("b")


@pytest.mark.postgres
def test_open_paths_take_small_bodies_only(house: House) -> None:
    paths = {route.path for _, route in routes(house.client) if is_open(route)}
    assert {path.removeprefix(API) for path in paths} == DECLARED.open_paths
    for path in sorted(paths):
        answer = TestClient(house.client.app).post(path, content=b"x" * 20_000)
        assert answer.status_code in {405, 413}, path


def test_every_number_of_a_body_has_bounds() -> None:
    """A number without bounds would fail where it is stored, as it did for audits."""
    api = document(make_routes().routes)
    schemas = api["components"]["schemas"]
    bodies = [
        content["schema"]
        for operations in api["paths"].values()
        for operation in operations.values()
        for content in operation.get("requestBody", {}).get("content", {}).values()
    ]

    unbounded = [place for body in bodies for place in unbounded_numbers(body, schemas, "body")]

    assert set(unbounded) == CHECKED_OR_JSON


CHECKED_OR_JSON = {
    "QueryCall.as_of",
    "LookupCall.timestamps.items",
    "OfflineCall.at.additionalProperties.additionalProperties.additionalProperties",
    "TrainingSetCall.at.additionalProperties.additionalProperties.additionalProperties",
    "SummaryUpload.start.additionalProperties",
    "SummaryUpload.end.additionalProperties",
    "ConnectionCall.arguments.additionalProperties",
}
"""Numbers that a parser of their own checks, or that the ledger stores as JSON."""


def unbounded_numbers(schema: Any, schemas: Any, place: str) -> Iterator[str]:
    """Yield the places of integers in a schema that have no least or no greatest value."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield from unbounded_numbers(schemas[name], schemas, name)
    if schema.get("type") == "integer" and not {"minimum", "maximum"} <= schema.keys():
        yield place
    for name, part in schema.get("properties", {}).items():
        yield from unbounded_numbers(part, schemas, f"{place}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from unbounded_numbers(schema[name], schemas, f"{place}.{name}")
    for part in schema.get("anyOf", []):
        yield from unbounded_numbers(part, schemas, place)

"""A commit is refused what the policy does not grant, and every read of a secret is recorded."""

import textwrap
from datetime import datetime
from typing import Any

import pytest

from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Postgres, Secret, source
from narthex.datasets import dataset, field
from tests.server.calling import TestClient
from tests.server.conftest import House
from tests.server.driving import accept
from tests.server.security.test_control import with_token
from tests.server.shop import payload

pytestmark = pytest.mark.postgres

__owner__ = "shop@narthex.dev"


def users_of(host: str) -> Definitions:
    server = Postgres("crm", host, "shop", Secret("crm/user"), Secret("crm/word"))

    @source(server.table("users", cursor="changed"), disorder="1h", cdc="upsert")
    @dataset(index=True)
    class Users:
        uid: int = field(key=True)
        name: str
        changed: datetime

    return definitions([Users], [])


def grant(house: House, text: str) -> None:
    house.services.settings.policy_file.write_text(textwrap.dedent(text))


RULE = """
    [[secrets]]
    name = "crm/*"
    branches = ["main"]
    hosts = ["db.example.com:5432"]
"""


def refused(house: House, host: str, branch: str = "main", *, preview: bool = False) -> list[Any]:
    answer = house.client.post(
        "/api/v1/commit",
        content=payload(users_of(host)),
        params={"preview": preview},
        headers={"x-narthex-branch": branch},
    )
    assert answer.status_code == 400, answer.text
    return list(answer.json()["errors"])


@pytest.mark.parametrize("preview", [True, False])
def test_a_commit_without_a_rule_for_its_secrets_is_refused(house: House, *, preview: bool) -> None:
    errors = refused(house, "db.example.com", preview=preview)

    assert [one["code"] for one in errors] == ["NX509", "NX509"]
    assert all(one["file"].endswith("test_bound_secrets.py") and one["line"] for one in errors)
    assert (
        'name = "crm/user"\nbranches = ["main"]\nhosts = ["db.example.com:5432"]'
        in (errors[0]["hint"])
    )
    assert house.client.get("/api/v1/commits").json()["commits"] == []


def test_a_rule_grants_a_secret_to_its_branches_and_hosts_only(house: House) -> None:
    grant(house, RULE)
    house.client.post("/api/v1/init", json={}, headers={"x-narthex-branch": "dev"})

    assert [one["code"] for one in refused(house, "evil.example.com")] == ["NX509", "NX509"]
    assert [one["code"] for one in refused(house, "db.example.com", "dev")] == ["NX509", "NX509"]
    assert {one["code"] for one in refused(house, "127.0.0.1")} == {"NX508", "NX509"}
    assert accept(house.client, users_of("db.example.com"))


def test_a_policy_with_a_mistake_accepts_no_commit(house: House) -> None:
    grant(house, RULE + '\n    [egress]\n    allow = ["0x7f.1"]')

    assert [one["code"] for one in refused(house, "db.example.com")] == ["NX973"]


def entries_of(client: TestClient) -> list[tuple[Any, ...]]:
    entries = [one["entry"] for one in client.get("/api/v1/control-log").json()["entries"]]
    return [
        (one["who"], one["verb"], one["path"], one["of"].get("name"), one["status"])
        for one in entries
        if "secret" in one["path"]
    ]


def test_every_read_of_a_secret_is_recorded_without_its_value(house: House) -> None:
    author = with_token(house)
    path = "/api/v1/secret/chat/word"
    house.client.post(path, json={"value": "hunter2"})
    house.client.get(path)
    author.get(path)
    house.client.get("/api/v1/secret/nothing")
    house.client.get("/api/v1/secrets")

    log = house.client.get("/api/v1/control-log")
    assert entries_of(house.client) == [
        ("platform", "POST", "/secret/{name:path}", "chat/word", 200),
        ("platform", "GET", "/secret/{name:path}", "chat/word", 200),
        ("platform", "GET", "/secret/{name:path}", "nothing", 404),
        ("platform", "GET", "/secrets", None, 200),
        ("ada", "GET", "/secret/{name:path}", "chat/word", 403),  # refused calls are written later
    ]
    assert "hunter2" not in log.text

"""A platform stores connections by name, and commits get what it stores."""

import socket
import textwrap
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import MySQL, Postgres, Secret, source
from narthex.datasets import dataset, field
from narthex_server.deploy.executor import definitions_of
from tests.server.conftest import House
from tests.server.driving import accept
from tests.server.security.test_control import everything_stored, with_token
from tests.server.shop import payload

pytestmark = pytest.mark.postgres

__owner__ = "shop@narthex.dev"

CRM = {
    "kind": "Postgres",
    "arguments": {"host": "db.example.com", "db_name": "shop", "port": 5433},
    "secrets": {"username": "crm/user", "password": "crm/password"},
}
RULE = """
    [[secrets]]
    name = "crm/*"
    branches = ["*"]
    hosts = ["db.example.com:5433"]
"""
PATH = "/api/v1/connections/crm"


def users_of(place: Any) -> Definitions:
    @source(place, disorder="1h", cdc="upsert")
    @dataset(index=True)
    class Users:
        uid: int = field(key=True)
        name: str
        changed: datetime

    return definitions([Users], [])


BY_NAME = Postgres.get("crm").table("users", cursor="changed")
IN_CODE = Postgres(
    "crm", "db.example.com", "shop", Secret("crm/user"), Secret("crm/password"), 5433
).table("users", cursor="changed")


def grant(house: House, text: str) -> None:
    house.services.settings.policy_file.write_text(textwrap.dedent(text))


def preview(house: House, place: Any, branch: str = "main") -> Any:
    return house.client.post(
        "/api/v1/commit",
        content=payload(users_of(place)),
        params={"preview": True},
        headers={"x-narthex-branch": branch},
    )


def test_a_connection_is_kept_replaced_listed_and_deleted(house: House) -> None:
    author = with_token(house)

    kept = house.client.put(PATH, json=CRM)
    moved = CRM | {"arguments": {"host": "db2.example.com", "db_name": "shop"}}
    replaced = house.client.put(PATH, json=moved)
    listed = house.client.get("/api/v1/connections").json()
    refused = [
        author.put(PATH, json=CRM),
        author.get("/api/v1/connections"),
        author.post(f"{PATH}/test", json={}),
        author.delete(PATH),
    ]
    gone = house.client.delete(PATH)

    assert (kept.status_code, replaced.status_code) == (200, 200)
    assert kept.json() == {"name": "crm", "branches": ["*"], **CRM}
    assert listed == {"connections": [{"name": "crm", "branches": ["*"], **moved}]}
    assert [one.status_code for one in refused] == [403, 403, 403, 403]
    assert {one.json()["err_msg"] for one in refused} == {"the token lacks the right `secrets`"}
    assert (gone.status_code, house.client.delete(PATH).status_code) == (200, 404)
    assert house.client.get("/api/v1/connections").json() == {"connections": []}


def test_a_connection_is_sealed_in_the_database(house: House) -> None:
    house.client.put(PATH, json=CRM)

    assert "db.example.com" not in everything_stored(house)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "Webhook"}, "`Webhook` is not a kind of connection"),
        ({"arguments": {"host": "h"}}, "`db_name` is missing"),
        ({"arguments": {"host": "h", "db_name": "d", "password": "x"}}, "is a credential"),
        ({"arguments": {"host": "h", "db_name": "d", "port": "5433"}}, "expected int"),
        ({"arguments": {"host": "u:p@h", "db_name": "d"}}, "a credential in `host`"),
    ],
)
def test_a_connection_that_no_commit_could_use_is_refused(
    house: House, change: Any, reason: str
) -> None:
    answer = house.client.put(PATH, json=CRM | change)

    assert answer.status_code == 400
    assert reason in answer.text
    assert house.client.get("/api/v1/connections").json() == {"connections": []}


def test_a_commit_by_name_has_the_plan_of_one_with_the_connection_in_code(house: House) -> None:
    grant(house, RULE)
    unknown = preview(house, BY_NAME)
    house.client.put(PATH, json=CRM)

    by_name, in_code = preview(house, BY_NAME), preview(house, IN_CODE)

    (error,) = unknown.json()["errors"]
    assert error["message"] == "this branch has no connection `crm`"
    assert "`narthex connection set crm Postgres …`" in error["hint"]
    assert error["file"].endswith("test_connections.py")
    assert error["line"]
    assert by_name.status_code == 200, by_name.text
    assert by_name.json()["report"]["plan_sha256"] == in_code.json()["report"]["plan_sha256"]


def test_a_deployed_source_has_the_connection_and_stays_when_that_is_deleted(house: House) -> None:
    grant(house, RULE)
    house.client.put(PATH, json=CRM)
    commit_id = accept(house.client, users_of(BY_NAME))
    house.client.delete(PATH)

    deployed = definitions_of(house.ledger, UUID(commit_id))
    again = preview(house, BY_NAME)

    assert deployed is not None
    assert deployed.datasets[0].sources[0].connector == IN_CODE
    assert again.status_code == 400


def test_the_policy_decides_about_what_is_kept(house: House) -> None:
    house.client.put(PATH, json=CRM)
    without_rule = preview(house, BY_NAME)
    grant(house, RULE)
    granted = preview(house, BY_NAME)
    moved = CRM | {"arguments": {"host": "evil.example.com", "db_name": "shop"}}
    house.client.put(PATH, json=moved)
    elsewhere = preview(house, BY_NAME)

    assert {one["code"] for one in without_rule.json()["errors"]} == {"NX509"}
    assert granted.status_code == 200, granted.text
    assert {one["code"] for one in elsewhere.json()["errors"]} == {"NX509"}


def test_a_connection_is_for_the_branches_that_it_names(house: House) -> None:
    grant(house, RULE)
    house.client.post("/api/v1/init", json={}, headers={"x-narthex-branch": "dev-1"})
    house.client.put(PATH, json=CRM | {"branches": ["dev-*"]})

    assert preview(house, BY_NAME, "dev-1").status_code == 200
    (error,) = preview(house, BY_NAME).json()["errors"]
    assert error["message"] == "this branch has no connection `crm`"
    tested = house.client.post(f"{PATH}/test", json={"branch": "main"}).json()
    assert tested == {"faults": ["branch `main` may not use it"], "reached": []}


def test_a_connection_of_another_kind_is_refused(house: House) -> None:
    house.client.put(PATH, json=CRM)

    (error,) = preview(house, MySQL.get("crm").table("users", cursor="changed")).json()["errors"]

    assert "`crm` is of `Postgres`, and the definition says `MySQL`" in error["message"]


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_test_names_what_the_policy_denies_then_connects(house: House, listening: int) -> None:
    here = {"host": "127.0.0.1", "db_name": "shop", "port": listening}
    house.client.put(PATH, json=CRM | {"arguments": here})
    rule = f'[[secrets]]\nname = "crm/*"\nbranches = ["*"]\nhosts = ["127.0.0.1:{listening}"]\n'

    denied = house.client.post(f"{PATH}/test", json={}).json()
    grant(house, f'{rule}[egress]\nallow = ["127.0.0.1"]\n')
    reached = house.client.post(f"{PATH}/test", json={}).json()
    house.client.put(PATH, json=CRM | {"arguments": here | {"port": 9}})
    rule = rule.replace(str(listening), "9")
    grant(house, f'{rule}[egress]\nallow = ["127.0.0.1"]\n')
    silent = house.client.post(f"{PATH}/test", json={}).json()

    assert denied["reached"] == []
    assert any("127.0.0.1" in fault for fault in denied["faults"])
    assert reached == {"faults": [], "reached": [f"127.0.0.1:{listening}"]}
    assert silent["reached"] == []
    assert "`127.0.0.1:9` cannot be reached: Connection refused" in silent["faults"]
    assert house.client.post("/api/v1/connections/none/test", json={}).status_code == 404

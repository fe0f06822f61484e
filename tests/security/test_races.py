"""Two commits at once lose no change, and a token or an approval ends with what it was for."""

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import pytest

from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex_server.deploy.executor import definitions_of
from tests.security.conftest import Listening
from tests.security.test_policy_doors import client_of
from tests.server.calling import TestClient
from tests.server.conftest import House
from tests.server.driving import accept, catch_up, create_all, serve, shown, step
from tests.server.security.test_visibility import said
from tests.server.shop import Orders, payload

pytestmark = pytest.mark.postgres


def orders(*names: str) -> Definitions:
    (one,) = definitions([Orders], []).datasets
    found = [attrs.evolve(one, name=name) for name in names]
    return Definitions(datasets=tuple(found), featuresets=())


def added(client: TestClient, wanted: Definitions) -> str:
    """Commit definitions beside those of the branch, without carrying it out."""
    answer = client.post("/api/v1/commit", content=payload(wanted), params={"incremental": True})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["commit_id"])


def carry_out(house: House, commit_id: str) -> None:
    create_all(house.client, commit_id)
    for name in ("ready", "commit", "backfill", "backfilled"):
        step(house.client, commit_id, name)
    catch_up(house)
    step(house.client, commit_id, "promote")


def deployed(house: House, branch: str = "main") -> list[str]:
    head = house.ledger.branches.get(house.services.tenant, branch).head_commit_id
    found = definitions_of(house.ledger, head)
    return [] if found is None else [one.name for one in found.datasets]


def planned(house: House, commit_id: str) -> Any:
    return house.client.post(f"/api/v1/commits/{commit_id}/steps/plan")


def test_of_two_additions_at_once_none_removes_the_other(house: House) -> None:
    serve(house, orders("First"))
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda name: added(house.client, orders(name)), ["Second", "Third"])

    carry_out(house, one)
    refused = planned(house, other)

    assert sorted(deployed(house)) == ["First", "Second"]
    assert refused.status_code == 409, refused.text
    assert "another commit changed the branch first; commit again" in refused.text
    assert shown(house.client, other)["state"] == "REJECTED"
    carry_out(house, added(house.client, orders("Third")))
    assert sorted(deployed(house)) == ["First", "Second", "Third"]


def test_an_addition_waits_for_one_that_fails_and_is_carried_out(house: House) -> None:
    serve(house, orders("First"))
    one, other = added(house.client, orders("Second")), added(house.client, orders("Third"))

    assert house.client.post(f"/api/v1/commits/{one}/cancel").status_code == 200
    carry_out(house, other)

    assert sorted(deployed(house)) == ["First", "Third"]


def test_a_commit_that_waited_changes_nothing_that_its_author_may_not_see(house: House) -> None:
    """The right was checked against a branch that had no such dataset yet."""
    author = client_of(house, "author", "author", tags=["shop"])
    serve(house, orders("First"))
    hidden = said(orders("First", "Users"), "Users", "pii")
    first, waiting = accept(house.client, hidden), accept(author, orders("Second"))

    carry_out(house, first)
    refused = planned(house, waiting)

    assert refused.status_code == 409, refused.text
    assert shown(house.client, waiting)["state"] == "REJECTED"
    assert "Users" in deployed(house)
    assert author.post("/api/v1/commit", content=payload(orders("Second"))).status_code in {
        403,
        404,
    }


@pytest.fixture
def protected(house: House) -> House:
    """A server with a protected branch `exp`, whose first commit readers read."""
    house.client.post("/api/v1/init", json={}, headers=EXP)
    serve_on_exp(house, "First")
    protect(house, is_protected=True)
    return house


def protect(house: House, *, is_protected: bool) -> None:
    answer = house.client.post(
        "/api/v1/branch/protect", json={"protected": is_protected}, headers=EXP
    )
    assert answer.status_code == 200, answer.text


EXP = {"x-narthex-branch": "exp"}


def serve_on_exp(house: House, *names: str) -> str:
    return serve(house, orders(*names), **EXP)


def waiting(house: House, *names: str) -> str:
    """Carry out a commit on `exp` until a person must approve it."""
    commit_id = accept(house.client, orders(*names), **EXP)
    create_all(house.client, commit_id)
    for name in ("ready", "commit", "backfill", "backfilled"):
        step(house.client, commit_id, name)
    catch_up(house)
    return commit_id


def test_an_approval_of_a_deleted_branch_is_none_of_its_successor(protected: House) -> None:
    house = protected
    old = waiting(house, "Second")
    protect(house, is_protected=False)
    assert house.client.post("/api/v1/delete", headers=EXP).status_code == 200
    again = house.client.post("/api/v1/init", json={}, headers=EXP)
    assert (again.status_code, again.json()["head"]) == (200, None)
    serve_on_exp(house, "First")
    protect(house, is_protected=True)
    new = waiting(house, "Second")

    late = house.client.post(f"/api/v1/commits/{old}/approve", headers=EXP)
    flipped = house.client.post(f"/api/v1/commits/{new}/steps/promote", headers=EXP)

    assert late.status_code == 409, late.text
    assert flipped.status_code == 409, flipped.text
    found = house.ledger.branches.get(house.services.tenant, "exp")
    assert found.serving_commit_id != found.head_commit_id
    assert shown(house.client, new)["approval"]["by"] is None


def test_an_approval_is_for_one_commit(protected: House) -> None:
    """A commit with the same definitions, made after the approval of one, needs its own."""
    house = protected
    one = waiting(house, "Second")
    assert house.client.post(f"/api/v1/commits/{one}/approve", headers=EXP).status_code == 200
    other = waiting(house, "Third")

    outcomes = [
        house.client.post(f"/api/v1/commits/{commit_id}/steps/promote", headers=EXP)
        for commit_id in (one, other)
    ]

    assert shown(house.client, one)["promotion"] == "SUPERSEDED", outcomes[0].text
    assert outcomes[1].status_code == 409, outcomes[1].text
    late = house.client.post(f"/api/v1/commits/{one}/approve", headers=EXP)
    assert late.status_code == 409, late.text


def test_a_commit_of_a_deleted_branch_is_not_carried_out_on_its_successor(house: House) -> None:
    house.client.post("/api/v1/init", json={}, headers=EXP)
    old = accept(house.client, orders("Old"), **EXP)
    deleted = house.client.post("/api/v1/delete", headers=EXP)
    if deleted.status_code == 409:  # it is in flight, so it must end first
        assert house.client.post(f"/api/v1/commits/{old}/cancel", headers=EXP).status_code == 200
        deleted = house.client.post("/api/v1/delete", headers=EXP)
    assert deleted.status_code == 200, deleted.text
    house.client.post("/api/v1/init", json={}, headers=EXP)

    refused = planned(house, old)

    assert refused.status_code == 409, refused.text
    assert deployed(house, "exp") == []


def test_a_token_that_has_ended_neither_commits_nor_cancels_what_it_began(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narthex_server.security.known_tokens.KNOWN_S", 0.0)
    client = client_of(house, "author", "author")
    known = {one.name: one.token_id for one in house.ledger.tokens.all()}
    commit_id = accept(client, orders("First"))

    assert house.client.delete(f"/api/v1/tokens/{known['author']}").status_code == 200

    outcomes = {
        path: client.request(method, f"/api/v1/{path}").status_code
        for method, path in [
            ("POST", "commit"),
            ("POST", f"commits/{commit_id}/cancel"),
            ("GET", f"commits/{commit_id}"),
            ("GET", "branch/list"),
            ("POST", "query"),
        ]
    }
    assert set(outcomes.values()) == {401}, outcomes


def test_a_token_that_ends_before_its_call_has_arrived_begins_nothing(
    quick_door: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server asks for the body only after it has checked the token."""
    monkeypatch.setattr("narthex_server.security.known_tokens.KNOWN_S", 0.0)
    monkeypatch.setattr("narthex_server.security.request_checks.AUTHORIZED_S", 0.0)
    monkeypatch.setattr("narthex_server.security.request_checks.BODY_S", 30.0)
    ledger = quick_door.house.ledger
    ledger.tokens.put("nx_author", name="author", scopes=("author",))
    head = (
        "POST /api/v1/init HTTP/1.1\r\nhost: x\r\nauthorization: Bearer nx_author\r\n"
        "x-narthex-branch: late\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
        "expect: 100-continue\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", quick_door.port), timeout=30.0) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
        ledger.tokens.revoke("nx_author")
        connection.sendall(b"{}")
        told = connection.recv(1 << 16)

    assert told.startswith(b"HTTP/1.1 401 "), told
    tenant = quick_door.house.services.tenant
    assert [one.name for one in ledger.branches.all(tenant)] == ["main"]

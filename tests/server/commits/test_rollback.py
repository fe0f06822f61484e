"""Rollbacks and approvals through the API; and readers never see a mix of two commits."""

import threading
from typing import Any

import attrs
import pytest

from narthex._ir.entities import Definitions, ExpressionExtractor, Feature, Featureset
from narthex._ir.expression_nodes import Literal
from narthex._ir.types import Int
from tests.server.conftest import House
from tests.server.driving import accept, catch_up, create_all, serve, shown, step
from tests.server.shop import shop_definitions

pytestmark = pytest.mark.postgres

READERS = 4
FLIPS = 6


def post(house: House, path: str, body: Any = None, **headers: str) -> Any:
    return house.client.post(f"/api/v1/{path}", json=body or {}, headers=headers)


def listed(house: House) -> list[str]:
    found = house.client.get("/api/v1/featuresets").json()["featuresets"]
    return [one["name"] for one in found]


def without_featuresets() -> Definitions:
    return attrs.evolve(shop_definitions(), featuresets=())


def committed(house: House, wanted: Definitions) -> str:
    commit_id = accept(house.client, wanted)
    create_all(house.client, commit_id)
    for name in ("ready", "commit"):
        step(house.client, commit_id, name)
    return commit_id


def test_readers_read_at_once_what_they_read_before(house: House) -> None:
    serve(house, shop_definitions())
    serve(house, without_featuresets())
    before = listed(house)

    answer = post(house, "rollback", **{"idempotency-key": "a-rollback-of-tests"})
    again = post(house, "rollback", **{"idempotency-key": "a-rollback-of-tests"})

    assert before == []
    assert answer.status_code == 200, answer.text
    assert (answer.json()["served"], answer.json()["seq"]) == (True, 3)
    assert again.json() == answer.json()
    assert listed(house) == ["Buyer"]
    found = shown(house.client, answer.json()["commit_id"])
    assert (found["kind"], found["state"], found["promotion"]) == ("rollback", "FINALIZED", "DONE")


def test_an_impossible_rollback_is_refused_with_its_reason(house: House) -> None:
    nothing = post(house, "rollback")
    serve(house, shop_definitions())
    only = post(house, "rollback")
    unknown = post(house, "rollback", {"to": 7})
    busy = accept(house.client, without_featuresets())
    create_all(house.client, busy)
    held = post(house, "rollback", {"to": 1})

    assert [nothing.status_code, only.status_code, unknown.status_code] == [404, 404, 404]
    assert held.status_code == 409
    assert held.json()["detail"] == {"commit_id": busy}


def test_a_run_that_fails_after_the_commit_point_is_reverted(house: House) -> None:
    serve(house, shop_definitions())
    commit_id = committed(house, without_featuresets())

    state = step(house.client, commit_id, "rollback")["state"]

    assert state == "FINALIZED"
    assert shown(house.client, commit_id)["promotion"] == "SUPERSEDED"
    assert listed(house) == ["Buyer"]
    branch = house.ledger.branches.get(house.services.tenant, "main")
    assert (branch.head_seq, branch.serving_seq) == (3, 3)
    assert step(house.client, commit_id, "rollback")["state"] == "FINALIZED"
    assert step(house.client, commit_id, "promote") == {"jobs": [], "datasets": []}


def test_a_reverted_first_commit_leaves_nothing_deployed(house: House) -> None:
    commit_id = committed(house, shop_definitions())

    assert step(house.client, commit_id, "rollback")["state"] == "FINALIZED"

    branch = house.ledger.branches.get(house.services.tenant, "main")
    assert (branch.head_commit_id, branch.serving_commit_id) == (None, None)
    serve(house, shop_definitions())
    assert listed(house) == ["Buyer"]


def test_a_protected_branch_waits_for_an_approval_and_records_the_approver(house: House) -> None:
    post(house, "branch/protect", {"protected": True})
    commit_id = committed(house, shop_definitions())
    step(house.client, commit_id, "backfilled")
    catch_up(house)

    waiting = house.client.post(f"/api/v1/commits/{commit_id}/steps/promote")
    needed = shown(house.client, commit_id)["approval"]
    given = post(house, f"commits/{commit_id}/approve", **{"x-narthex-actor": "grace"})
    step(house.client, commit_id, "promote")
    late = post(house, f"commits/{commit_id}/approve")

    assert waiting.status_code == 409
    assert "is not approved" in waiting.json()["err_msg"]
    assert needed == {
        "needed": True,
        "by": None,
        "at": None,
        "rejected": None,
        "warnings": [],
        "differences": [],
    }
    assert (given.json()["needed"], given.json()["by"]) == (False, "grace")
    assert given.json()["at"]
    assert shown(house.client, commit_id)["approval"]["by"] == "grace"
    assert late.status_code == 409


def test_a_rejected_commit_is_reverted_with_its_author_and_reason(house: House) -> None:
    serve(house, shop_definitions())
    post(house, "branch/protect", {"protected": True})
    commit_id = committed(house, without_featuresets())
    grace = {"x-narthex-actor": "grace"}

    done = post(house, f"commits/{commit_id}/reject", {"reason": " no "}, **grace)
    again = post(house, f"commits/{commit_id}/reject", {"reason": " no "}, **grace)
    other = post(house, f"commits/{commit_id}/reject", **{"x-narthex-actor": "heidi"})
    late = post(house, f"commits/{commit_id}/approve")
    house.services.recovery.look()

    assert [one.status_code for one in (done, again, other, late)] == [200, 200, 409, 409]
    rejected = done.json()["rejected"]
    assert (rejected["by"], rejected["reason"], done.json()["needed"]) == ("grace", "no", False)
    assert again.json() == done.json()
    assert "it is SUPERSEDED" in other.json()["err_msg"]
    ended = shown(house.client, commit_id)
    assert (ended["state"], ended["promotion"]) == ("FINALIZED", "SUPERSEDED")
    assert ended["approval"]["rejected"] == rejected
    assert listed(house) == ["Buyer"]
    newest = house.client.get("/api/v1/commits").json()["commits"][0]
    assert (newest["actor"], newest["message"]) == ("grace", f"reject {commit_id}: no")


def test_a_commit_that_needs_no_approval_cannot_be_rejected(house: House) -> None:
    serve(house, shop_definitions())
    commit_id = committed(house, without_featuresets())

    unprotected = post(house, f"commits/{commit_id}/reject")
    queued = post(house, f"commits/{accept(house.client, shop_definitions())}/reject")
    mistaken = post(house, f"commits/{commit_id}/reject", {"reason": "two\nlines"})

    assert [one.status_code for one in (unprotected, queued, mistaken)] == [409, 404, 400]
    assert "does not wait for an approval" in unprotected.json()["err_msg"]
    assert shown(house.client, commit_id)["promotion"] == "PENDING"


def test_a_protected_branch_needs_an_approver_to_roll_back_and_cannot_be_deleted(
    house: House,
) -> None:
    serve(house, shop_definitions())
    serve(house, without_featuresets())
    dev = {"x-narthex-branch": "dev"}
    post(house, "init", {"clone_from": "main"}, **dev)
    for headers in ({}, dev):
        post(house, "branch/protect", {"protected": True}, **headers)
    house.ledger.tokens.put("nx_tests_author", name="ada", scopes=("author",))

    refused = post(house, "rollback", authorization="Bearer nx_tests_author")
    deleted = post(house, "delete", **dev)

    assert refused.status_code == 403
    assert listed(house) == []
    assert deleted.status_code == 409
    assert "is protected" in deleted.json()["err_msg"]


def of_version(number: int) -> Definitions:
    """Two features that always return the same number; each version returns another one."""
    one = next(one for one in shop_definitions().featuresets if one.name == "Buyer")
    kept = next(feature for feature in one.features if feature.name == "user")
    made = tuple(Feature(name=name, type=Int()) for name in ("first", "second"))
    numbers = Featureset(
        name="Numbers",
        features=(kept, *made),
        extractors=tuple(
            ExpressionExtractor(
                feature=feature.name, version=number, expression=Literal(value=number, type=Int())
            )
            for feature in made
        ),
        metadata=one.metadata,
    )
    return Definitions(datasets=(), featuresets=(numbers,))


@pytest.mark.slow
def test_no_answer_mixes_two_commits_while_readers_flip(house: House) -> None:
    serve(house, of_version(1))
    stop = threading.Event()
    seen: list[tuple[int, int, int]] = []
    failed: list[str] = []

    def read() -> None:
        while not stop.is_set():
            answer = house.client.post(
                "/api/v1/query",
                json={
                    "inputs": ["Numbers.user"],
                    "outputs": ["Numbers.first", "Numbers.second"],
                    "data": {"Numbers.user": ["ann"]},
                },
            )
            if answer.status_code != 200:
                failed.append(answer.text)
                return
            body = answer.json()
            seq = int(answer.headers["x-narthex-read"].split('"serving_seq":')[1].split(",")[0])
            seen.append((seq, body["Numbers.first"][0], body["Numbers.second"][0]))

    readers = [threading.Thread(target=read) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    for number in range(2, FLIPS + 2):
        serve(house, of_version(number))
        answered = len(seen)
        while len(seen) < answered + READERS and not failed:
            stop.wait(0.01)
    stop.set()
    for reader in readers:
        reader.join()

    assert failed == []
    assert [one for one in seen if len(set(one)) > 1] == []
    assert {seq for seq, _, _ in seen} >= {1, FLIPS + 1}

"""Airflow's processes approve nothing: the server queries Airflow for approvals."""

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID

import attrs
import pytest
from typing_extensions import override

from narthex._ir.assets import AssetKind
from narthex_stores import Adapter
from tests.server.commits.test_rollback import committed, listed, post, without_featuresets
from tests.server.conftest import DAGS_TOKEN, NOBODY, House, house_at, settings_at
from tests.server.driving import accept, catch_up, create_all, serve, shown, step
from tests.server.shop import payload, shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

AS_AIRFLOW = {"authorization": f"Bearer {DAGS_TOKEN}"}
RUN = "manual__2026-11-22T03:00:00"
YES = {
    "response_received": True,
    "chosen_options": ["Approve"],
    "responded_by_user": {"id": "7", "name": "grace"},
    "responded_at": "2026-11-22T03:00:00Z",
}


class AirflowServer(ThreadingHTTPServer):
    """Answers as Airflow's API does; runs nothing."""

    answers: dict[str, object]


class Handler(BaseHTTPRequestHandler):
    server: AirflowServer

    @override
    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def do_POST(self) -> None:
        self.say(201, {"access_token": "of-tests"})

    def do_GET(self) -> None:
        found = self.server.answers.get(self.path.removeprefix("/api/v2/"))
        self.say(404 if found is None else 200, found)

    def say(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def airflow() -> Iterator[AirflowServer]:
    server = AirflowServer(("127.0.0.1", 0), Handler)
    server.answers = {}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def house(
    tmp_path: Path, ledger_dsn: str, adapters: dict[AssetKind, Adapter], airflow: AirflowServer
) -> Iterator[House]:
    settings = attrs.evolve(
        settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY),
        airflow_url=f"http://127.0.0.1:{airflow.server_address[1]}",
    )
    with house_at(settings, adapters=adapters) as made:
        yield made


def waiting(house: House) -> str:
    """Return a commit of a protected branch that only waits for a person."""
    post(house, "branch/protect", {"protected": True})
    commit_id = committed(house, shop_definitions())
    step(house.client, commit_id, "backfilled")
    catch_up(house)
    return commit_id


def task(commit_id: str) -> str:
    return f"dags/commit/dagRuns/{commit_id}/taskInstances/approve"


def asks(commit_id: str) -> str:
    return f"{task(commit_id)}/-1/hitlDetails"


def test_an_approval_in_airflow_is_recorded_with_its_approver(
    house: House, airflow: AirflowServer
) -> None:
    commit_id = waiting(house)
    airflow.answers[asks(commit_id)] = YES

    passed = post(house, f"commits/{commit_id}/steps/approved", **AS_AIRFLOW)
    again = post(house, f"commits/{commit_id}/steps/approved", **AS_AIRFLOW)
    step(house.client, commit_id, "promote")

    assert [passed.status_code, again.status_code] == [200, 200]
    approval = shown(house.client, commit_id)["approval"]
    assert (approval["needed"], approval["by"], bool(approval["at"])) == (False, "grace", True)


NO = YES | {"chosen_options": ["Reject"], "responded_by_user": {"id": "8", "name": "ada"}}
OPEN = YES | {"response_received": False, "chosen_options": None}


@pytest.mark.parametrize(
    ("stands", "earlier", "status"),
    [
        (None, [YES], 200),
        (OPEN, [YES], 200),
        (None, [NO, YES, None], 200),
        (None, [YES, NO], 410),
        (OPEN, [NO], 410),
        (NO, [YES], 410),
        (OPEN, [None, OPEN], 409),
    ],
)
def test_the_last_answer_counts_where_a_run_has_asked_more_than_once(
    house: House, airflow: AirflowServer, stands: Any, earlier: Sequence[Any], status: int
) -> None:
    commit_id = waiting(house)
    airflow.answers[asks(commit_id)] = stands
    airflow.answers[task(commit_id)] = {"try_number": len(earlier) + 1}
    for number, said in enumerate(earlier, start=1):
        airflow.answers[f"{asks(commit_id)}/tries/{number}"] = said

    passed = post(house, f"commits/{commit_id}/steps/approved", **AS_AIRFLOW)

    assert passed.status_code == status, passed.text
    assert shown(house.client, commit_id)["approval"]["by"] == ("grace" if status == 200 else None)
    if status == 410:
        assert f"ada has rejected commit {commit_id}" in passed.json()["err_msg"]


@pytest.mark.parametrize(
    "said",
    [
        None,
        YES | {"response_received": False},
        NO | {"responded_by_user": None},
        YES | {"chosen_options": []},
        YES | {"responded_by_user": None},
        YES | {"responded_by_user": {"id": "7", "name": ""}},
        YES | {"responded_at": None},
    ],
)
def test_a_task_cannot_claim_an_approval(house: House, airflow: AirflowServer, said: Any) -> None:
    commit_id = waiting(house)
    airflow.answers[asks(commit_id)] = said
    airflow.answers[asks("00000000-0000-8000-8000-000000000000")] = YES

    passed = post(
        house,
        f"commits/{commit_id}/steps/approved",
        {"by": "grace"},
        **AS_AIRFLOW | {"x-narthex-actor": "grace"},
    )
    itself = post(house, f"commits/{commit_id}/approve", {"by": "grace"}, **AS_AIRFLOW)
    promoted = post(house, f"commits/{commit_id}/steps/promote", **AS_AIRFLOW)

    assert [passed.status_code, itself.status_code, promoted.status_code] == [409, 403, 409]
    assert shown(house.client, commit_id)["approval"]["needed"]


def test_a_silent_airflow_approves_nothing(house: House, airflow: AirflowServer) -> None:
    commit_id = waiting(house)
    airflow.answers[asks(commit_id)] = YES
    airflow.shutdown()
    airflow.server_close()

    passed = post(house, f"commits/{commit_id}/steps/approved", **AS_AIRFLOW)

    assert passed.status_code == 409
    assert "Airflow did not return what a person decided" in passed.json()["err_msg"]
    assert shown(house.client, commit_id)["approval"]["needed"]


def test_an_approval_in_airflow_comes_too_late_for_a_rejected_commit(
    house: House, airflow: AirflowServer
) -> None:
    commit_id = waiting(house)
    airflow.answers[asks(commit_id)] = YES

    rejected = post(house, f"commits/{commit_id}/reject", **{"x-narthex-actor": "ada"})
    passed = post(house, f"commits/{commit_id}/steps/approved", **AS_AIRFLOW)
    promoted = post(house, f"commits/{commit_id}/steps/promote", **AS_AIRFLOW)

    assert [one.status_code for one in (rejected, passed, promoted)] == [200, 200, 200]
    ended = shown(house.client, commit_id)
    assert (ended["promotion"], ended["approval"]["by"]) == ("SUPERSEDED", None)
    assert ended["approval"]["rejected"]["by"] == "ada"
    branch = house.ledger.branches.get(house.services.tenant, "main")
    assert branch.serving_commit_id is None


def test_a_rejection_comes_too_late_for_a_commit_that_airflow_has_approved(
    house: House, airflow: AirflowServer
) -> None:
    commit_id = waiting(house)
    airflow.answers[asks(commit_id)] = YES
    post(house, f"commits/{commit_id}/steps/approved", **AS_AIRFLOW)

    rejected = post(house, f"commits/{commit_id}/reject")
    step(house.client, commit_id, "promote")

    assert rejected.status_code == 409
    assert "grace has approved commit" in rejected.json()["err_msg"]
    assert shown(house.client, commit_id)["promotion"] == "DONE"


def test_the_token_of_airflow_rejects_nothing(house: House, airflow: AirflowServer) -> None:
    commit_id = waiting(house)
    airflow.answers[asks(commit_id)] = NO

    answer = post(house, f"commits/{commit_id}/reject", **AS_AIRFLOW | {"x-narthex-actor": "ada"})

    assert answer.status_code == 403
    assert shown(house.client, commit_id)["approval"]["needed"]


def test_a_rejection_in_airflow_is_recorded_with_its_author(
    house: House, airflow: AirflowServer
) -> None:
    commit_id = waiting(house)
    airflow.answers[asks(commit_id)] = NO

    undone = [post(house, f"commits/{commit_id}/steps/rollback", **AS_AIRFLOW) for _ in range(2)]

    assert [one.status_code for one in undone] == [200, 200], undone[0].text
    ended = shown(house.client, commit_id)
    assert (ended["promotion"], ended["approval"]["rejected"]["by"]) == ("SUPERSEDED", "ada")
    (event,) = [one for one in ended["events"] if one["transition"] == "rejected"]
    assert event["actor"] == "ada"


@pytest.mark.parametrize("answer", [None, OPEN, YES, NO | {"responded_by_user": None}])
def test_a_run_that_fails_without_a_rejection_undoes_its_commit_without_an_author(
    house: House, airflow: AirflowServer, answer: Any
) -> None:
    commit_id = waiting(house)
    airflow.answers[asks(commit_id)] = answer

    undone = post(house, f"commits/{commit_id}/steps/rollback", **AS_AIRFLOW)

    assert undone.status_code == 200, undone.text
    ended = shown(house.client, commit_id)
    assert (ended["promotion"], ended["approval"]["rejected"]) == ("SUPERSEDED", None)


def test_a_commit_is_undone_although_airflow_does_not_answer_why(
    house: House, airflow: AirflowServer
) -> None:
    commit_id = waiting(house)
    airflow.answers[asks(commit_id)] = NO
    airflow.shutdown()
    airflow.server_close()

    undone = post(house, f"commits/{commit_id}/steps/rollback", **AS_AIRFLOW)

    assert undone.status_code == 200, undone.text
    ended = shown(house.client, commit_id)
    assert (ended["promotion"], ended["approval"]["rejected"]) == ("SUPERSEDED", None)


def test_a_rejection_in_airflow_comes_too_late_for_an_approved_commit(
    house: House, airflow: AirflowServer
) -> None:
    commit_id = waiting(house)
    post(house, f"commits/{commit_id}/approve")
    airflow.answers[asks(commit_id)] = NO

    undone = post(house, f"commits/{commit_id}/steps/rollback", **AS_AIRFLOW)

    assert undone.status_code == 200, undone.text
    ended = shown(house.client, commit_id)
    assert (ended["approval"]["by"], ended["approval"]["rejected"]) == ("platform", None)


def test_a_commit_without_approval_has_no_approver(house: House, airflow: AirflowServer) -> None:
    post(house, "branch/protect", {"protected": True})
    commit_id = accept(house.client, shop_definitions())
    create_all(house.client, commit_id)
    airflow.answers[asks(commit_id)] = YES

    passed = post(house, f"commits/{commit_id}/steps/approved", **AS_AIRFLOW)

    assert passed.status_code == 200
    assert shown(house.client, commit_id)["approval"]["by"] is None


@pytest.mark.parametrize(
    ("run", "let_in"),
    [
        ({"triggering_user_name": "grace", "conf": {"branch": "main", "to": None}}, True),
        ({"triggering_user_name": "grace", "conf": {}}, True),
        ({"triggering_user_name": "grace", "conf": {"branch": "dev"}}, False),
        ({"triggering_user_name": "grace", "conf": {"to": 1}}, False),
        ({"triggering_user_name": "ada", "conf": {}}, False),
        ({"triggering_user_name": None, "conf": {}}, False),
        (None, False),
    ],
)
def test_airflow_rolls_a_protected_branch_back_for_an_approver(
    house: House, airflow: AirflowServer, run: Any, let_in: bool
) -> None:
    serve(house, shop_definitions())
    serve(house, without_featuresets())
    post(house, "branch/protect", {"protected": True})
    airflow.answers[f"dags/rollback/dagRuns/{RUN.replace(':', '%3A')}"] = run
    headers = AS_AIRFLOW | {"x-narthex-actor": "grace", "idempotency-key": f"airflow {RUN}"}

    answer = post(house, "rollback", **headers)

    assert answer.status_code == (200 if let_in else 403), answer.text
    assert listed(house) == (["Buyer"] if let_in else [])
    made = house.client.get("/api/v1/commits", params={"key": f"airflow {RUN}"}).json()["commits"]
    assert [(one["kind"], one["branch"]) for one in made] == [("rollback", "main")] * let_in
    assert [urlsplit(one["airflow_run_url"]).path for one in made] == [
        f"/dags/rollback/runs/{quote(RUN, safe='')}"
    ] * let_in


def test_only_commits_that_a_run_has_to_do_with_link_to_one(house: House) -> None:
    first = serve(house, shop_definitions())
    serve(house, without_featuresets())
    post(house, "rollback")
    post(house, "init", {}, **{"x-narthex-branch": "candidate"})

    made = [
        *house.client.get("/api/v1/commits").json()["commits"],
        *house.client.get("/api/v1/commits", headers={"x-narthex-branch": "candidate"}).json()[
            "commits"
        ],
    ]
    urls = {one["commit_id"]: one["airflow_run_url"] for one in made}

    assert urlsplit(urls[first]).path == f"/dags/commit/runs/{first}"
    assert {(one["kind"], one["airflow_run_url"] is None) for one in made} == {
        ("deploy", False),
        ("rollback", True),
        ("init_branch", True),
    }


def test_a_run_commits_for_the_person_who_triggered_it_once(
    house: House, airflow: AirflowServer
) -> None:
    airflow.answers[asked_at("commit")] = {"triggering_user_name": "grace", "conf": {}}
    content = payload(shop_definitions())

    first = commit_for_run(house, content)
    again = commit_for_run(house, content)
    other = commit_for_run(house, payload(without_featuresets()))
    found = house.client.get(f"/api/v1/runs/{quote(RUN, safe='')}/commit")

    assert (first.status_code, again.status_code, other.status_code) == (202, 202, 409)
    assert first.json()["commit_id"] == again.json()["commit_id"] == found.json()["commit_id"]
    assert found.json()["actor"] == "grace"
    assert found.json()["airflow_run_url"].endswith(f"/dags/commit/runs/{quote(RUN, safe='')}")
    assert first.json()["airflow_run_url"] == found.json()["airflow_run_url"]


@pytest.mark.parametrize(
    "run",
    [
        None,
        {"triggering_user_name": "ada", "conf": {}},
        {"triggering_user_name": None, "conf": {}},
        {"triggering_user_name": "grace", "conf": {"branch": "dev"}},
        {"triggering_user_name": "grace", "conf": {"preview": True}},
        {"triggering_user_name": "grace", "conf": {"commit_id": str(UUID(int=7))}},
    ],
)
def test_the_token_of_airflow_alone_commits_nothing(
    house: House, airflow: AirflowServer, run: Any
) -> None:
    airflow.answers[asked_at("commit")] = run

    refused = commit_for_run(house, payload(shop_definitions()))
    itself = house.client.post(
        "/api/v1/commit", content=payload(shop_definitions()), headers=AS_AIRFLOW | FOR_GRACE
    )

    assert (refused.status_code, itself.status_code) == (409, 403)
    assert "trigger the DAG with its form" in refused.json()["err_msg"]
    assert house.client.get("/api/v1/commits").json()["commits"] == []


def test_a_run_for_a_preview_gets_a_plan_and_commits_nothing(
    house: House, airflow: AirflowServer
) -> None:
    run = {"triggering_user_name": "grace", "conf": {"preview": True}}
    airflow.answers[asked_at("commit")] = run

    plan = commit_for_run(house, payload(shop_definitions()), preview="true")

    assert plan.status_code == 200
    assert any("Orders" in line for line in plan.json()["summary"])
    assert house.client.get(f"/api/v1/runs/{quote(RUN, safe='')}/commit").status_code == 404


def test_a_client_cannot_claim_to_be_a_run(house: House, airflow: AirflowServer) -> None:
    airflow.answers[asked_at("commit")] = {"triggering_user_name": "grace", "conf": {}}
    key = {"idempotency-key": f"airflow commit {RUN}"}

    claimed = [
        house.client.post("/api/v1/commit", content=payload(shop_definitions()), headers=headers)
        for headers in (key, key | AS_AIRFLOW)
    ]

    assert [answer.status_code for answer in claimed] == [400, 403]
    assert "send another" in claimed[0].json()["err_msg"]


def test_an_approval_in_the_run_that_made_a_commit_counts(
    house: House, airflow: AirflowServer
) -> None:
    post(house, "branch/protect", {"protected": True})
    airflow.answers[asked_at("commit")] = {"triggering_user_name": "grace", "conf": {}}
    commit_id = commit_for_run(house, payload(shop_definitions())).json()["commit_id"]
    create_all(house.client, commit_id)
    for name in ("ready", "commit", "backfilled"):
        step(house.client, commit_id, name)
    catch_up(house)
    airflow.answers[asks(commit_id)] = YES

    of_another = post(house, f"commits/{commit_id}/steps/approved", **AS_AIRFLOW)
    airflow.answers[asks(quote(RUN, safe=""))] = YES
    of_its_run = post(house, f"commits/{commit_id}/steps/approved", **AS_AIRFLOW)

    assert (of_another.status_code, of_its_run.status_code) == (409, 200)
    assert shown(house.client, commit_id)["approval"]["by"] == "grace"


FOR_GRACE = {"x-narthex-actor": "grace"}


def asked_at(dag: str) -> str:
    return f"dags/{dag}/dagRuns/{quote(RUN, safe='')}"


def commit_for_run(house: House, content: bytes, **terms: str) -> Any:
    return house.client.post(
        f"/api/v1/runs/{quote(RUN, safe='')}/commit",
        content=content,
        params=terms,
        headers=AS_AIRFLOW | FOR_GRACE,
    )

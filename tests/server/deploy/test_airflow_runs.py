"""Commits are offered to Airflow until it has them, and ended by the platform when it is dead."""

import datetime as dt
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import attrs
import pytest
from typing_extensions import override

from narthex._ir.assets import AssetKind
from narthex_ledger import (
    BackfillPolicy,
    BranchId,
    CommitState,
    CommitView,
    Fence,
    PromotionPolicy,
    TenantId,
)
from narthex_server.deploy.airflow_client import Airflow
from narthex_server.deploy.airflow_runs import SILENT_S, UNREACHED_S, AirflowRuns
from narthex_stores import Adapter
from tests.server.conftest import NOBODY, House, house_at, settings_at
from tests.server.driving import accept, catch_up, create_all, shown, step
from tests.server.shop import shop_definitions

pytestmark = pytest.mark.slow

COMMIT = UUID(int=7)
MADE_BY = "manual__2026-11-22T03:00:00+00:00"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOW = dt.datetime(2026, 11, 22, 3, tzinfo=dt.UTC)


def accepted(key: str = "a key of a client") -> CommitView:
    """Return a commit that was accepted with an idempotency key."""
    return CommitView(
        commit_id=COMMIT,
        tenant_id=TenantId(1),
        branch_id=BranchId(1),
        kind="deploy",
        idempotency_key=key,
        state=CommitState.QUEUED,
        actor="ada",
        message="",
        base_seq=0,
        parent_commit_id=None,
        manifest_id=None,
        bundle_sha256=b"",
        signature=None,
        plan=None,
        plan_sha256=None,
        expected_plan_sha256=None,
        backfill=BackfillPolicy.ALLOWED,
        promotion_policy=PromotionPolicy.WHEN_READY,
        promotion=None,
        request=None,
        fence=Fence(0),
        owner=None,
        lease_expires_at=None,
        deadline=NOW,
        past_deadline=False,
        cancel_requested_at=None,
        seq=None,
        error=None,
        accepted_at=NOW,
        committed_at=None,
        finished_at=None,
    )


@attrs.define
class ReceivedCalls:
    """The calls that a fake Airflow received, and its answers."""

    is_dead: bool = False
    is_a_page: bool = False
    scheduler: str = "healthy"
    states: dict[str, str] = attrs.field(factory=dict)
    approved: list[str] = attrs.field(factory=list)
    rejected: list[str] = attrs.field(factory=list)
    confs: list[dict[str, str]] = attrs.field(factory=list)


class Listener(ThreadingHTTPServer):
    """Speaks as Airflow's API does, and runs nothing."""

    told: ReceivedCalls


class Handler(BaseHTTPRequestHandler):
    server: Listener

    @override
    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def read(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["content-length"])))

    def say(self, status: int, body: object) -> None:
        content = (
            b"<html>sign in</html>" if self.server.told.is_a_page else json.dumps(body).encode()
        )
        self.send_response(503 if self.server.told.is_dead else status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        body, told = self.read(), self.server.told
        if (run := body.get("dag_run_id")) in told.states:
            return self.say(409, {})
        if run and not told.is_dead:
            told.states[run] = "running"
            told.confs.append(body["conf"])
        return self.say(201, {"access_token": "a-token"})

    def do_GET(self) -> None:
        told = self.server.told
        if self.path.endswith("/monitor/health"):
            return self.say(200, {"scheduler": {"status": told.scheduler}})
        state = told.states.get(unquote(self.path.rpartition("/")[2]))
        return self.say(200 if state else 404, {"state": state})

    def do_PATCH(self) -> None:
        told = self.server.told
        answered = {"Approve": told.approved, "Reject": told.rejected}
        [option] = self.read()["chosen_options"]
        answered[option].append(self.path.split("/")[6])
        self.say(200, {})


@pytest.fixture
def told() -> ReceivedCalls:
    return ReceivedCalls()


@pytest.fixture
def url(told: ReceivedCalls) -> Iterator[str]:
    """The address of somebody who speaks as Airflow does."""
    with Listener(("127.0.0.1", 0), Handler) as server:
        server.told = told
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@attrs.define
class Clock:
    """A clock that advances when a test calls it."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def runs(url: str, clock: Clock, tmp_path: Path) -> AirflowRuns:
    settings = attrs.evolve(settings_at(tmp_path, dsn="", kafka=NOBODY), airflow_url=url)
    return AirflowRuns(Airflow(settings), clock=clock)


def test_a_commit_is_offered_until_airflow_has_it(
    runs: AirflowRuns, told: ReceivedCalls, clock: Clock
) -> None:
    told.is_dead = True
    runs.offer(accepted())
    runs.look()
    waited_for = runs.is_at(accepted())
    clock.now += UNREACHED_S
    given_up = runs.is_at(accepted())

    told.is_dead = False
    runs.look()

    assert (waited_for, given_up) == (True, False)
    assert told.states == {str(COMMIT): "running"}
    assert runs.is_at(accepted())


@pytest.mark.parametrize("has_token", [False, True])
def test_runs_are_offered_again_after_a_proxy_answered_with_a_page(
    runs: AirflowRuns, told: ReceivedCalls, has_token: bool
) -> None:
    if has_token:
        runs.offer(accepted())
        runs.look()
        told.states.clear()
    told.is_a_page = True
    runs.offer(attrs.evolve(accepted(), commit_id=UUID(int=8)))
    runs.look()

    told.is_a_page = False
    runs.start()
    try:
        for _ in range(200):
            if str(UUID(int=8)) in told.states:
                break
            time.sleep(0.05)
    finally:
        runs.ask_to_stop()

    assert told.states[str(UUID(int=8))] == "running"


@pytest.mark.parametrize(
    ("kind", "request_", "more"),
    [
        ("deploy", {"traceparent": TRACEPARENT}, {"traceparent": TRACEPARENT}),
        ("erase", {"traceparent": TRACEPARENT}, {}),
        ("deploy", None, {}),
    ],
    ids=["traced", "takes an earlier request over", "not traced"],
)
def test_a_run_has_the_trace_of_the_call_that_made_its_commit(
    runs: AirflowRuns, told: ReceivedCalls, kind: str, request_: Any, more: dict[str, str]
) -> None:
    runs.offer(attrs.evolve(accepted(), kind=kind, request=request_))
    runs.look()

    assert told.confs == [{"commit_id": str(COMMIT)} | more]


@pytest.mark.parametrize(("scheduler", "is_at"), [("healthy", True), ("unhealthy", False)])
def test_a_waiting_run_belongs_to_airflow_while_its_scheduler_runs(
    runs: AirflowRuns, told: ReceivedCalls, clock: Clock, scheduler: str, is_at: bool
) -> None:
    runs.offer(accepted())
    runs.look()
    told.scheduler = scheduler

    clock.now += SILENT_S
    runs.look()

    assert runs.is_at(accepted()) is is_at


def test_a_run_that_failed_in_silence_is_not_airflows(
    runs: AirflowRuns, told: ReceivedCalls, clock: Clock
) -> None:
    runs.offer(accepted())
    runs.look()
    told.states[str(COMMIT)] = "failed"

    clock.now += SILENT_S - 1
    runs.step_taken(COMMIT)
    runs.look()
    after_a_step = runs.is_at(accepted())
    clock.now += SILENT_S
    runs.look()

    assert (after_a_step, runs.is_at(accepted())) == (True, False)


def test_a_run_that_made_its_commit_is_not_started_a_second_time(
    runs: AirflowRuns, told: ReceivedCalls, clock: Clock
) -> None:
    told.states[MADE_BY] = "running"
    made = accepted(f"airflow commit {MADE_BY}")

    runs.offer(made)
    runs.look()
    clock.now += SILENT_S
    runs.look()
    alive = runs.is_at(made)
    told.states[MADE_BY] = "failed"
    clock.now += SILENT_S
    runs.look()

    assert told.states == {MADE_BY: "failed"}
    assert (alive, runs.is_at(made)) == (True, False)


@pytest.fixture
def watched(
    url: str, tmp_path: Path, ledger_dsn: str, adapters: dict[AssetKind, Adapter]
) -> Iterator[House]:
    """A server that somebody who speaks as Airflow listens to."""
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY)
    with house_at(attrs.evolve(settings, airflow_url=url), adapters=adapters) as made:
        yield made


def look(house: House) -> None:
    house.services.recovery.look()
    house.services.recovery.runs.look()


def waits_for_a_person(house: House) -> str:
    """Bring a commit to the point where only an approval is missing, as Airflow's tasks do."""
    house.client.post("/api/v1/branch/protect", json={"protected": True})
    commit_id = accept(house.client, shop_definitions())
    look(house)
    create_all(house.client, commit_id)
    for name in ("ready", "commit", "backfilled"):
        step(house.client, commit_id, name)
    catch_up(house)
    return commit_id


@pytest.mark.postgres
def test_an_approval_by_the_server_flips_readers_and_answers_airflow(
    watched: House, told: ReceivedCalls
) -> None:
    commit_id = waits_for_a_person(watched)

    given = watched.client.post(f"/api/v1/commits/{commit_id}/approve", json={})
    look(watched)

    assert given.json()["by"] == "platform"
    assert shown(watched.client, commit_id)["promotion"] == "DONE"
    assert told.approved == [commit_id]


@pytest.mark.postgres
def test_a_run_is_forgotten_when_it_has_ended_after_its_commit(
    watched: House, told: ReceivedCalls
) -> None:
    commit_id = waits_for_a_person(watched)
    watched.client.post(f"/api/v1/commits/{commit_id}/approve", json={})
    look(watched)

    told.states[commit_id] = "success"
    look(watched)
    told.approved.clear()
    look(watched)

    assert told.approved == []


@pytest.mark.postgres
def test_a_rejection_by_the_server_reverts_the_commit_and_answers_airflow(
    watched: House, told: ReceivedCalls
) -> None:
    commit_id = waits_for_a_person(watched)

    given = watched.client.post(f"/api/v1/commits/{commit_id}/reject", json={"reason": "late"})
    look(watched)
    answered = [*told.rejected]
    told.states[commit_id] = "failed"
    look(watched)
    told.rejected.clear()
    look(watched)

    assert given.json()["rejected"]["by"] == "platform"
    assert answered == [commit_id]
    ended = shown(watched.client, commit_id)
    assert (ended["state"], ended["promotion"]) == ("FINALIZED", "SUPERSEDED")
    assert (told.approved, told.rejected) == ([], [])


@pytest.mark.postgres
def test_an_airflow_that_is_dead_at_a_rejection_is_answered_later(
    watched: House, told: ReceivedCalls
) -> None:
    commit_id = waits_for_a_person(watched)
    told.is_dead = True

    watched.client.post(f"/api/v1/commits/{commit_id}/reject", json={})
    look(watched)
    look(watched)
    before = [*told.rejected]
    told.is_dead = False
    look(watched)

    assert (before, told.rejected) == ([], [commit_id])


@pytest.mark.postgres
def test_a_dead_airflow_is_offered_again_what_a_person_must_approve(
    watched: House, told: ReceivedCalls
) -> None:
    told.is_dead = True
    commit_id = waits_for_a_person(watched)
    not_taken = dict(told.states)

    told.is_dead = False
    look(watched)

    assert not_taken == {}
    assert told.states == {commit_id: "running"}
    assert shown(watched.client, commit_id)["promotion"] == "PENDING"

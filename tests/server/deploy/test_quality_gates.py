"""Readers do not flip to a commit whose history breaks a critical expectation."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest

from narthex._base import from_plain
from narthex._ir.assets import AssetKind, DatasetPlan, HistorySpec
from narthex._ir.entities import Severity
from narthex._ir.facts import Fact, RowId, Version
from narthex_ledger import CommitState, PromotionState
from narthex_server.deploy import quality_gates
from narthex_server.deploy.quality_gates import Gate, gates_between
from narthex_server.deploy.recovery import EXAMPLES_KEPT
from narthex_stores import HistoryAdapter, HistoryTable, LogRow, history_path
from tests.server.calling import TestClient
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.driving import accept, catch_up, deploy, report_caught_up, shown
from tests.server.promising_shop import promising
from tests.server.shop import payload

pytestmark = pytest.mark.postgres

HOUR_US = 3_600_000_000
GOOD = (("ann", 1.0), ("bob", 2.0))
BAD = (*GOOD, ("ann", -1.0), ("zoe", -2.0))
WITHIN_S = 180.0
LOOK_S = 0.2


@pytest.fixture
def house(tmp_path: Path, ledger_dsn: str) -> Iterator[House]:
    """A server whose histories are real, and whose other stores are in memory."""
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY)
    adapters = in_memory() | {AssetKind.HISTORY: HistoryAdapter(history_dir=settings.history_dir)}
    with house_at(settings, adapters=adapters) as made:
        yield made


def history_of(house: House, commit_id: str, dataset: str) -> HistoryTable:
    manifest_id = house.ledger.commits.get(UUID(commit_id)).manifest_id
    assert manifest_id is not None
    manifest = house.ledger.manifests.get(manifest_id)
    (plan,) = [plan for plan in manifest.plans if plan.name == dataset]
    name = manifest.bindings[f"dataset/{dataset}/history"].physical_name
    path = history_path(house.services.settings.history_dir, name)
    return HistoryTable(path, HistorySpec(log=plan.log))


def fill(house: House, commit_id: str, rows: tuple[tuple[str, float], ...]) -> None:
    """Append orders to the history of a commit, as its writer does."""
    history_of(house, commit_id, "Orders").append_rows(
        [
            LogRow(
                0,
                number,
                Fact(
                    row_id=RowId(b"%d" % number),
                    version=Version(b"0"),
                    event_time=(number + 1) * HOUR_US,
                    key=(),
                    values=cells,
                ),
            )
            for number, cells in enumerate(rows)
        ]
    )


def deployed(house: House, rows: tuple[tuple[str, float], ...], **expected: object) -> str:
    """Drive a commit until its jobs have caught up with these rows."""
    commit_id = deploy(house.client, promising(**expected))
    fill(house, commit_id, rows)
    catch_up(house)
    return commit_id


def look_after(house: House, commit_id: str) -> dict[str, Any]:
    """Let the recovery loop take its turns until it has ended the commit; no Airflow takes part."""
    ends_at = time.monotonic() + WITHIN_S
    while (found := shown(house.client, commit_id))["finished_at"] is None:
        assert time.monotonic() < ends_at, found
        report_caught_up(house)
        house.services.recovery.look_after(UUID(commit_id))
        time.sleep(LOOK_S)
    return found


def take(house: House, commit_id: str, name: str) -> Any:
    """Take a step while the supervisor goes on reporting: a check outlasts the leases of slots."""
    ends_at = time.monotonic() + WITHIN_S
    while True:
        answer = house.client.post(f"/api/v1/commits/{commit_id}/steps/{name}")
        if answer.status_code != 409 or time.monotonic() > ends_at:
            assert answer.status_code == 200, f"{name}: {answer.text}"
            return answer.json()
        report_caught_up(house)
        time.sleep(LOOK_S)


def served(house: House, **expected: object) -> str:
    """Drive a commit until its readers have flipped."""
    commit_id = deploy(house.client, promising(**expected))
    take(house, commit_id, "promote")
    return commit_id


def test_a_broken_critical_expectation_stops_readers_and_names_rows(house: House) -> None:
    commit_id = deployed(house, BAD)

    assert take(house, commit_id, "quality") == {"datasets": ["Orders"]}
    checked = take(house, commit_id, "quality/Orders")["checked"]
    refused = house.client.post(f"/api/v1/commits/{commit_id}/steps/promote")

    assert (checked["rows"], checked["success"], checked["is_critical"]) == (4, False, True)
    assert checked["offsets"] == {"0": 4}
    critical, warning = sorted(checked["broken"], key=lambda one: one["severity"])
    assert (critical["kind"], critical["columns"], critical["rows"], critical["of_rows"]) == (
        "expect_column_values_to_be_between",
        ["amount"],
        2,
        4,
    )
    assert critical["examples"] == [
        {"at": "1970-01-01T03:00:00+00:00"},
        {"at": "1970-01-01T04:00:00+00:00"},
    ]
    assert critical["text"].startswith(
        "critical: Orders.amount: expect_column_values_to_be_between"
    )
    assert "2 of 4 rows break it, such as at=1970-01-01T03:00:00+00:00" in critical["text"]
    assert (warning["severity"], warning["rows"]) == ("warning", 1)
    assert refused.status_code == 410
    assert "critical expectations of `Orders` are broken" in refused.json()["err_msg"]
    assert house.ledger.commits.get(UUID(commit_id)).promotion is PromotionState.PENDING


@pytest.mark.slow
def test_without_airflow_the_recovery_loop_rolls_a_broken_commit_back(house: House) -> None:
    first = served(house, least=-10.0)
    fill(house, first, GOOD)
    commit_id = deploy(house.client, promising())
    # Readers read the same history already: only the expectations are new.
    fill_more(house, commit_id, (("ann", -1.0),))
    catch_up(house)

    found = look_after(house, commit_id)

    assert (found["state"], found["promotion"]) == ("FINALIZED", "SUPERSEDED")
    assert [one["is_critical"] for one in found["quality"]] == [True]
    newest = house.ledger.commits.newest(limit=1)[0]
    assert newest.message == f"withdraw {commit_id}: it did not reach its readers"
    snapshot = house.services.snapshots.serving("main")
    assert snapshot.manifest_id == UUID(first)


def fill_more(house: House, commit_id: str, rows: tuple[tuple[str, float], ...]) -> None:
    """Append orders after those that the history has."""
    table = history_of(house, commit_id, "Orders")
    first = table.offsets().get(0, 0)
    table.append_rows(
        [
            LogRow(
                0,
                first + number,
                Fact(
                    row_id=RowId(b"more %d" % number),
                    version=Version(b"0"),
                    event_time=(first + number + 1) * HOUR_US,
                    key=(),
                    values=cells,
                ),
            )
            for number, cells in enumerate(rows)
        ]
    )


@pytest.mark.slow
def test_a_first_commit_that_is_broken_leaves_its_branch_without_readers(house: House) -> None:
    commit_id = deployed(house, BAD)

    found = look_after(house, commit_id)

    assert found["promotion"] == "SUPERSEDED"
    branch = house.ledger.branches.get(house.services.tenant, "main")
    assert (branch.head_commit_id, branch.serving_commit_id) == (None, None)


@pytest.mark.slow
def test_a_broken_warning_is_shown_and_readers_flip(house: House) -> None:
    commit_id = deployed(house, BAD, severity="warning")

    found = look_after(house, commit_id)

    assert (found["state"], found["promotion"]) == ("FINALIZED", "DONE")
    (checked,) = found["quality"]
    assert (checked["success"], checked["is_critical"]) == (False, False)
    assert len(found["approval"]["warnings"]) == 2
    assert all(text.startswith("warning: Orders.") for text in found["approval"]["warnings"])


@pytest.mark.slow
def test_a_person_who_approves_is_shown_the_warnings(house: House) -> None:
    house.client.post("/api/v1/branch/protect", json={"protected": True})
    commit_id = deployed(house, BAD, severity="warning")
    take(house, commit_id, "quality/Orders")

    approved = house.client.post(f"/api/v1/commits/{commit_id}/approve").json()
    found = look_after(house, commit_id)

    assert approved["by"]
    assert len(approved["warnings"]) == 2
    assert found["promotion"] == "DONE"


@pytest.mark.slow
def test_an_approval_does_not_let_a_broken_commit_pass(house: House) -> None:
    house.client.post("/api/v1/branch/protect", json={"protected": True})
    commit_id = deployed(house, BAD)

    house.client.post(f"/api/v1/commits/{commit_id}/approve")
    found = look_after(house, commit_id)

    assert found["promotion"] == "SUPERSEDED"


@pytest.mark.slow
def test_a_commit_that_changes_neither_rows_nor_expectations_is_not_checked(house: House) -> None:
    first = deployed(house, GOOD)
    look_after(house, first)
    fill_more(house, first, (("ann", -1.0),))

    again = served(house)

    assert take(house, again, "quality") == {"datasets": []}
    assert shown(house.client, again)["quality"] == []


@pytest.mark.slow
def test_a_commit_names_the_check_that_it_waits_for(house: House) -> None:
    commit_id = deployed(house, GOOD)

    first = house.client.post(f"/api/v1/commits/{commit_id}/steps/quality/Orders")

    assert first.status_code == 409
    assert "the check of the history of `Orders` was started" in first.json()["err_msg"]
    assert (
        "the check of the history of Orders against its expectations"
        in (shown(house.client, commit_id)["waits_for"])
    )
    take(house, commit_id, "promote")
    assert shown(house.client, commit_id)["promotion"] == "DONE"


def test_a_history_is_not_checked_before_the_jobs_have_caught_up(house: House) -> None:
    commit_id = deploy(house.client, promising())

    refused = house.client.post(f"/api/v1/commits/{commit_id}/steps/quality/Orders")

    assert refused.status_code == 409
    assert "have not caught up" in refused.json()["err_msg"]
    assert house.ledger.audits.gates(UUID(commit_id)) == ()


@pytest.mark.slow
def test_an_outcome_remains_after_the_commit_was_withdrawn(house: House) -> None:
    commit_id = deployed(house, BAD)
    look_after(house, commit_id)

    late = take(house, commit_id, "quality/Orders")

    assert late["checked"]["is_critical"] is True
    assert take(house, commit_id, "quality") == {"datasets": ["Orders"]}
    assert house.ledger.commits.get(UUID(commit_id)).state is CommitState.FINALIZED


@pytest.mark.slow
def test_a_token_that_may_not_read_data_sees_no_keys(house: House) -> None:
    commit_id = deployed(house, BAD)
    take(house, commit_id, "quality/Orders")
    token = house.client.post(
        "/api/v1/tokens", json={"name": "steps", "scopes": ["steps"], "branches": ["*"]}
    ).json()["token"]
    steps = {"authorization": f"Bearer {token}"}

    asked = house.client.post(f"/api/v1/commits/{commit_id}/steps/quality/Orders", headers=steps)
    read = house.client.get(f"/api/v1/commits/{commit_id}", headers=steps)

    for checked in (asked.json()["checked"], read.json()["quality"][0]):
        assert {one["examples"] for one in checked["broken"]} == {None}
        assert "1970-" not in " ".join(one["text"] for one in checked["broken"])


@pytest.mark.slow
def test_examples_are_deleted_after_a_while(house: House) -> None:
    commit_id = deployed(house, BAD)
    take(house, commit_id, "quality/Orders")

    kept = house.ledger.audits.forget_examples(older_than=EXAMPLES_KEPT)
    gone = house.ledger.audits.forget_examples(older_than=EXAMPLES_KEPT * 0)

    assert (kept, gone) == (0, 1)
    (checked,) = shown(house.client, commit_id)["quality"]
    assert {one["examples"] for one in checked["broken"]} == {None}
    assert [one["rows"] for one in checked["broken"]] == [1, 2]


@pytest.mark.slow
def test_a_history_that_cannot_be_read_is_tried_again_and_then_counts_as_broken(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quality_gates, "RETRIES", attrs.evolve(quality_gates.RETRIES, first_s=0.01))
    monkeypatch.setattr(quality_gates, "TRIES", 2)
    commit_id = deployed(house, GOOD)
    table = history_of(house, commit_id, "Orders")
    for entry in Path(table.files()[0].removeprefix("file://")).parent.glob("_delta_log/*"):
        entry.write_text("{")

    checked = take(house, commit_id, "quality/Orders")["checked"]

    assert (checked["rows"], checked["is_critical"]) == (None, True)
    assert {one["rows"] for one in checked["broken"]} == {None}
    assert all("could not be checked" in one["text"] for one in checked["broken"])


def test_a_preview_names_what_will_be_checked(house: House) -> None:
    answer = preview(house.client)

    assert answer["report"]["quality"] == [{"dataset": "Orders", "critical": 1, "warning": 1}]
    assert any("Orders: 1 critical, 1 warning" in line for line in answer["summary"])


def preview(client: TestClient) -> Any:
    answer = client.post("/api/v1/commit", params={"preview": "true"}, content=payload(promising()))
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_gates_are_of_new_and_changed_datasets(house: House) -> None:
    first = UUID(accept_and_plan(house))
    manifest = house.ledger.manifests.get(first)
    (orders,) = [plan for plan in manifest.plans if plan.name == "Orders"]
    (known, gone) = (manifest, attrs.evolve(manifest, plans=(), bindings={}))
    stricter = attrs.evolve(
        orders,
        expectations=tuple(
            attrs.evolve(one, severity=Severity.CRITICAL) for one in orders.expectations
        ),
    )
    plans = tuple(stricter if plan.name == "Orders" else plan for plan in manifest.plans)

    def names(new: Any, read: Any) -> list[str]:
        return [gate.plan.name for gate in gates_between(new, read, history_dir="/h")]

    assert names(manifest, None) == ["Orders"]
    assert names(manifest, gone) == ["Orders"]
    assert names(manifest, known) == []
    assert names(attrs.evolve(manifest, plans=plans), known) == ["Orders"]
    (gate,) = gates_between(manifest, None, history_dir="/h")
    assert isinstance(gate, Gate)
    assert gate.history_path.startswith("/h/nx_tests000_")


def accept_and_plan(house: House) -> str:
    commit_id = accept(house.client, promising())
    take(house, commit_id, "plan")
    return commit_id


@pytest.mark.slow
def test_the_plan_of_a_dataset_keeps_its_severities(house: House) -> None:
    served(house)

    answer = house.client.get("/api/v1/datasets/Orders").json()

    plan = from_plain(answer["plan"])
    assert isinstance(plan, DatasetPlan)
    assert [one.severity for one in plan.expectations] == [Severity.WARNING, Severity.CRITICAL]

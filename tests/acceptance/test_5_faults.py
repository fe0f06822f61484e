"""Killed processes recover without help; no row is lost or duplicated, and no asset leaks."""

import os
import signal
from contextlib import suppress

import pandas as pd
import pytest

from narthex_spark_apps.jobs.application import STANDING_TASKS
from tests.acceptance import suppliers
from tests.acceptance.conftest import Market
from tests.acceptance.market import TOPIC
from tests.acceptance.platform import COMMIT_S, Platform, as_json, order, wait_until
from tests.acceptance.returns import DATASETS, FEATURESETS
from tests.spark_processes import DRIVER, JVM

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

BATCHES = 20
EACH = 10
BACK_S = 180.0
ENDED = {"success", "failed"}
LATER = "2026-03-05T00:00:00Z"
SUPPLIED = "item,supplier,since\ntea,Lee,2026-03-01T00:00:00Z\n"


def totals(platform: Platform, user: str) -> tuple[object, object]:
    found = platform.ask(["Buyer.orders_ever", "Buyer.quantity_ever"], as_of=LATER, user=user)
    return found["orders_ever"], found["quantity_ever"]


def send(platform: Platform, user: str, batches: range) -> None:
    """Send numbered rows: each batch by webhook and by Kafka in turn."""
    for batch in batches:
        rows = [
            order(
                user, f"2026-03-03T{batch:02}:{number:02}:00Z", quantity=batch * EACH + number + 1
            )
            for number in range(EACH)
        ]
        if batch % 2:
            platform.produce(TOPIC, as_json(rows))
        else:
            platform.log("orders", rows)


def expect_exact_totals(platform: Platform, user: str) -> None:
    sent = BATCHES * EACH
    wanted = (sent, sent * (sent + 1) // 2)
    wait_until(
        lambda: totals(platform, user) == wanted,
        within_s=BACK_S,
        what=f"{wanted} of {user}",
        so_far=lambda: (totals(platform, user), platform.jobs()),
    )
    platform.settle()
    assert totals(platform, user) == wanted


@pytest.mark.parametrize(
    "victim", [DRIVER, pytest.param(JVM, marks=pytest.mark.slow), *STANDING_TASKS]
)
def test_a_killed_runner_comes_back_and_the_totals_are_exact(market: Market, victim: str) -> None:
    platform = market.platform
    send(platform, victim, range(BATCHES // 2))

    pid = platform.kill_runner(victim)
    send(platform, victim, range(BATCHES // 2, BATCHES))

    platform.wait_back(victim, other_than=pid)
    expect_exact_totals(platform, victim)


@pytest.mark.slow
def test_a_killed_supervisor_comes_back_and_the_totals_are_exact(market: Market) -> None:
    platform = market.platform
    send(platform, "supervisor", range(BATCHES // 2))
    driver = platform.runner_pid("driver")

    pid = platform.kill_service("supervisor")
    send(platform, "supervisor", range(BATCHES // 2, BATCHES))

    platform.wait_service("supervisor", other_than=pid)
    platform.wait_back("driver", other_than=driver)
    expect_exact_totals(platform, "supervisor")


def cancelled_without_kafka(platform: Platform) -> str:
    """Commit while the broker is stopped, and cancel when a creation has failed; then kill it."""
    broker = platform.service("kafka").process
    assert broker is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        answer = platform.client.commit(
            "returns", DATASETS, FEATURESETS, incremental=True, wait=False
        )
        commit_id = str(answer.body["commit_id"])
        wait_until(
            lambda: any(a["last_error"] for a in platform.commit_of(commit_id)["assets"]),
            within_s=90.0,
            what="a creation fails",
            so_far=lambda: platform.commit_of(commit_id),
        )
        assert ann(platform)["orders_ever"] == 3
        platform.post(f"commits/{commit_id}/cancel")
    finally:
        # It may have been replaced by now: it does not answer.
        with suppress(ProcessLookupError):
            os.kill(broker.pid, signal.SIGKILL)
    platform.wait_service("kafka", other_than=broker.pid)
    return commit_id


def ann(platform: Platform) -> dict[str, object]:
    return platform.ask(["Buyer"], as_of="2026-03-01T09:10:00Z", user="ann")


def test_a_commit_during_which_kafka_stops_is_rolled_back_in_airflow(market: Market) -> None:
    platform = market.platform
    platform.settle()
    before = ann(platform)

    commit_id = cancelled_without_kafka(platform)

    run = wait_until(
        lambda: found if (found := platform.run_of(commit_id))["state"] in ENDED else None,
        within_s=BACK_S,
        what="the run ends",
        so_far=lambda: platform.tasks_of(commit_id),
    )
    shown = platform.commit_of(commit_id)
    tasks = {t["task_id"]: t["state"] for t in platform.tasks_of(commit_id)}
    assert run["state"] == "failed"
    assert tasks["roll_back"] == "success"
    assert tasks["promote"] in {"upstream_failed", "skipped"}
    assert shown["state"] == "ABORTED"
    assert ann(platform) == before
    left = {asset["physical_name"] for asset in shown["assets"] if not asset["refs"]}
    assert len(left) > 5
    assert not left & set(platform.topics())
    assert not left & {path.name for path in platform.settings.index_dir.iterdir()}


def test_the_commit_that_failed_succeeds_when_it_is_tried_again(market: Market) -> None:
    platform = market.platform

    retried = platform.client.commit(
        "returns again", DATASETS, FEATURESETS, incremental=True, timeout_s=BACK_S
    )

    assert retried.body["promotion"] == "DONE"
    platform.log("returns", [{"user": "ann", "item": "tea", "returned_at": "2026-03-02T00:00:00Z"}])
    wait_until(
        lambda: platform.ask(["Regrets.returns"], as_of=LATER, user="ann")["returns"] == 1,
        within_s=BACK_S,
        what="ann regrets",
    )
    assert ann(platform)["orders_ever"] == 3


@pytest.mark.slow
def test_a_backfill_waits_for_a_missing_file_and_continues(
    market: Market,
) -> None:
    platform = market.platform
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if "is not a file" in line:
            (platform.settings.files_root / suppliers.LIST).write_text(SUPPLIED)

    answer = platform.client.commit(
        "suppliers", suppliers.DATASETS, incremental=True, timeout_s=COMMIT_S, tell=tell
    )

    assert answer.body["promotion"] == "DONE"
    assert any("Suppliers (stream_job): its backfill failed" in line for line in told)
    found, is_found = platform.client.lookup("Suppliers", keys=pd.DataFrame({"item": ["tea"]}))
    assert list(is_found) == [True]
    assert list(found["supplier"]) == ["Lee"]

"""A version that folds the same rows otherwise serves them without computing them again."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.acceptance import payments
from tests.acceptance.conftest import Market
from tests.acceptance.platform import COMMIT_S, STREAM_S, Platform, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

NOON = "2026-05-01T12:00:00Z"
KEPT = {
    "dataset/Paid/log",
    "dataset/Paid/history",
    "dataset/Paid/history_feed",
    "job/Paid/pipeline/by_payer",
    "job/Paid/pipeline/by_payer/checkpoint",
}
"""Assets that are backfilled from upstream, or that store the progress."""


def commit(
    platform: Platform, definitions: tuple[Sequence[type], Sequence[type]]
) -> dict[str, Any]:
    """Commit beside what is there; return its plan."""
    answer = platform.client.commit("payments", *definitions, incremental=True, timeout_s=COMMIT_S)
    assert answer.body["promotion"] == "DONE"
    read: Any = platform.client.read(f"commits/{answer.body['commit_id']}/plan")
    plan: dict[str, Any] = read["plan"]
    return plan


def paths_of(plan: dict[str, Any], part: str) -> set[str]:
    return {path for asset in plan[part] for path in asset["paths"] if "/Paid/" in path}


def paid(payer: str, euros: float, minute: int) -> dict[str, object]:
    return {"payer": payer, "euros": euros, "paid_at": f"2026-05-01T11:{minute:02}:00Z"}


def euros(platform: Platform) -> object:
    return platform.ask(["Payer.euros"], as_of=NOON, payer="ann")["euros"]


def test_one_window_more_is_filled_from_the_log_that_is_there(market: Market) -> None:
    platform = market.platform
    commit(platform, payments.FIRST)
    early = {"payer": "ann", "euros": 4.0, "paid_at": "2026-05-01T08:00:00Z"}
    platform.log("payments", [early, *(paid("ann", 1.0, minute) for minute in range(8))])
    wait_until(
        lambda: euros(platform) == 12.0,
        within_s=STREAM_S,
        what="nine payments are there",
        so_far=lambda: euros(platform),
    )
    log = platform.topic("dataset/Paid/log")
    written = [(one.partition, one.offset) for one in platform.records(log)]
    assert len(written) == 9

    plan = commit(platform, payments.second())

    assert paths_of(plan, "share") == KEPT
    assert paths_of(plan, "create") == {"dataset/Paid/index", "dataset/Paid/index_feed"}
    assert plan["backfill"] == []
    assert [(one.partition, one.offset) for one in platform.records(log)] == written
    asked = ["Payer.euros", "Payer.lately", "Payer.mean", "Payer.times"]
    found = platform.ask(asked, as_of=NOON, payer="ann")
    assert found == {"euros": 12.0, "lately": 8.0, "mean": 12.0 / 9, "times": 9}

    platform.log("payments", [paid("ann", 4.0, 59)])
    wait_until(lambda: euros(platform) == 16.0, within_s=STREAM_S, what="the tenth is there")
    found = platform.ask(asked, as_of=NOON, payer="ann")
    assert found == {"euros": 16.0, "lately": 12.0, "mean": 1.6, "times": 10}
    assert platform.topic("dataset/Paid/log") == log

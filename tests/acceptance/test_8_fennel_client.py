"""The unmodified client of `fennel-ai` commits, logs, queries and inspects on this platform."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.platform import Platform
from tests.peer.environment import peers_python

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

PROGRAM = Path(__file__).with_name("bazaar.py")


@pytest.fixture(scope="module")
def told(platform: Platform) -> dict[str, Any]:
    """The results of the program, which runs once in the environment of Fennel's client."""
    settings = platform.settings
    # Without `-P`, modules beside the program would hide those of Python.
    command = [str(peers_python()), "-P", str(PROGRAM), settings.server_url, settings.token]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_a_commit_returns_when_readers_read_it(told: dict[str, Any]) -> None:
    assert told["preview"][0].startswith("Plan ")
    assert told["commit"][-1].endswith(" is done\n")


def test_logged_rows_are_answered(told: dict[str, Any]) -> None:
    assert (told["log"]["accepted"], told["log"]["left_out"]) == (5, 1)
    assert told["query"] == [
        {
            "Buyer.buyer": buyer,
            "Buyer.country": country,
            "Buyer.age": age,
            "Buyer.value": value,
            "Buyer.purchases": purchases,
            "Buyer.last": last,
            "Buyer.is_adult": is_adult,
            "Buyer.size": size,
            "Buyer.label": f"{country}/{age}",
            "Buyer.home": home,
        }
        for buyer, country, age, value, purchases, last, is_adult, size, home in (
            ("ann", "no", 30, 16.0, 2, [10.0, 6.0], True, "big", "NO"),
            ("bob", "no", 40, 16.0, 2, [10.0, 6.0], True, "big", "NO"),
            ("cat", "se", 12, 1.5, 1, [1.5], False, "small", "SE"),
            ("nil", "nowhere", -1, 0.0, 0, [], False, "small", "unknown"),
        )
    ]


def test_rows_are_looked_up_as_of_now_and_of_other_instants(told: dict[str, Any]) -> None:
    (cat, nil), found = told["lookup"]["rows"], told["lookup"]["found"]

    assert found == [True, False]
    assert (cat["country"], cat["age"], cat["born"][:10]) == ("se", 12, "1969-12-31")
    assert nil["country"] is None
    assert told["as_of"] == {"ages": [None, 30], "found": [False, True]}


def test_rows_are_inspected(told: dict[str, Any]) -> None:
    assert told["inspect"] == ["ann", "bob", "cat"]


def test_an_offline_query_is_queued_and_tracked(told: dict[str, Any], platform: Platform) -> None:
    assert told["offline"]["status"] == "done", told["offline"]

    request = {"request_id": told["offline"]["request_id"]}
    answers = platform.client.read("query_offline/answers", request)
    assert answers["Buyer.country"] == ["no", "se"]
    assert answers["Buyer.purchases"] == [2, 0]


def test_everything_that_the_client_leaves_out_is_refused_by_name(told: dict[str, Any]) -> None:
    for part in (
        "[NX811] pipeline `by_window` of `Windows`: it groups by a window",
        "[NX703] `assign` of `sold` in pipeline `by_window` of `Windows` uses the name `FACTOR`",
        "[NX901] a connector of kinesis, sent by Fennel's client\n  --> Streamed",
        "3 mistakes",
    ):
        assert part in told["refused"]


def test_other_refusals_reach_the_author(told: dict[str, Any]) -> None:
    assert "row 0, Purchases: `price`" in told["bad_row"]
    assert "`Buyers` has no erase key" in told["erase"]
    assert "401" in told["stranger"]


def test_secrets_and_branches_work(told: dict[str, Any]) -> None:
    assert told["secret"] == "s3cret"
    assert {"main", "bazaar", "bazaar-clone"} <= {*told["branches"]}
    assert [row["Buyer.country"] for row in told["cloned"]] == ["no", "no", "se", "nowhere"]
    assert "bazaar-clone" not in told["left"]
    assert set(told["xray"]) == {"Buyers", "Purchases", "Spending"}

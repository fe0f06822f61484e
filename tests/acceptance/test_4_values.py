"""Values are compared between branches, and before a person approves a commit."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pandas as pd
import pytest

from narthex.client import Client
from tests.acceptance.loads import Crates, loads
from tests.acceptance.platform import COMMIT_S, STREAM_S, Platform, wait_until
from tests.acceptance.test_7_people import required_action

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

GRAMS, POUNDS = "loads-grams", "loads-pounds"
ROWS = [
    {"crate": "c1", "sender": "ann", "grams": 1000, "at": "2026-05-01T08:00:00Z"},
    {"crate": "c2", "sender": "ann", "grams": 3000, "at": "2026-05-01T08:10:00Z"},
    {"crate": "c3", "sender": "bob", "grams": 0, "at": "2026-05-01T08:20:00Z"},
]


@attrs.frozen
class Loads:
    """Two branches with the same crates, whose weights are in kilograms and in pounds."""

    kilograms: Client
    pounds: Client


def crates_in(client: Client, dataset: str) -> set[str]:
    return set(client.inspect(dataset, n=10).get("crate", pd.Series(dtype=str)))


@pytest.fixture(scope="module")
def both(platform: Platform) -> Iterator[Loads]:
    url, token = platform.settings.server_url, platform.settings.token
    made = Loads(Client(url, token), Client(url, token))
    made.kilograms.init_branch(GRAMS)
    made.kilograms.commit("kilograms", *loads(grams=1000.0, version=1), timeout_s=COMMIT_S)
    made.kilograms.log("loads", "crates", pd.DataFrame(ROWS))
    wait_until(
        lambda: len(crates_in(made.kilograms, "Weights")) == len(ROWS),
        within_s=STREAM_S,
        what="the crates are in the history",
    )
    made.pounds.init_branch(POUNDS)
    made.pounds.commit("pounds", *loads(grams=500.0, version=2), timeout_s=COMMIT_S)
    wait_until(
        lambda: len(crates_in(made.pounds, "Weights")) == len(ROWS),
        within_s=STREAM_S,
        what="the crates are in the other history",
    )
    yield made
    made.kilograms.close()
    made.pounds.close()


def loaded(client: Client, dataset: str, senders: int) -> dict[str, Any]:
    """Compare a dataset until both histories have all senders."""
    found = wait_until(
        lambda: (
            found
            if (found := client.diff(dataset, GRAMS, POUNDS))["keys"]["differ"] == senders  # type: ignore[call-overload,index]
            else None
        ),
        within_s=STREAM_S,
        what=f"{dataset} differs",
        so_far=lambda: client.diff(dataset, GRAMS, POUNDS),
    )
    return dict(found)


def test_an_aggregate_differs_because_of_the_dataset_upstream_that_was_changed(
    both: Loads,
) -> None:
    found = loaded(both.kilograms, "Loads", 1)

    assert found["keys"]["same"] == 1
    (column,) = found["columns"]
    assert (column["column"], column["greatest_difference"]) == ("weight", 4.0)
    assert found["features"] == {"weight": ["Sender.load"]}
    assert [(one["dataset"], one["kind"]) for one in found["causes"]] == [("Weights", "definition")]
    (example,) = found["examples"]
    assert (example["key"], example["first"], example["second"]) == ({"sender": "ann"}, 4.0, 8.0)
    assert both.kilograms.diff(Crates, GRAMS, POUNDS)["same_history"] is True


def test_features_of_both_branches_differ_by_the_same_dataset(
    platform: Platform, both: Loads
) -> None:
    loaded(both.kilograms, "Loads", 1)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "narthex.cli", "diff", GRAMS, POUNDS),
            *("--featureset", "Sender", "--json"),
        ],
        env={
            **os.environ,
            "NARTHEX_URL": platform.settings.server_url,
            "NARTHEX_TOKEN": platform.settings.token,
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    # Without logged queries, the senders are the keys of the dataset.
    assert (found["keys"]["compared"], found["keys"]["differ"]) == (2, 1)
    (column,) = [one for one in found["columns"] if one["column"] == "Sender.load"]
    assert (column["differ"], column["greatest_difference"]) == (1, 4.0)
    assert [(one["dataset"], one["kind"]) for one in found["causes"]] == [("Weights", "definition")]
    (example,) = found["examples"]
    assert (example["key"], example["first"]) == ({"Sender.sender": "ann"}, 4.0)
    assert (example["second"], example["cause"]) == (8.0, "Weights")


def test_features_are_asked_for_the_rows_of_logged_queries(both: Loads) -> None:
    given = {"Sender.sender": ["ann", "nobody", "ann"]}
    both.kilograms.query_columns([*given], ["Sender.load"], given, log=True)

    found: Any = both.kilograms.diff("Sender", GRAMS, POUNDS)

    assert (found["keys"]["compared"], found["keys"]["differ"]) == (2, 1)
    keys = {"Sender.sender": "bob"}
    of_bob: Any = both.kilograms.diff("Sender", GRAMS, POUNDS, keys=[keys])
    assert (of_bob["keys"]["compared"], of_bob["keys"]["differ"]) == (1, 0)


def test_the_command_prints_the_difference_of_given_keys(
    platform: Platform, both: Loads, tmp_path: Path
) -> None:
    loaded(both.kilograms, "Weights", 2)
    keys = tmp_path / "keys.jsonl"
    keys.write_text('{"crate": "c1"}\n')

    done = subprocess.run(
        [
            *(sys.executable, "-m", "narthex.cli", "diff", GRAMS, POUNDS),
            *("--dataset", "Weights", "--keys-file", str(keys), "--json"),
        ],
        env={
            **os.environ,
            "NARTHEX_URL": platform.settings.server_url,
            "NARTHEX_TOKEN": platform.settings.token,
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["keys"]["compared"] == 1
    assert [one["key"] for one in found["examples"]] == [{"crate": "c1"}]


def test_a_person_who_approves_in_airflow_reads_what_changes(
    platform: Platform, both: Loads
) -> None:
    both.kilograms.protect_branch(GRAMS)
    accepted = both.kilograms.commit("half", *loads(grams=2000.0, version=2), wait=False)
    commit_id = str(accepted.body["commit_id"])

    question = required_action(platform, commit_id)

    assert "It changes values:" in question["body"]
    assert "Loads: 1 of 2 keys differ: weight of 1; " in question["body"]
    assert "Sender: 1 of 2 keys differ: Sender.load of 1; " in question["body"]
    # The token of Airflow's tasks may not read data.
    assert "4.0" not in question["body"]
    found = {one["dataset"]: one for one in platform.commit_of(commit_id)["differences"]}
    assert found["Loads"]["columns"][0]["greatest_difference"] == 2.0
    assert [one["key"] for one in found["Loads"]["examples"]] == [{"sender": "ann"}]
    approved = both.kilograms.approve(commit_id).body
    assert any("at most 2" in str(one) for one in approved["differences"])  # type: ignore[union-attr]

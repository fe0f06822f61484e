"""The command `narthex commits` for one dataset or featureset: its request, and its table."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from narthex.cli import make_app
from tests.core.client.test_client import Stub, stub

__all__ = ["stub"]

FOUND: dict[str, Any] = {
    "commits": [
        {
            "commit_id": "c0ffee00-0000-0000-0000-000000000000",
            "seq": 3,
            "kind": "deploy",
            "actor": "ada",
            "message": "count returns",
            "committed_at": "2026-03-01T10:00:00.5+00:00",
            "changes": ["~ dataset `Spend` v1 → v2", "\x1b[31m+ expectation"],
        },
        {
            "commit_id": "beef0000-0000-0000-0000-000000000000",
            "seq": 1,
            "kind": "rollback",
            "actor": "eve",
            "message": "",
            "committed_at": None,
            "changes": [],
        },
    ],
    "looked_at": 10,
}


def run(stub: Stub, *more: str) -> Result:
    place = ("--url", stub.url, "--token", "t", "--branch", "dev")
    return CliRunner().invoke(make_app(), ["commits", *more, *place])


def test_commits_that_changed_a_dataset_are_a_table_with_their_changes(stub: Stub) -> None:
    stub.answer("datasets/Spend/commits", FOUND)

    result = run(stub, "--dataset", "Spend")

    assert result.exit_code == 0, result.output
    heading, first, second = result.stdout.splitlines()
    assert heading.split() == ["number", "commit", "change", "committed", "by", "message"]
    assert first.split()[:2] == ["3", "c0ffee00"]
    assert "~ dataset `Spend` v1 → v2; " in first
    assert "\x1b" not in result.stdout
    assert first.endswith("2026-03-01 10:00:00  ada  count returns")
    assert second.split() == ["1", "beef0000", "eve", "rollback"]
    (call,) = stub.calls
    assert call.headers["x-narthex-branch"] == "dev"


def test_commits_that_changed_a_featureset_are_json_and_at_most_as_many_as_asked(
    stub: Stub,
) -> None:
    stub.answer("featuresets/Buyer/commits", FOUND)

    result = run(stub, "--featureset", "Buyer", "--limit", "1", "--json")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {**FOUND, "commits": FOUND["commits"][:1]}


def test_an_entity_without_a_recent_change_is_a_sentence(stub: Stub) -> None:
    stub.answer("datasets/Spend/commits", {"commits": [], "looked_at": 10})

    result = run(stub, "--dataset", "Spend")

    assert (result.exit_code, result.stdout) == (0, "")
    told = "none of the newest 10 commits of dev changed the dataset Spend"
    assert result.stderr.splitlines() == [told]


@pytest.mark.parametrize(
    "given",
    [
        ("3", "--dataset", "Spend"),
        ("3", "--featureset", "Buyer"),
        ("--dataset", "Spend", "--featureset", "Buyer"),
    ],
)
def test_one_thing_is_asked_for_at_a_time(stub: Stub, given: tuple[str, ...]) -> None:
    result = run(stub, *given)

    assert result.exit_code == 2
    assert "pass one of COMMIT, --dataset and --featureset" in result.stderr
    assert stub.calls == []

"""Commands about offline queries and training sets: what they ask, and what they print."""

import json
from typing import Any

from typer.testing import CliRunner

from narthex.cli import make_app
from tests.core.client.test_client import Stub, stub

__all__ = ["stub"]

QUERY: dict[str, Any] = {
    "request_id": "q1",
    "status": "running",
    "share": 0.4,
    "rows": 120,
    "outputs": ["F.a", "F.b"],
}
STATISTICS = {
    "F.a": {"nulls": 1, "defaults": 2, "mean": 1.5, "stddev": None, "least": 1, "greatest": 2},
    "F.b": {"nulls": 0, "defaults": None, "least": None, "distinct": 2},
}
SET: dict[str, Any] = {
    "name": "fraud",
    "rows": 3,
    "features": ["F.a", "F.b"],
    "created_at": "2026-03-01T00:00:00+00:00",
    "commit_id": "c1",
    "statistics": STATISTICS,
}


def said(stub: Stub, *arguments: str, answer: str | None = None) -> str:
    server = ("--url", stub.url, "--token", "word")
    ran = CliRunner().invoke(make_app(), [*arguments, *server], input=answer)
    assert ran.exit_code == 0, ran.output
    return ran.output


def test_offline_queries_are_listed_with_the_share_that_is_done(stub: Stub) -> None:
    stub.answer("offline_queries", {"queries": [QUERY]})

    assert said(stub, "offline", "list").splitlines() == [
        "query  state    done  rows  outputs",
        "q1     running  40%    120  F.a, F.b",
    ]
    assert json.loads(
        said(stub, "offline", "list", "--json", "--limit", "3", "--before", "q2")
    ) == [QUERY]
    assert [call.parameters for call in stub.calls] == [
        {"limit": "20"},
        {"limit": "3", "before": "q2"},
    ]


def test_an_offline_query_is_shown_and_cancelled(stub: Stub) -> None:
    stub.answer("query_offline/status", QUERY)
    stub.answer("query_offline/cancel", {"request_id": "q1", "status": "cancelled"})

    assert json.loads(said(stub, "offline", "show", "q1", "--json")) == QUERY
    assert "share       40%\nrows        120\noutputs     F.a, F.b\n" in said(
        stub, "offline", "show", "q1"
    )
    assert said(stub, "offline", "cancel", "q1") == "offline query q1 is cancelled\n"
    assert json.loads(said(stub, "offline", "cancel", "q1", "--json"))["status"] == "cancelled"
    assert [call.parameters for call in stub.calls] == [{"request_id": "q1"}] * 4


def test_training_sets_are_listed_and_shown_with_their_statistics(stub: Stub) -> None:
    stub.answer("training_sets", {"training_sets": [SET]})
    stub.answer("training_sets/fraud", SET)

    listed = said(stub, "training-set", "list", "--branch", "dev")
    shown = said(stub, "training-set", "show", "fraud")

    assert listed.splitlines() == [
        "name   rows  created                    features",
        "fraud     3  2026-03-01T00:00:00+00:00  F.a, F.b",
    ]
    assert shown.splitlines() == [
        "name     fraud",
        "rows     3",
        "created  2026-03-01T00:00:00+00:00",
        "commit   c1",
        "",
        "feature  statistics",
        "F.a      1 nulls, 2 defaults, mean 1.5, 1 to 2",
        "F.b      0 nulls, 2 distinct",
    ]
    assert stub.calls[0].headers["x-narthex-branch"] == "dev"
    assert json.loads(said(stub, "training-set", "show", "fraud", "--json")) == SET


def test_a_training_set_is_deleted_after_a_question(stub: Stub) -> None:
    stub.answer("training_sets/fraud", {"name": "fraud"})

    refused = CliRunner().invoke(
        make_app(), ["training-set", "delete", "fraud", "--url", stub.url], input="n\n"
    )
    assert (refused.exit_code, stub.calls) == (1, [])
    assert "deleted training set fraud" in said(
        stub, "training-set", "delete", "fraud", answer="y\n"
    )
    done = said(stub, "training-set", "delete", "fraud", "--yes", "--json")
    assert json.loads(done) == {"deleted": "fraud"}
    assert [call.verb for call in stub.calls] == ["DELETE", "DELETE"]

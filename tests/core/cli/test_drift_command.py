"""The command about drift: the requests that it sends, and its output."""

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner

from narthex.cli import make_app
from narthex.client import Client
from narthex.errors import ArgumentsUnfit
from tests.core.client.test_client import Stub, stub

__all__ = ["stub"]

CALM: dict[str, Any] = {
    "branch": "main",
    "feature": "Buyer.city",
    "reference_kind": "window",
    "reference": "spring",
    "rows": 900,
    "reference_rows": 4000,
    "is_compared": True,
    "severity": None,
    "metrics": {"psi": {"value": 0.01, "by_chance": 0.05, "severity": None}},
}
MOVED: dict[str, Any] = CALM | {
    "feature": "Buyer.amount",
    "reference_kind": "training_set",
    "reference": "fraud-1",
    "severity": "critical",
    "metrics": {
        "psi": {
            "value": 0.3114,
            "by_chance": 0.05,
            "warning": 0.1,
            "critical": 0.25,
            "severity": "critical",
        },
    },
}
FEW: dict[str, Any] = CALM | {"rows": 3, "is_compared": False, "metrics": {}}


def ran(stub: Stub, *arguments: str) -> Any:
    server = ("--url", stub.url, "--token", "word")
    return CliRunner().invoke(make_app(), ["drift", *arguments, *server])


def test_drift_is_printed_with_the_metrics_beyond_a_threshold(stub: Stub) -> None:
    stub.answer("drift/comparison", {"drift": [MOVED, CALM, FEW]})

    found = ran(stub)

    assert [line.split("  ") for line in re.sub(" {2,}", "  ", found.output).splitlines()] == [
        ["verdict", "feature", "rows", "reference", "its rows", "beyond its limits"],
        [
            *("critical", "Buyer.amount", "900", "training set fraud-1", "4000"),
            "critical psi 0.311 (warning 0.1, critical 0.25; by chance 0.05)",
        ],
        ["no drift", "Buyer.city", "900", "window spring", "4000"],
        ["too few rows", "Buyer.city", "3", "window spring", "4000"],
    ]
    assert found.exit_code == 1


def test_the_reference_the_featuresets_and_the_hours_are_sent(stub: Stub) -> None:
    stub.answer("drift/comparison", {"drift": [CALM]})

    found = ran(
        stub,
        *("--training-set", "fraud-1", "--featureset", "Buyer", "--json", "--branch", "dev"),
        *("--from", "2026-05-01T00:00:00Z", "--to", "2026-05-01T06:00:00+02:00"),
    )

    assert (found.exit_code, json.loads(found.output)) == (0, [CALM])
    (call,) = stub.calls
    assert call.headers["x-narthex-branch"] == "dev"
    assert call.parameters == {
        "from": "2026-05-01T00:00:00+00:00",
        "to": "2026-05-01T06:00:00+02:00",
        "featureset": "Buyer",
        "reference_kind": "training_set",
        "reference": "fraud-1",
    }


def test_nothing_to_compare_is_not_an_error(stub: Stub) -> None:
    stub.answer("drift/comparison", {"drift": []})

    found = ran(stub)

    assert (found.exit_code, found.stdout) == (0, "")
    assert "nothing to compare" in found.output


def test_current_findings_are_listed_with_their_branches(stub: Stub) -> None:
    stub.answer("drift", {"drift": [MOVED]})

    found = ran(stub, "findings")

    headings, line = found.output.splitlines()
    assert headings.split()[:4] == ["branch", "verdict", "feature", "rows"]
    assert line.split()[:4] == ["main", "critical", "Buyer.amount", "900"]
    assert stub.calls[0].parameters == {"current": "true", "limit": "1000"}
    assert json.loads(ran(stub, "findings", "--json").output) == [MOVED]


def test_a_window_is_pinned_and_deleted(stub: Stub) -> None:
    stub.answer("drift/windows", {"features": ["Buyer.city"]})
    stub.answer("drift/windows/spring", {"name": "spring"})
    span = ("--from", "2026-05-01T00:00:00Z", "--to", "2026-05-02T00:00:00Z")

    pinned, unpinned = ran(stub, "pin", "spring", *span), ran(stub, "unpin", "spring")

    assert "window spring has 1 features and columns: Buyer.city" in pinned.output
    assert "deleted window spring" in unpinned.output
    assert stub.calls[0].json == {
        "name": "spring",
        "from": "2026-05-01T00:00:00+00:00",
        "to": "2026-05-02T00:00:00+00:00",
    }
    assert stub.calls[1].verb == "DELETE"


def test_instants_without_a_zone_and_two_references_are_refused(stub: Stub) -> None:
    client = Client(stub.url, "word")

    with pytest.raises(ArgumentsUnfit, match="either"):
        client.drift(training_set="a", window="b")
    assert ran(stub, "--from", "yesterday").exit_code == 2
    assert stub.calls == []

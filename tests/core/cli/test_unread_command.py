"""The command `narthex unread`: its request, and its table."""

from typing import Any

from typer.testing import CliRunner, Result

from narthex.cli import make_app
from tests.core.client.test_client import Stub, stub

__all__ = ["stub"]

LONG_AGO = "2026-01-02T10:00:00+00:00"
NEVER = {"is_certain": True, "last_read": None, "counted_since": LONG_AGO}
COSTS = {"rows": 1200, "history_bytes": 3 << 20, "index_bytes": None, "jobs": 3, "own_jobs": 2}
FOUND: dict[str, Any] = {
    "days": 60,
    "since": "2026-03-01T00:00:00+00:00",
    "datasets": [{"name": "Users", "owner": "ada", "read_through": None, **NEVER, **COSTS}],
    "featuresets": [
        {"name": "Buyer", "owner": "ada", "features": ["rank", "age"], "of": 6, **NEVER},
        {"name": "Card", "owner": "", "features": ["card"], "of": 1, **NEVER},
        {"name": "Trip", "owner": "", "features": ["late"], "of": 3, **NEVER},
    ],
    "branches": [
        {"name": "dev", "is_certain": False, "last_read": LONG_AGO, "counted_since": LONG_AGO}
        | {"jobs": 8, "own_jobs": 0}
    ],
}


def run(stub: Stub, *more: str) -> Result:
    return CliRunner().invoke(
        make_app(), ["unread", *more, "--url", stub.url, "--token", "t", "--branch", "dev"]
    )


def test_unread_entities_are_a_table_with_the_costs_that_are_known(stub: Stub) -> None:
    stub.answer("unread", FOUND)

    result = run(stub, "--days", "60")

    assert result.exit_code == 0, result.output
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["too", "recent", "branch", "dev", "2026-01-02", "2026-01-02", "8", "0"],
        *[
            [*["unread", "dataset", "Users", "2026-01-02"], "1200", "3.0", "MiB", "3", "2"],
            ["unread", "feature", "Buyer.rank", "2026-01-02"],
            ["unread", "feature", "Buyer.age", "2026-01-02"],
            ["unread", "featureset", "Card", "2026-01-02"],
            ["unread", "feature", "Trip.late", "2026-01-02"],
        ],
    ]
    assert "own jobs: those" in result.stderr
    (call,) = stub.calls
    assert (call.path, call.parameters) == ("unread", {"days": "60"})
    assert call.headers["x-narthex-branch"] == "dev"


def test_nothing_unread_is_a_sentence(stub: Stub) -> None:
    stub.answer("unread", FOUND | {"datasets": [], "featuresets": [], "branches": []})

    result = run(stub)

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == ["everything was read in the last 30 days"]

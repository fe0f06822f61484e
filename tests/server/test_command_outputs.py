"""The output of commands against a real server: JSON on request, else text, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from docs.render_commands import commands
from narthex._base import Json
from narthex.cli import make_app as make_cli
from tests.core.client.test_client import Stub, stub
from tests.guides.pages import blocks
from tests.server.conftest import TOKEN, House
from tests.server.test_guide import GUIDE, pytestmark, served

__all__ = ["pytestmark", "served", "stub"]

REPOSITORY = Path(__file__).parents[2]
HOURS = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-02T00:00:00Z")
CALLS: tuple[tuple[str, ...], ...] = (
    ("init", "shop"),
    ("dev", "--once", "--no-plan", "features.py"),
    ("check", "features.py"),
    ("plan", "features.py"),
    ("commit", "features.py"),
    ("commits",),
    ("commits", "1"),
    ("commits", "--dataset", "Orders"),
    ("commits", "--featureset", "Buyer"),
    ("rollback", "1"),
    ("shell", "features.py"),
    ("secret", "set", "a/b"),
    ("secret", "list"),
    ("secret", "delete", "a/b"),
    (
        *("connection", "set", "c", "Postgres", "host=h", "db_name=d"),
        *("--secret", "username=u", "--secret", "password=p"),
    ),
    ("connection", "list"),
    ("connection", "test", "c"),
    ("connection", "delete", "c"),
    ("policy", "check"),
    ("policy", "show"),
    ("alerts", "list"),
    ("alerts", "silence", "--for", "2h", "--reason", "broker"),
    ("branch", "init", "new"),
    ("branch", "clone", "dev"),
    ("branch", "list"),
    ("branch", "delete", "dev"),
    ("branch", "undelete", "dev"),
    ("branch", "protect", "dev"),
    ("token", "create", "ci", "--scope", "reader"),
    ("token", "list"),
    ("token", "rotate", "ci"),
    ("control-log",),
    ("control-log", "--verify"),
    ("offline", "list"),
    ("training-set", "list"),
    ("drift", "findings"),
    ("unread",),
    ("erasures", "list"),
    ("logs",),
    ("status",),
    ("down",),
)
"""Calls in their order: earlier ones make what later ones show."""

ANSWERED: dict[tuple[str, ...], tuple[str, Json]] = {
    ("query", "F.a", "--with", "F.b=1"): ("query", {"answers": {"F.a": [1]}, "F.a": [1]}),
    ("log", "shop", "orders", "--rows", "rows.jsonl"): ("log", {"unread": {"x": 1}}),
    ("approve", "c" * 8 + "-0000-0000-0000-" + "c" * 12): (
        "commits/cccccccc-0000-0000-0000-cccccccccccc/approve",
        {"warnings": ["late"], "differences": []},
    ),
    ("reject", "c" * 8 + "-0000-0000-0000-" + "c" * 12): (
        "commits/cccccccc-0000-0000-0000-cccccccccccc/reject",
        {"rejected": {"by": "ada", "at": "2026-01-01T00:00:00Z", "reason": ""}},
    ),
    ("queries",): ("logged_queries", {"queries": [], "searched": 0}),
    ("queries", "0.1"): (
        "logged_queries/0.1",
        {"given": {"F.a": [1]}, "answers": {"F.b": [2]}, "now": None, "why_not": "it is gone"},
    ),
    ("alerts", "test"): ("alerts/test", {"deliveries": [{"receiver": "ops", "delivered": True}]}),
    ("alerts", "unsilence", "s1"): ("alerts/silences/s1", {"silence_id": "s1"}),
    ("token", "revoke", "t1"): ("tokens/t1", {"token_id": "t1"}),
    ("late", "Orders"): ("datasets/Orders/late", {"rows": [], "total": 0, "next": None}),
    ("quarantine", "list", "Orders"): (
        "datasets/Orders/quarantine",
        {"rows": [], "total": 0, "next": None},
    ),
    ("quarantine", "show", "Orders", "r"): ("datasets/Orders/quarantine/r", {"row": "r"}),
    ("quarantine", "discard", "Orders", "r"): (
        "datasets/Orders/quarantine/discard",
        {"rows": [{"row": "r", "outcome": "discarded", "reason": None}]},
    ),
    ("quarantine", "replay", "Orders", "r"): (
        "datasets/Orders/quarantine/replay",
        {"rows": [{"row": "r", "outcome": "accepted", "reason": None}]},
    ),
    ("offline", "show", "q"): ("query_offline/status", {"request_id": "q", "share": 0.5}),
    ("offline", "cancel", "q"): ("query_offline/cancel", {"request_id": "q", "status": "x"}),
    ("training-set", "show", "t"): ("training_sets/t", {"name": "t", "statistics": {}}),
    ("training-set", "delete", "t", "--yes"): ("training_sets/t", {"name": "t"}),
    ("drift",): ("drift/comparison", {"drift": []}),
    ("drift", "pin", "w", *HOURS): ("drift/windows", {"features": ["F.a"]}),
    ("drift", "unpin", "w"): ("drift/windows/w", {"name": "w"}),
    ("erase", "Members", "--key", "a=b", "--yes"): (
        "dataset/Members/erase",
        {"erasure_id": "e", "state": "BLOCKED"},
    ),
    ("erasures", "show", "e"): ("erasures/e", {"erasure_id": "e", "certificate": {"a": 1}}),
    ("erasures", "verify", "certificate.json"): ("erasures/verify", {"is_valid": True}),
}
"""Calls that need a broker, stored rows or an approval, each with its prepared answer."""

ELSEWHERE = {
    "audit": "tests/expectations/test_command.py",
    "backup": "tests/wheels/test_installed.py",
    "diff": "tests/core/cli/test_diff_command.py",
    "keys list": "tests/server/security/test_key_commands.py",
    "keys retire": "tests/server/security/test_key_commands.py",
    "keys rotate": "tests/server/security/test_key_commands.py",
    "login": "tests/server/sso/test_login_command.py",
    "profile": "tests/acceptance/test_4_intervals.py",
    "prove": "tests/acceptance/test_2_rows.py",
    "restore": "tests/stack/operator/test_backups.py",
    "snapshots list": "tests/supervision/test_restore.py",
    "snapshots restore": "tests/supervision/test_restore.py",
    "snapshots take": "tests/supervision/test_restore.py",
    "summarize": "plugins/narthex_plugins/feature_drift.py",
    "supervisor": "tests/stores/test_process_logs.py",
    "up": "tests/stack/operator/test_stack.py",
    "upgrade": "tests/stack/upgrades/test_upgrades.py",
}
"""Commands whose JSON is parsed elsewhere, as they need more than a ledger."""


def run(call: tuple[str, ...], *more: str) -> Result:
    typed = "value\n" if call[:2] == ("secret", "set") else None
    return CliRunner().invoke(make_cli(), [*call, *more], input=typed)


def parsed(call: tuple[str, ...], text: str) -> list[Any]:
    """Return the document that a command printed, or the objects of its lines.

    The server of the test logs to the same stream, with its time first.
    """
    lines = [line for line in text.splitlines() if not line.startswith("20")]
    if call[0] in {"dev", "logs"}:
        return [json.loads(line) for line in lines]
    return [json.loads("\n".join(lines))]


def named(call: tuple[str, ...]) -> str:
    names = {" ".join(words) for words, _ in commands()}
    return next(one for one in (" ".join(call[:2]), call[0]) if one in names)


def test_every_command_is_called_by_a_test() -> None:
    names = {" ".join(words) for words, _ in commands()}
    called = {named(call) for call in (*CALLS, *ANSWERED)}

    assert names - called == ELSEWHERE.keys()
    for name, file in ELSEWHERE.items():
        text = (REPOSITORY / file).read_text(encoding="utf-8")
        assert "--json" in text or "log_json" in text, (name, file)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (features,) = blocks(GUIDE / "deploying.md", "python")
    (tmp_path / "features.py").write_text(features.text)
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "certificate.json").write_text('{"certificate": {}, "signature": "00"}')
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "logs").mkdir()
    (home / "logs" / "server.log").write_text("one\ntwo\n")
    monkeypatch.setenv("NARTHEX_HOME", str(home))
    monkeypatch.setenv("NARTHEX_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)


def test_commands_print_json_and_nothing_else_on_stdout(
    served: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NARTHEX_URL", served.services.settings.server_url)

    for call in CALLS:
        done = run(call, "--json")
        assert isinstance(done.exception, SystemExit | None), (call, done.exception)
        assert parsed(call, done.stdout), call


def test_commands_print_text_without_json(served: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NARTHEX_URL", served.services.settings.server_url)

    for call in CALLS:
        done = run(call)
        assert isinstance(done.exception, SystemExit | None), (call, done.exception)
        assert done.stdout or done.stderr, call
        assert not done.stdout.startswith(("{", "[")), (call, done.stdout)


@pytest.mark.parametrize("call", ANSWERED, ids=" ".join)
def test_answers_are_printed_as_json_and_as_text(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, call: tuple[str, ...]
) -> None:
    monkeypatch.setenv("NARTHEX_URL", stub.url)
    path, answer = ANSWERED[call]
    stub.answer(path, answer)

    as_json, text = run(call, "--json"), run(call)

    assert (as_json.exit_code, text.exit_code) == (0, 0), (as_json.exception, text.exception)
    assert parsed(call, as_json.stdout)
    assert text.stdout or text.stderr
    assert not text.stdout.startswith(("{", "["))

"""Every command of every package: its options, its exit codes, and what it prints if it fails."""

import ast
import io
import json
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from docs.render_commands import PAGE, commands, render_page
from narthex import cli
from narthex._base import Backoff
from narthex._server_calls import transport
from narthex.cli import GROUP
from narthex.cli.exit_codes import FINDINGS, ExitCode

LEAVES = {" ".join(words): command for words, command in commands()}
NOBODY = "http://127.0.0.1:1"
GIVEN = {
    "up": ["--only", "nothing"],
    "dev": ["--once", "--no-plan"],
    "erase": ["given", "--key", "id=1", "--yes"],
    "drift pin": ["given", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-02T00:00:00Z"],
    "diff": ["main", "dev", "--dataset", "D"],
    "alerts silence": ["--for", "2h", "--reason", "r"],
    "token create": ["given", "--scope", "reader"],
    "connection set": ["shop", "Postgres", "host=h"],
    "keys rotate": ["signing"],
    "quarantine replay": ["given", "--all"],
    "training-set delete": ["given", "--yes"],
    "audit": ["given"],
    "login": ["--url", ""],
}
"""Arguments of commands that need more than one word for each required argument."""


def options_of(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def test_every_command_prints_json_on_request() -> None:
    assert len(LEAVES) > 60
    assert {name for name, one in LEAVES.items() if "--json" not in options_of(one)} == set()


def test_the_page_of_commands_is_that_of_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_page(), "run `python -m docs.render_commands`"


def test_every_finding_is_of_a_command() -> None:
    assert FINDINGS.keys() <= LEAVES.keys()


def exits(file: Path) -> Iterator[str]:
    """Yield the calls `typer.Exit(…)` of a file whose code is a number."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"typer.Exit", "sys.exit"}:
            codes = [one for one in node.args if isinstance(one, ast.Constant)]
            yield from (f"{file}:{one.lineno}: {ast.unparse(node)}" for one in codes)


def test_no_command_exits_with_a_code_that_is_not_in_the_table() -> None:
    modules = [sys.modules[entry.load().__module__] for entry in metadata.entry_points(group=GROUP)]
    files = {Path(str(module.__file__)) for module in modules}
    files |= {*Path(cli.__file__).parent.rglob("*.py")}

    assert [found for file in sorted(files) for found in exits(file)] == []


def arguments_of(name: str, command: Any) -> list[str]:
    required = [
        "given" for one in command.params if one.param_type_name == "argument" and one.required
    ]
    return GIVEN.get(name, required)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["people", "json"])
@pytest.mark.parametrize("name", LEAVES)
def test_a_command_without_a_platform_fails_in_sentences(
    name: str,
    form: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    called = [*name.split(), *arguments_of(name, LEAVES[name]), *form]
    for key, value in {"NARTHEX_HOME": str(tmp_path / "home"), "NARTHEX_URL": NOBODY}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(transport, "RETRIES", Backoff(first_s=0.01, greatest_s=0.01))
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    monkeypatch.setattr(sys, "argv", ["narthex", *called])

    with pytest.raises(SystemExit) as ended:
        cli.main()

    shown = capfd.readouterr()
    assert ExitCode(int(ended.value.code or 0)) in {*ExitCode} - {ExitCode.USAGE}, shown.err
    assert "Traceback" not in shown.out + shown.err
    assert "a mistake of its own" not in shown.err
    assert shown.out + shown.err
    if form and shown.out:
        assert isinstance(json.loads(shown.out), dict | list)

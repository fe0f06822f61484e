"""The commands that `narthex --help` lists, without loading their packages."""

import subprocess
import sys
from importlib import metadata

import pytest
from typer.testing import CliRunner

from docs.render_commands import LIST, render
from narthex.cli import make_app
from narthex.cli.command_list import COMMANDS


def installed(monkeypatch: pytest.MonkeyPatch, entry: metadata.EntryPoint) -> None:
    found = {entry.group: [entry]}
    monkeypatch.setattr(metadata, "entry_points", lambda *, group: found[group])


def test_the_list_has_all_commands_of_all_packages() -> None:
    code = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "-"],
        input=render(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert LIST.read_text(encoding="utf-8") == code, "run `python -m docs.render_commands`"


def test_the_help_lists_all_commands_and_imports_no_package() -> None:
    script = (
        "import sys\n"
        "sys.argv = ['narthex', '--help']\n"
        "from narthex.cli import main\n"
        "try:\n    main()\n"
        "finally:\n"
        "    heavy = {'narthex_ledger', 'narthex_stack', 'narthex.client', 'polars', 'pyarrow'}\n"
        "    sys.stderr.write(' '.join(sorted(heavy & sys.modules.keys())))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stderr == ""
    shown = {line.split()[0] for line in done.stdout.partition("Commands:")[2].splitlines() if line}
    assert COMMANDS.keys() <= shown


def test_a_misspelt_command_is_answered_with_those_that_are_like_it() -> None:
    done = CliRunner().invoke(make_app(), ["comit"])

    assert done.exit_code == 2
    assert "Did you mean 'commit'" in done.output


def test_a_command_of_the_platform_names_the_package_that_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit = metadata.EntryPoint("commit", "narthex.cli.commits:register", "narthex.commands")
    installed(monkeypatch, commit)

    done = CliRunner().invoke(make_app(), ["up"])
    help_text = CliRunner().invoke(make_app(), ["--help"]).output

    assert done.exit_code == 2
    assert "`pip install 'narthex[platform]'`" in " ".join(done.output.split())
    shown = {line.split()[0] for line in help_text.partition("Commands:")[2].splitlines() if line}
    assert "commit" in shown
    assert not shown & {"up", "down", "supervisor", "prove", "audit"}


def test_the_version_is_that_of_the_installed_package() -> None:
    done = CliRunner().invoke(make_app(), ["--version"])

    assert (done.exit_code, done.output) == (0, f"narthex {metadata.version('narthex')}\n")


def test_a_command_reports_that_its_package_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = metadata.EntryPoint("stack", "narthex_gone.commands:register", "narthex.commands")
    installed(monkeypatch, broken)

    done = CliRunner().invoke(make_app(), ["up"])
    others = CliRunner().invoke(make_app(), ["comit"])

    assert done.exit_code == 3
    assert "the commands of `stack` cannot be loaded: No module named 'narthex_gone'" in done.stderr
    assert "No such command 'comit'" in others.stderr


def test_the_commands_of_other_packages_are_loaded_and_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = metadata.EntryPoint(
        "other", "tests.core.cli.other_commands:register", "narthex.commands"
    )
    installed(monkeypatch, other)

    listed = CliRunner().invoke(make_app(), ["--help"])
    done = CliRunner().invoke(make_app(), ["greet"])

    assert "greet  Greet whoever runs it." in listed.output
    assert (done.exit_code, done.output) == (0, "hello\n")

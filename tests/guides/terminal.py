"""A person who types the commands of a page, in the process of the test."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import attrs
import pytest
from typer.testing import CliRunner

from narthex.cli import make_app
from tests.guides.pages import ROOT, Block, Command, commands, sessions, shows

PROGRAMS: Final = {"pytest", "python", "uv"}
"""The programs that run beside `narthex`, each as a process of its own."""

WITHIN_S: Final = 180.0
_WAITS: Final = "waiting for changes"


@attrs.define(kw_only=True)
class Terminal:
    """A terminal in the present directory, with the variables of this process.

    Args:
        monkeypatch: Undoes changes of directories and variables.
        placeholders: What a reader types in the place of a word, such as `ID`, given what the
            command before has printed.
        refused: The commands that fail here and why: what they print has these words.
    """

    monkeypatch: pytest.MonkeyPatch
    placeholders: Mapping[str, Callable[[str], str]] = attrs.field(factory=dict)
    refused: Mapping[str, str] = attrs.field(factory=dict)
    said: dict[str, str] = attrs.field(factory=dict, init=False)
    """The output of each command."""

    def follows(self, page: Path, mark: str) -> int:
        """Type all blocks of a page with a mark; return how many outputs it shows.

        Raises:
            AssertionError: A command failed, or printed something else than the page shows.
        """
        found = sessions(page, mark)
        for block, shown in found:
            printed = self.types(block)
            assert shown is None or shows(shown, printed), f"{block.place} prints: {printed}"
        return sum(shown is not None for _, shown in found)

    def types(self, block: Block) -> str:
        """Type a block; return what is printed."""
        printed = ""
        for command in commands(block.text):
            last = self.said[next(reversed(self.said))] if self.said else ""
            text = self._run(command, last)
            self.said[command.text] = text
            printed += text
        return printed

    def _run(self, command: Command, last: str) -> str:
        program, *given = command.words
        arguments = [
            self.placeholders[word](last) if word in self.placeholders else word for word in given
        ]
        match program:
            case "cd":
                self.monkeypatch.chdir(*arguments)
                return ""
            case "narthex" if arguments[0] == "dev" and "--once" not in arguments:
                return _interrupted(command.words)
            case "narthex":
                code, stdout, printed = _narthex(arguments, command.variables)
            case _:
                code, stdout, printed = _process(program, arguments, command.variables)
        if reason := self.refused.get(command.text):
            assert code, f"{command.text} was not refused: {printed}"
            assert reason in printed, printed
        else:
            assert code == 0, f"{command.text}: {printed}"
        if command.output:
            Path(command.output).write_text(stdout, encoding="utf-8")
            return printed.replace(stdout, "")
        return printed


def _narthex(arguments: list[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
    done = CliRunner().invoke(make_app(), arguments, env=variables)
    failed = "" if done.exception is None else f"{done.exception}"
    return done.exit_code, done.stdout, done.output + failed


def path() -> str:
    """Return the directories of programs: those of this environment, and uv's, come first."""
    own = Path(sys.executable).parent
    return os.pathsep.join((str(own), str(own.parent / "uv" / "bin"), os.environ["PATH"]))


def _process(
    program: str, arguments: list[str], variables: Mapping[str, str]
) -> tuple[int, str, str]:
    assert program in PROGRAMS, f"{program} {shlex.join(arguments)} is not run here"
    done = subprocess.run(
        ["env", program, *arguments],
        env={**os.environ, "PATH": path(), **variables},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stdout + done.stderr


def _interrupted(words: list[str]) -> str:
    """Run a command that waits for changes until it waits, and then press Ctrl-C."""
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(
            ["env", *words],
            env={**os.environ, "PATH": path(), "PYTHONPATH": str(ROOT)},
            stdout=told,
            stderr=subprocess.STDOUT,
        )
        ends_at = time.monotonic() + WITHIN_S
        printed = ""
        while _WAITS not in printed and process.poll() is None and time.monotonic() < ends_at:
            time.sleep(0.05)
            told.seek(0)
            printed = told.read()
        process.send_signal(signal.SIGINT)
        process.wait(WITHIN_S)
    assert _WAITS in printed, printed
    assert "failed" not in printed, printed
    return printed

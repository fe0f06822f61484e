"""A shell that runs the commands of a page as they are written."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from tests.guides.terminal import path

WITHIN_S: Final = 300.0


def environment(home: Path, **variables: str) -> dict[str, str]:
    """Return the variables of a person whose commands call the installation of a home."""
    return os.environ | {
        "NARTHEX_HOME": str(home),
        "COLUMNS": "100",
        "PATH": path(),
        **variables,
    }


def replaced(lines: str, placeholders: Mapping[str, object]) -> str:
    """Put what a reader types into the place of words, such as `ID`.

    Raises:
        AssertionError: The lines do not have one of the words.
    """
    for word, value in placeholders.items():
        lines, count = re.subn(rf"\b{word}\b", str(value), lines)
        assert count, f"no {word} in {lines}"
    return lines


@attrs.frozen(kw_only=True)
class Shell:
    """A shell in a directory.

    Args:
        directory: The present directory of each call.
        variables: All variables that the commands see.
        within_s: The longest time of a call, in seconds.
    """

    directory: Path
    variables: Mapping[str, str]
    within_s: float = WITHIN_S

    def types(self, lines: str, *, answer: str = "", **placeholders: object) -> str:
        """Run lines until one fails; return what a terminal shows.

        Args:
            lines: The lines of a block, or some of them.
            answer: What a person types when a command asks.
            placeholders: What a person types in the place of words of the lines.

        Raises:
            AssertionError: A command failed.
        """
        return self._run(replaced(lines, placeholders), answer, subprocess.STDOUT)

    def prints(self, lines: str, *, answer: str = "", **placeholders: object) -> str:
        """Run lines as `types` does; return what they print on stdout, as a program reads it."""
        return self._run(replaced(lines, placeholders), answer, subprocess.PIPE)

    def _run(self, lines: str, answer: str, stderr: int) -> str:
        done = subprocess.run(
            ["bash", "-c", f"set -e -o pipefail\n{lines}"],
            cwd=self.directory,
            env=self.variables,
            input=answer,
            check=False,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=self.within_s,
        )
        assert done.returncode == 0, f"{lines}: {done.stdout}{done.stderr or ''}"
        return done.stdout

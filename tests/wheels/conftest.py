"""Wheels as `make wheels` builds them, and environments that have nothing of this checkout."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from tests.wheels.projects import PROJECTS, ROOT

UV = ROOT / ".venv" / "uv" / "bin" / "uv"
INSTALL_S = 400.0


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the three wheels."""
    directory = tmp_path_factory.mktemp("wheels")
    for project in PROJECTS:
        run(
            [str(UV), "build", "--quiet", "--wheel", "--out-dir", str(directory), "."],
            cwd=project.directory,
        )
    return directory


@attrs.frozen
class Environment:
    """A virtual environment that a person has installed wheels into, outside the checkout.

    Attributes:
        directory: Where commands run; it also has the home of the person.
    """

    directory: Path

    @property
    def bin(self) -> Path:
        return self.directory / "venv" / "bin"

    def run(
        self, *command: str, code: int | None = 0, text: str = "", within_s: float = 120.0
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program; the process sees neither the checkout nor settings of this process."""
        found = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.directory,
            env=self.variables,
            input=text,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
        assert code is None or found.returncode == code, f"{command}: {found.stdout}{found.stderr}"
        return found

    @property
    def variables(self) -> dict[str, str]:
        kept = ("PATH", "LANG", "SSL_CERT_FILE", "http_proxy", "https_proxy", "no_proxy")
        home = {"HOME": str(self.directory), "NARTHEX_CACHE": str(_cache())}
        return {name: os.environ[name] for name in kept if name in os.environ} | home


def _cache() -> Path:
    """The jars of the tests' other platforms, so that they are not downloaded again."""
    named = os.environ.get("NARTHEX_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "narthex"


def install(directory: Path, wheels: Path, names: Sequence[str]) -> Environment:
    """Make an environment with some of the wheels, and the versions of the lock file."""
    python = str(directory / "venv" / "bin" / "python")
    run([str(UV), "venv", "--quiet", "--python", sys.executable, str(directory / "venv")])
    options = ["--constraint", str(ROOT / "requirements.lock"), "--find-links", str(wheels)]
    run([str(UV), "pip", "install", "--quiet", "--python", python, *options, *names])
    run([str(UV), "pip", "check", "--quiet", "--python", python])
    return Environment(directory)


def run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_S, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

"""The wheel and environments as the pages make them, which have nothing of this checkout."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Final

import attrs
import pytest

from tests.guides.pages import README, blocks
from tests.guides.shell import Shell
from tests.wheels.declared_project import NARTHEX, ROOT

UV: Final = ROOT / ".venv" / "uv" / "bin" / "uv"
LOCK: Final = ROOT / "requirements.lock"
INSTALL_S: Final = 400.0


class Pip(Enum):
    """The program `pip` of an environment.

    For the whole platform pip needs more than eight minutes, and uv a few seconds.
    """

    PIP = "pip"
    UV = "uv"


def lines_of_readme() -> tuple[str, str, str, str]:
    """Return the README's lines: build, and install for authors, for the platform, for Airflow."""
    (found,) = blocks(README, "sh wheels")
    build, authors, platform, airflow = found.text.splitlines()
    return build, authors, platform, airflow


@pytest.fixture(scope="session")
def wheel() -> Path:
    """The wheel, which the README's line builds in this checkout."""
    build, *_ = lines_of_readme()
    # This process may itself be started by `make`, whose variables change what `make` prints.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    printed = Shell(directory=ROOT, variables=outside, within_s=INSTALL_S).types(build)
    assert printed.splitlines()[-1] == NARTHEX.wheel_name
    (built,) = (ROOT / "build" / "wheel").glob("*.whl")
    return built


@attrs.frozen
class Environment:
    """A virtual environment that a person has installed wheels into, outside the checkout.

    Attributes:
        directory: Where commands run; it also has the home of the person.
        home: The home of the installation; None for the one that commands take by themselves.
    """

    directory: Path
    home: Path | None = None

    @property
    def bin(self) -> Path:
        return self.directory / "venv" / "bin"

    def run(
        self, *command: str, code: int | None = 0, text: str = "", within_s: float = 300.0
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

    def installs(self, *requirements: str) -> str:
        """Install further packages into it; return what the program refused, if it did."""
        python = ["--quiet", "--python", str(self.bin / "python")]
        done = subprocess.run(
            [str(UV), "pip", "install", *python, *requirements],
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
        assert (done.returncode == 0) is (done.stderr == ""), done.stderr
        return done.stderr

    @property
    def variables(self) -> dict[str, str]:
        kept = ("PATH", "LANG", "SSL_CERT_FILE", "http_proxy", "https_proxy", "no_proxy")
        own = {"HOME": str(self.directory), "NARTHEX_CACHE": str(_cache())}
        if self.home is not None:
            own["NARTHEX_HOME"] = str(self.home)
        return {name: os.environ[name] for name in kept if name in os.environ} | own

    @property
    def shell(self) -> Shell:
        """A shell of the person, which finds the programs of the environment first."""
        variables = self.variables
        variables["PATH"] = f"{self.bin}{os.pathsep}{variables['PATH']}"
        return Shell(directory=self.directory, variables=variables, within_s=INSTALL_S)


def _cache() -> Path:
    """The jars of the tests' other platforms, so that they are not downloaded again."""
    named = os.environ.get("NARTHEX_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "narthex"


def install(
    directory: Path, line: str, *, by: Pip = Pip.UV, at: Path = ROOT, more: Sequence[str] = ()
) -> Environment:
    """Make an environment, and type a line that installs wheels into it.

    Args:
        directory: The directory of the environment.
        line: The line of a page.
        by: The program that the line finds as `pip`.
        at: The present directory.
        more: Packages that are installed as well.
    """
    environment, programs = Environment(directory), directory / "programs"
    programs.mkdir()
    match by:
        case Pip.PIP:
            run([sys.executable, "-m", "venv", str(directory / "venv")])
            (programs / "pip").symlink_to(environment.bin / "pip")
        case Pip.UV:
            run([str(UV), "venv", "--quiet", "--python", sys.executable, str(directory / "venv")])
            (programs / "pip").write_text(f'#!/bin/sh\nexec {UV} pip "$@"\n', encoding="utf-8")
            (programs / "pip").chmod(0o755)
    # pip refuses constraints with hashes for a file, which has none.
    versions = re.sub(r" *\\\n *--hash=\S+", "", LOCK.read_text(encoding="utf-8"))
    (directory / "constraints.txt").write_text(versions, encoding="utf-8")
    variables = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(directory / "venv"),
        "PIP_CONSTRAINT": str(directory / "constraints.txt"),
        "PIP_NO_COMPILE": "1",
        "UV_CONSTRAINT": str(LOCK),
    }
    Shell(directory=at, variables=variables, within_s=INSTALL_S).types(line)
    python = ["--quiet", "--python", str(environment.bin / "python")]
    if more:
        run([str(UV), "pip", "install", *python, "--constraint", str(LOCK), *more])
    run([str(UV), "pip", "check", *python])
    return environment


def run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_S, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

"""The environments of the compared systems and of the plots; they do not contain Narthex."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.running import say

PACKAGES = (
    "duckdb==2.0.0",
    "quixstreams==3.28.1",
    "bytewax==0.21.1",
    "matplotlib==3.11.2",
    "fastavro",
    "lmdb",
    "msgspec",
)
FEAST = ("feast[redis,duckdb]==0.67.0",)
"""Feast needs older versions of some packages, so it has an environment of its own."""

ENVIRONMENTS = Path(__file__).resolve().parents[1] / "build" / "bench"


def peers_python() -> Path:
    """Return the Python of the compared systems.

    Raises:
        CalledProcessError: A package could not be installed.
    """
    return _python_of("peers", PACKAGES)


def feast_python() -> Path:
    """Return the Python of Feast.

    Raises:
        CalledProcessError: A package could not be installed.
    """
    return _python_of("feast", FEAST)


def _python_of(name: str, packages: Sequence[str]) -> Path:
    """Create an environment if it is missing or has other packages; return its Python."""
    place = ENVIRONMENTS / name
    python, wanted = place / "bin" / "python", place / "installed"
    listed = " ".join(packages)
    if not wanted.exists() or wanted.read_text() != listed:
        say(f"installing {listed}")
        place.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        command = [str(python), "-m", "pip", "install", "--quiet", *packages]
        subprocess.run(command, check=True)
        wanted.write_text(listed)
    return python

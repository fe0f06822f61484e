"""An environment with the peer's client, unmodified; it does not contain Narthex."""

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.peer.wheel import SHA256, cache, fetch

FASTER: Final = Path(__file__).with_name("faster_sources.py")


def peers_python() -> Path:
    """Return the environment's Python; create it once, in the user's cache directory.

    Raises:
        WrongWheel: The client's wheel has another hash.
        CalledProcessError: A package could not be installed.
    """
    home = cache() / f"client-py{sys.version_info.major}.{sys.version_info.minor}"
    home.mkdir(parents=True, exist_ok=True)
    python, installed = home / "bin" / "python", home / "installed"
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not installed.exists() or installed.read_text() != SHA256:
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            command = [str(python), "-m", "pip", "install", "--quiet", str(fetch(cache()))]
            subprocess.run([*command, "--disable-pip-version-check"], check=True)
            installed.write_text(SHA256)
    return python


def peers_command(script: Path, *arguments: str) -> list[str]:
    """Return the command of a script in that environment, with an `inspect` that remembers."""
    return [str(peers_python()), "-P", str(FASTER), str(script), *arguments]

"""The environment of the compared systems and of the plots; it does not contain Narthex."""

import subprocess
import sys
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
PEERS = Path(__file__).resolve().parents[1] / "build" / "bench" / "peers"


def peers_python() -> Path:
    """Return its Python; create the environment if it is missing or has other packages.

    Raises:
        CalledProcessError: A package could not be installed.
    """
    python, wanted = PEERS / "bin" / "python", PEERS / "installed"
    packages = " ".join(PACKAGES)
    if not wanted.exists() or wanted.read_text() != packages:
        say(f"installing {packages}")
        PEERS.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
        command = [str(python), "-m", "pip", "install", "--quiet", *PACKAGES]
        subprocess.run(command, check=True)
        wanted.write_text(packages)
    return python

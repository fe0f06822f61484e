"""The peer's tests, unmodified: downloaded by pip, checked by hash, and stored elsewhere."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

REQUIREMENT: Final = "fennel-ai==1.5.80"
FILE: Final = "fennel_ai-1.5.80-py3-none-any.whl"
SHA256: Final = "16cdc02a588bacc6687bff191a7f63f03e24e17a850c22fff17d94fc6bc71dbe"
TESTS: Final = "fennel/client_tests/"
"""The only part of the wheel that is used."""


class WrongWheel(Exception):
    """The file that pip downloaded has another hash."""


def cache() -> Path:
    """Return the user's own cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "narthex" / "peer"


def fetch(into: Path) -> Path:
    """Return the wheel, downloaded once.

    Raises:
        WrongWheel: It has another hash.
        CalledProcessError: pip could not fetch it.
    """
    wheel = into / FILE
    if not wheel.exists():
        into.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--dest", str(into), REQUIREMENT]
        subprocess.run(command, check=True)
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != SHA256:
        raise WrongWheel(f"{wheel} has the hash {found}; expected {SHA256}")
    return wheel


def unpack(wheel: Path, into: Path) -> Path:
    """Lay out the tests and their data, and nothing else, in an empty directory; return theirs."""
    shutil.rmtree(into, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into, [name for name in archive.namelist() if name.startswith(TESTS)])
    return into / TESTS

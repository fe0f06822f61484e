"""The process that builds one environment: it fetches wheels with pip, and unpacks them.

It has neither the variables nor the files of the server: it reads Python, its libraries, the
machine's certificates and the directory of wheels, writes to its own directory, and connects to
others only for an index. No code of a package runs, as only wheels are fetched and their modules
are compiled, not imported.
"""

import compileall
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import attrs

import narthex
from narthex._runtime.confinement.kernel import KernelRefusalError, die_with_parent
from narthex._runtime.confinement.landlock import lock_files
from narthex._runtime.confinement.privileges import refuse_privileges
from narthex._runtime.environments.directories import PACKAGES, libraries
from narthex._runtime.environments.shadowing import shadowed_modules
from narthex._runtime.environments.wheel_files import (
    MOST_BYTES,
    Room,
    WheelRefusedError,
    opened_to_all,
    unpack,
)

FETCHED_WITHIN_S: Final = 480.0
"""How long pip may take."""

_MEMORY_BYTES: Final = 4 << 30
_CERTIFICATES: Final = "certificates.pem"
_LAST_LINES: Final = 12
_READ_BY_RESOLVERS: Final = ("/etc", "/usr", "/lib", "/lib64", "/bin", "/run/systemd/resolve")
_DEVICES: Final = ("/dev/null", "/dev/urandom")
_CREDENTIALS: Final = re.compile(r"://[^/@\s]*@")


class FetchFailedError(RuntimeError):
    """Pip did not fetch all wheels; the message has its last lines."""


@attrs.frozen(kw_only=True)
class Order:
    """A request for an environment.

    Attributes:
        lock: The lines of a lock, without options.
        index: An address of a package index, or a directory of wheels.
        directory: An empty directory, for all that the process writes.
        ca_file: Certificates for the index; empty for those that the machine trusts.
        is_reduced: Whether it may work where the kernel has no Landlock.
    """

    lock: str
    index: str
    directory: str
    ca_file: str = ""
    is_reduced: bool = False


def main() -> None:
    """Build what standard input asks for; print an object with the key `error` if that fails."""
    die_with_parent()
    order = Order(**json.load(sys.stdin))
    try:
        _build(order)
    except (FetchFailedError, WheelRefusedError, KernelRefusalError) as error:
        print(json.dumps({"error": _CREDENTIALS.sub("://…@", str(error))}))  # noqa: T201
    else:
        print(json.dumps({}))  # noqa: T201


def _build(order: Order) -> None:
    directory = Path(order.directory)
    lock, wheels, packages = directory / "lock.txt", directory / "wheels", directory / PACKAGES
    for made in (wheels, packages, directory / "scratch"):
        made.mkdir()
    with lock.open("x", encoding="utf-8") as file:
        file.write(f"{_index_options(order)}\n{order.lock}")
    if order.ca_file:  # a copy, as its directory may be that of keys
        shutil.copyfile(order.ca_file, directory / _CERTIFICATES)
    _confine(order)
    if order.lock:
        _fetch(order, lock, wheels)
    room = Room()
    for wheel in sorted(wheels.iterdir()):
        _require_locked(wheel, order.lock)
        unpack(wheel, packages, room)
        wheel.unlink()
    shadowed = [*shadowed_modules(packages, libraries())]
    if shadowed:
        raise WheelRefusedError(
            f"the packages have the modules {', '.join(map(repr, shadowed[:10]))}, which Python or "
            "the platform has too"
        )
    compileall.compile_dir(packages, quiet=2, workers=1)
    opened_to_all(packages)
    os.sync()


def _confine(order: Order) -> None:
    for what, most in (
        (resource.RLIMIT_AS, _MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, MOST_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
    is_directory = order.index.startswith("/")
    readable = [
        *_READ_BY_RESOLVERS,
        sys.prefix,
        sys.base_prefix,
        str(Path(next(iter(narthex.__path__)))),
        *([order.index] if is_directory else []),
    ]
    try:
        refuse_privileges()
        lock_files(readable, [order.directory, *_DEVICES], has_network=not is_directory)
    except KernelRefusalError:
        if not order.is_reduced:
            raise


def _fetch(order: Order, lock: Path, wheels: Path) -> None:
    """Download the wheels of a lock that fit this machine.

    Raises:
        FetchFailedError: One is missing, or has another hash.
    """
    scratch = lock.parent / "scratch"
    command = [
        *(sys.executable, "-I", "-m", "pip", "--isolated", "--no-input", "--no-cache-dir"),
        *("--disable-pip-version-check", "--retries", "2", "--timeout", "20"),
        *(["--cert", f"{order.directory}/{_CERTIFICATES}"] if order.ca_file else []),
        *("download", "--require-hashes", "--only-binary", ":all:", "--no-deps"),
        *("--progress-bar", "off", "--dest", str(wheels), "--requirement", str(lock)),
    ]
    try:
        done = subprocess.run(
            command,
            input="",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=FETCHED_WITHIN_S,
            env={"HOME": order.directory, "TMPDIR": str(scratch), "LANG": "C.UTF-8"},
            cwd=order.directory,
            check=False,
            preexec_fn=die_with_parent,
        )
    except subprocess.TimeoutExpired:
        raise FetchFailedError(f"pip took longer than {FETCHED_WITHIN_S:.0f} s") from None
    if done.returncode:
        raise FetchFailedError(_last_lines(done.stdout) or f"pip exited with {done.returncode}")


def _index_options(order: Order) -> str:
    """Return the options of the index for pip's file: other accounts can see arguments."""
    if order.index.startswith("/"):
        return f"--no-index\n--find-links {shlex.quote(order.index)}"
    return f"--index-url {shlex.quote(order.index)}" if order.index else "--no-index"


def _last_lines(text: str) -> str:
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(line[:300] for line in lines[-_LAST_LINES:])


def _require_locked(wheel: Path, lock: str) -> None:
    """Require that a file is a wheel with a hash of the lock, whoever has fetched it."""
    with wheel.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if wheel.suffix != ".whl" or f"--hash=sha256:{digest}" not in lock:
        raise WheelRefusedError(f"`{wheel.name}` is not a wheel of the lock")


if __name__ == "__main__":
    main()

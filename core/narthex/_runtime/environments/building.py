"""Build environments: each once, whole or not at all, however many processes build it."""

import errno
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import attrs

from narthex._ir.code import LockedPackage, environment_name, render_lock
from narthex._runtime.environments.build_process import FETCHED_WITHIN_S, Order
from narthex._runtime.environments.directories import (
    PACKAGES,
    environments_directory,
    lacking,
)
from narthex.settings import REDUCED, ProjectPlaces, Settings

BUILT_WITHIN_S: Final = FETCHED_WITHIN_S + 120.0
"""How long a build may take."""
MOST_ENVIRONMENTS: Final = 200
"""The most environments of an installation; a further one is refused."""

_UNFINISHED: Final = ".building-"
_MODULE: Final = "narthex._runtime.environments.build_process"
_THERE: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY})


class BuildFailedError(RuntimeError):
    """An environment cannot be built; the message has the last lines of pip, or the reason."""


@attrs.frozen(kw_only=True)
class PackageSource:
    """Where environments are built, and from what.

    Attributes:
        home: The state directory of the installation.
        index: An address of a package index, or a directory of wheels.
        ca_file: Certificates for the index; empty for those that the machine trusts.
        is_reduced: Whether builds may work where the kernel has no Landlock.
    """

    home: Path
    index: str = attrs.field(repr=False)
    ca_file: str = ""
    is_reduced: bool = False

    @classmethod
    def of(cls, installation: Settings | ProjectPlaces) -> "PackageSource":
        """Return where an installation builds environments, and from what."""
        return cls(
            home=installation.home,
            index=installation.package_index,
            ca_file=installation.ca_file,
            is_reduced=installation.sandbox == REDUCED,
        )


def is_built(packages: tuple[LockedPackage, ...], home: Path) -> bool:
    """Whether the environment of some packages is on this machine; always for none."""
    name = environment_name(packages)
    return not name or (environments_directory(home) / name / PACKAGES).is_dir()


def build(packages: tuple[LockedPackage, ...], source: PackageSource) -> None:
    """Build the environment of some packages, if it is not there.

    Those that the platform has are left out. Another process that builds the same environment at
    the same time does no harm: the first wins.

    Args:
        packages: The packages of a lock.
        source: Where it is built, and from what.

    Raises:
        BuildFailedError: It cannot be built, or there are too many environments.
    """
    if is_built(packages, source.home):
        return
    above = environments_directory(source.home)
    above.mkdir(mode=0o755, parents=True, exist_ok=True)
    _remove_unfinished(above)
    if sum(not one.name.startswith(".") for one in above.iterdir()) >= MOST_ENVIRONMENTS:
        raise BuildFailedError(
            f"there are {MOST_ENVIRONMENTS} environments in `{above}`; remove some that are "
            "no longer used, which have the oldest times of change"
        )
    place = above / f"{_UNFINISHED}{secrets.token_hex(8)}"
    place.mkdir(mode=0o700)
    try:
        _run(
            Order(
                lock=render_lock(lacking(packages)),
                index=source.index,
                directory=str(place),
                ca_file=source.ca_file,
                is_reduced=source.is_reduced,
            )
        )
        _keep(place, above / environment_name(packages))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _run(order: Order) -> None:
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", "-m", _MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={"LANG": "C.UTF-8", "HOME": order.directory},
        cwd=order.directory,
        start_new_session=True,
    )
    try:
        answer, _ = process.communicate(json.dumps(attrs.asdict(order)), timeout=BUILT_WITHIN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise BuildFailedError(f"the build took longer than {BUILT_WITHIN_S:.0f} s") from None
    try:
        found = json.loads(answer)
    except ValueError:
        raise BuildFailedError(f"the build ended with status {process.returncode}") from None
    if "error" in found:
        raise BuildFailedError(str(found["error"]))


def _keep(place: Path, target: Path) -> None:
    """Move a finished environment to its place, in one step; one that is there stays."""
    whole = place / "environment"
    whole.mkdir(mode=0o755)
    (place / PACKAGES).rename(whole / PACKAGES)
    try:
        whole.rename(target)
    except OSError as error:
        if error.errno not in _THERE:
            raise BuildFailedError(f"`{target}` cannot be written: {error.strerror}") from None


def _remove_unfinished(above: Path) -> None:
    """Remove what builds have left that were killed."""
    oldest = time.time() - 2 * BUILT_WITHIN_S  # noqa: TID251 (the clock of files)
    for found in above.glob(f"{_UNFINISHED}*"):
        try:
            if found.stat().st_mtime < oldest:
                shutil.rmtree(found, ignore_errors=True)
        except FileNotFoundError:
            continue

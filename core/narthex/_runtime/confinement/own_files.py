"""The process's own root directory, which contains only its libraries, read-only."""

import os
import struct

from narthex._runtime.confinement.kernel import mount, system_call, unmount

_BIND, _REC, _PRIVATE, _SLAVE = 1 << 12, 1 << 14, 1 << 18, 1 << 19
_NOSUID, _NODEV, _NOEXEC = 2, 4, 8
_DETACH = 2
_SET_ATTRIBUTES = 442
_RECURSIVE = 0x8000
_READ_ONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_PLACE = "/tmp"  # noqa: S108 (a directory of each system, covered in our mount namespace only)


def keep_libraries(readable: list[str]) -> None:
    """Leave all files except the libraries; the process has its own mount namespace.

    Raises:
        OSError: The kernel refused.
    """
    mount("none", "/", None, _REC | _PRIVATE)
    # Opened first, because the new root covers a directory that may contain some of them.
    places = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in outermost(readable)]
    mount("none", _PLACE, "tmpfs", _NOSUID | _NODEV | _NOEXEC, "mode=755,size=1m")
    for path, place in places:
        target = f"{_PLACE}{path}"
        os.makedirs(target, mode=0o755, exist_ok=True)  # noqa: PTH103
        mount(f"/proc/self/fd/{place}", target, None, _BIND | _REC)
        _make_read_only(target)
        os.close(place)
    _make_read_only(_PLACE)
    os.chdir(_PLACE)
    system_call("pivot_root", b".", b".")
    mount("none", ".", None, _REC | _SLAVE)
    unmount(".", _DETACH)
    os.chdir("/")


def outermost(paths: list[str]) -> list[str]:
    """Return the existing directories, under their names and under their resolved paths.

    A directory below another one is left out.
    """
    exist = {
        name
        for path in paths
        if os.path.isdir(path)  # noqa: PTH112
        for name in (os.path.abspath(path), os.path.realpath(path))  # noqa: PTH100
    }
    kept: list[str] = []
    for path in sorted(exist):
        if not any(path.startswith(f"{above}/") for above in kept):
            kept.append(path)
    return kept


def _make_read_only(target: str) -> None:
    wanted = struct.pack("=QQQQ", _READ_ONLY | _ATTR_NOSUID | _ATTR_NODEV, 0, 0, 0)
    system_call(_SET_ATTRIBUTES, -100, target.encode(), _RECURSIVE, wanted, len(wanted))

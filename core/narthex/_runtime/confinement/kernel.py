"""Kernel calls that Python's standard library lacks."""

import ctypes
import os
import platform
import struct

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_SECCOMP = 22
PR_SET_SECUREBITS = 28
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

MACHINE = platform.machine()
_LIBC = ctypes.CDLL(None, use_errno=True)
_NUMBERS = {
    "x86_64": {"capget": 125, "capset": 126, "pivot_root": 155},
    "aarch64": {"capget": 90, "capset": 91, "pivot_root": 41},
}
CAPABILITY_HEADER = struct.pack("=Ii", 0x20080522, 0)
"""The header of the newest version, for this process."""


class KernelRefusalError(OSError):
    """The kernel refused a call."""


def prctl(option: int, *values: int) -> int:
    """Change a setting of the process.

    Raises:
        KernelRefusalError: The kernel refused.
    """
    padded = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    return _done(int(_LIBC.prctl(option, *padded)))


def unshare(flags: int) -> None:
    """Move the process to its own namespaces.

    Raises:
        KernelRefusalError: The kernel refused.
    """
    _done(int(_LIBC.unshare(flags)))


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount a file system.

    Raises:
        KernelRefusalError: The kernel refused.
    """
    texts = [None if one is None else one.encode() for one in (source, target, kind, data)]
    _done(int(_LIBC.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])))


def unmount(target: str, flags: int) -> None:
    """Remove a mount.

    Raises:
        KernelRefusalError: The kernel refused.
    """
    _done(int(_LIBC.umount2(target.encode(), flags)))


def system_call(number: int | str, *values: object) -> int:
    """Make a system call by its number, or by name where the number differs between machines.

    Raises:
        KernelRefusalError: The kernel refused.
    """
    found = _NUMBERS.get(MACHINE, {}).get(number, -1) if isinstance(number, str) else number
    padded = [ctypes.c_long(one) if isinstance(one, int) else one for one in values]
    return _done(int(_LIBC.syscall(ctypes.c_long(found), *padded)))


def capabilities() -> int:
    """Return the first 32 effective capabilities of this process, as bits.

    Raises:
        KernelRefusalError: The kernel refused.
    """
    held = ctypes.create_string_buffer(24)
    system_call("capget", CAPABILITY_HEADER, held)
    return int(struct.unpack_from("=I", held.raw)[0])


def set_host_name() -> None:
    """Hide the machine's name from a process that has its own namespace of host names.

    Raises:
        KernelRefusalError: The kernel refused.
    """
    name = b"worker"
    _done(int(_LIBC.sethostname(name, len(name))))


def die_with_parent() -> None:
    """Make the kernel kill this process when the thread that started it ends."""
    prctl(PR_SET_PDEATHSIG, 9)


def _done(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise KernelRefusalError(number, os.strerror(number))
    return result

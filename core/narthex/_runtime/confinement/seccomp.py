"""The filter of system calls: the kernel allows the listed calls and refuses all others."""

import ctypes
import errno
import os
import struct

from narthex._runtime.confinement.kernel import MACHINE, PR_SET_SECCOMP, KernelRefusalError, prctl
from narthex._runtime.confinement.system_calls import ALLOWED, ARCHITECTURES, CHECKED, NEWEST

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_PASS, _KILL = 0x7FFF0000, 0x80000000
_REFUSE, _UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
_NUMBER, _ARCHITECTURE = 0, 4
_FILTER = 2

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | 0o20000000
_WRITE, _EXECUTE, _ANONYMOUS = 2, 4, 0x20
_TERMINAL_QUESTIONS = (0x5401, 0x5413, 0x541B, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONCLEX, FIOCLEX."""
_DESCRIPTOR_COMMANDS = (0, 1, 2, 3, 1030)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC."""


def filter_system_calls() -> None:
    """Load the filter, which remains until the process ends.

    Raises:
        KernelRefusalError: The kernel has no such filters, or the machine no list of calls.
    """
    if MACHINE not in ALLOWED:
        raise KernelRefusalError(errno.ENOSYS, f"there is no list of system calls for {MACHINE}")
    lines = b"".join(program(MACHINE, own=os.getpid()))
    buffer = ctypes.create_string_buffer(lines, len(lines))
    loaded = struct.pack("@HP", len(lines) // 8, ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(loaded, len(loaded))
    prctl(PR_SET_SECCOMP, _FILTER, ctypes.addressof(holder))


def program(machine: str, *, own: int) -> list[bytes]:
    """Return the filter of a machine for the process with the identifier `own`.

    A call of a wrong architecture kills the process. An unlisted call fails with EPERM, a call that
    is newer than the list with ENOSYS, so that libraries use the older one.
    """
    lines = [
        _line(_LOAD, _ARCHITECTURE),
        _line(_EQUAL, ARCHITECTURES[machine], 1, 0),
        _line(_RETURN, _KILL),
        _line(_LOAD, _NUMBER),
        _line(_AT_LEAST, NEWEST + 1, 0, 1),
        _line(_RETURN, _UNKNOWN),
    ]
    for number in ALLOWED[machine].values():
        lines += [_line(_EQUAL, number, 0, 1), _line(_RETURN, _PASS)]
    checks = _checks(own)
    for name, number in CHECKED[machine].items():
        lines += [_line(_EQUAL, number, 0, len(checks[name])), *checks[name]]
    return [*lines, _line(_RETURN, _REFUSE)]


def _checks(own: int) -> dict[str, list[bytes]]:
    return {
        "open": _without(1, _WRITING),
        "openat": _without(2, _WRITING),
        "mprotect": _without(2, _EXECUTE),
        "mmap": [
            _line(_LOAD, _low(2)),
            _line(_ANY_BIT, _EXECUTE, 0, 3),
            _line(_ANY_BIT, _WRITE, 3, 0),
            _line(_LOAD, _low(3)),
            _line(_ANY_BIT, _ANONYMOUS, 1, 0),
            _line(_RETURN, _PASS),
            _line(_RETURN, _REFUSE),
        ],
        "ioctl": _one_of(1, _TERMINAL_QUESTIONS),
        "fcntl": _one_of(1, _DESCRIPTOR_COMMANDS),
        "sched_getaffinity": _one_of(0, (0, own)),
        # The process may read its own limits but not set them.
        "prlimit64": [
            _line(_LOAD, _low(0)),
            _line(_EQUAL, 0, 0, 5),
            _line(_LOAD, _low(2)),
            _line(_EQUAL, 0, 0, 3),
            _line(_LOAD, _low(2) + 4),
            _line(_EQUAL, 0, 0, 1),
            _line(_RETURN, _PASS),
            _line(_RETURN, _REFUSE),
        ],
    }


def _without(argument: int, bits: int) -> list[bytes]:
    return [
        _line(_LOAD, _low(argument)),
        _line(_ANY_BIT, bits, 0, 1),
        _line(_RETURN, _REFUSE),
        _line(_RETURN, _PASS),
    ]


def _one_of(argument: int, values: tuple[int, ...]) -> list[bytes]:
    lines = [_line(_LOAD, _low(argument))]
    for value in values:
        lines += [_line(_EQUAL, value, 0, 1), _line(_RETURN, _PASS)]
    return [*lines, _line(_RETURN, _REFUSE)]


def _low(argument: int) -> int:
    """Return the offset of an argument's lower half, on machines that store it first."""
    return 16 + 8 * argument


def _line(code: int, value: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, value)

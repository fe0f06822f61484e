"""What a worker gives up before it runs code of an author; each step is tried, and told.

This file runs inside the worker and needs nothing but Python. The kernel is asked for: death with
the parent, no new privileges, a network of its own without interfaces (namespaces), reading only
below the libraries (Landlock), and a filter of system calls (seccomp): no sockets, no processes
or threads, no file opened for writing. Limits of memory and files stand beside them.
"""

import ctypes
import os
import platform
import resource
import struct
import sys

PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SIGKILL = 9
CLONE_NEWNET = 0x40000000
CLONE_NEWUSER = 0x10000000

_LIBC = ctypes.CDLL(None, use_errno=True)

# What is refused, by the machine's numbers of it: sockets, processes, threads, signals, tracing,
# mounts, namespaces, changes of files, and calls with a history of kernel holes.
_REFUSED = {
    "x86_64": (
        *(41, 42, 43, 44, 46, 49, 50, 53, 288),
        *(56, 57, 58, 59, 322, 62, 200, 234, 424, 434),
        *(101, 310, 311, 312, 165, 166, 155, 161, 272, 308, 428, 429, 430, 431, 432, 442),
        *(76, 77, 82, 83, 84, 85, 86, 87, 88, 90, 91, 92, 93, 94, 133),
        *(258, 259, 260, 263, 264, 265, 266, 268, 316, 319),
        *(321, 248, 249, 250, 323, 298, 425, 426, 427, 175, 313, 246, 320, 169),
    ),
    "aarch64": (
        *(198, 199, 200, 201, 202, 203, 206, 211, 242),
        *(220, 221, 281, 129, 130, 131, 424, 434),
        *(117, 270, 271, 272, 40, 39, 41, 51, 97, 268, 428, 429, 430, 431, 432, 442),
        *(45, 46, 38, 276, 34, 35, 36, 37, 33, 52, 53, 54, 55, 279),
        *(280, 217, 218, 219, 282, 241, 425, 426, 427, 105, 273, 104, 294, 142),
    ),
}
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_OPEN = {"x86_64": ((2, 1), (257, 2)), "aarch64": ((56, 2),)}
"""Calls that open a file, with the position of their flags."""
_NEW_CALLS = (435, 437)
"""clone3 and openat2, whose arguments cannot be seen: libraries fall back to the older ones."""

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _REFUSE, _UNKNOWN, _KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_X32_BIT = 0x40000000

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_ALL = (1 << 13) - 1
_LANDLOCK_READ = (1 << 0) | (1 << 2) | (1 << 3)


def enter(readable: list[str], memory_bytes: int) -> dict[str, str]:
    """Give up everything but computing; say what the kernel granted, step by step."""
    return {
        "no_new_privileges": _told(_prctl(PR_SET_NO_NEW_PRIVS, 1)),
        "own_network": _told(_leave_network()),
        "limits": _limit(memory_bytes),
        "landlock": _landlock(readable),
        "seccomp": _seccomp(),
    }


def die_with(parent: int) -> None:
    """Let the kernel kill us when our parent ends; end now if it already has."""
    _prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)


def _told(result: int) -> str:
    return "yes" if result >= 0 else f"no: {os.strerror(ctypes.get_errno())}"


def _prctl(option: int, value: int, pointer: object = 0) -> int:
    if isinstance(pointer, int):
        return int(_LIBC.prctl(option, value, 0, 0, 0))
    return int(_LIBC.prctl(option, value, pointer, 0, 0))


def _leave_network() -> int:
    if _LIBC.unshare(CLONE_NEWNET) == 0:
        return 0
    return int(_LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNET))


def _limit(memory_bytes: int) -> str:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return "yes"


def _landlock(readable: list[str]) -> str:
    rules = struct.pack("=Q", _LANDLOCK_ALL)
    ruleset = int(_LIBC.syscall(_LANDLOCK_CREATE, rules, len(rules), 0))
    if ruleset < 0:
        return _told(ruleset)
    for path in readable:
        if os.path.isdir(path):  # noqa: PTH112 (nothing but Python's core is imported here)
            _let_read(ruleset, path)
    result = int(_LIBC.syscall(_LANDLOCK_RESTRICT, ruleset, 0))
    os.close(ruleset)
    return _told(result)


def _let_read(ruleset: int, path: str) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rule = struct.pack("=Qi", _LANDLOCK_READ, place)
    _LIBC.syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0)
    os.close(place)


def _seccomp() -> str:
    machine = platform.machine()
    if machine not in _REFUSED:
        return f"no: nothing is known of {machine}"
    program = b"".join(_program(machine))
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    return _told(_prctl(PR_SET_SECCOMP, 2, filter_))


def _program(machine: str) -> list[bytes]:
    """Give the filter: a wrong architecture kills, what is listed is refused, the rest passes."""
    lines = [
        _line(_LOAD, 4),
        _line(_EQUAL, _ARCHITECTURE[machine], 1, 0),
        _line(_RETURN, _KILL),
        _line(_LOAD, 0),
        _line(_AT_LEAST, _X32_BIT, 0, 1),
        _line(_RETURN, _REFUSE),
    ]
    for number in _NEW_CALLS:
        lines += [_line(_EQUAL, number, 0, 1), _line(_RETURN, _UNKNOWN)]
    for number in _REFUSED[machine]:
        lines += [_line(_EQUAL, number, 0, 1), _line(_RETURN, _REFUSE)]
    for number, position in _OPEN[machine]:
        lines += [
            _line(_EQUAL, number, 0, 4),
            _line(_LOAD, 16 + 8 * position),
            _line(_ANY_BIT, _WRITING, 0, 1),
            _line(_RETURN, _REFUSE),
            _line(_RETURN, _ALLOW),
        ]
    return [*lines, _line(_RETURN, _ALLOW)]


def _line(code: int, value: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, value)

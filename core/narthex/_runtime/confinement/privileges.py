"""The capabilities and limits of a process, whichever account started it."""

import ctypes
import errno
import resource

from narthex._runtime.confinement.kernel import (
    CAPABILITY_HEADER,
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAPBSET_DROP,
    PR_CAPBSET_READ,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_SECUREBITS,
    KernelRefusalError,
    capabilities,
    prctl,
    system_call,
)

_CAPABILITIES = 64
_BOUND = 1 << 8
_NO_ROOT = 0x2F
"""Account 0 neither has capabilities nor gains them by a change of account; all locked."""
_FILES = 64


def drop_capabilities() -> None:
    """Drop all capabilities, and the ways to regain one.

    Raises:
        KernelRefusalError: The kernel refused, or some are left.
    """
    if capabilities() & _BOUND:
        prctl(PR_SET_SECUREBITS, _NO_ROOT)
        for number in range(_CAPABILITIES):
            if _is_bounded(number):
                prctl(PR_CAPBSET_DROP, number)
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    system_call("capset", CAPABILITY_HEADER, bytes(24))
    left = ctypes.create_string_buffer(24)
    system_call("capget", CAPABILITY_HEADER, left)
    if any(left.raw):
        raise KernelRefusalError(errno.EPERM, "some capabilities are left")


def _is_bounded(number: int) -> bool:
    try:
        return prctl(PR_CAPBSET_READ, number) == 1
    except KernelRefusalError:
        return False


def refuse_privileges() -> None:
    """Refuse the privileges that an executed program could add.

    Raises:
        KernelRefusalError: The kernel refused.
    """
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def limit(memory_bytes: int) -> None:
    """Limit memory, descriptors and processes, and forbid writes to files."""
    for what, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        resource.setrlimit(what, (most, most))

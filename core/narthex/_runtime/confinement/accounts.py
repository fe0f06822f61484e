"""The account of author code: it owns nothing and has its own user namespace."""

import errno
import os

from narthex._runtime.confinement.kernel import (
    PR_SET_DUMPABLE,
    KernelRefusalError,
    capabilities,
    prctl,
    unshare,
)

NOBODY = 65534
"""The number of the account and of its group."""

_USER_NAMESPACE = 0x10000000
_CHANGE_GROUP, _CHANGE_ACCOUNT, _ADMINISTER = 1 << 6, 1 << 7, 1 << 21
_NEEDED = _CHANGE_GROUP | _CHANGE_ACCOUNT | _ADMINISTER


def is_root() -> bool:
    """Whether this process may leave namespaces and change its account without preparation."""
    return os.geteuid() == 0 and capabilities() & _NEEDED == _NEEDED


def become_nobody() -> None:
    """Change from root to an account that owns nothing.

    Raises:
        OSError: The kernel refused.
    """
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    # Otherwise the process cannot write the map of its own user namespace.
    prctl(PR_SET_DUMPABLE, 1)


def be_nobody() -> None:
    """Check that this process has the account `nobody`, at least in its user namespace.

    Raises:
        KernelRefusalError: The process has the account that started it.
    """
    if os.geteuid() != NOBODY:
        raise KernelRefusalError(errno.EPERM, "the process has the account that started it")


def own_user(process: int) -> None:
    """Create a user namespace whose only account is `nobody`, mapped to the process's account.

    Args:
        process: A descriptor of this process's directory in `/proc`.

    Raises:
        OSError: The kernel refused.
    """
    account, group = os.geteuid(), os.getegid()
    unshare(_USER_NAMESPACE)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{NOBODY} {account} 1"),
        ("gid_map", f"{NOBODY} {group} 1"),
    ):
        place = os.open(name, os.O_WRONLY, dir_fd=process)
        os.write(place, text.encode())
        os.close(place)


def closed_to_others(paths: list[str]) -> list[str]:
    """Return the directories that an account which owns nothing cannot reach."""
    return [
        path
        for path in paths
        if os.path.isdir(path) and not _is_open(os.path.realpath(path))  # noqa: PTH112
    ]


def _is_open(path: str) -> bool:
    parts = path.split("/")
    above = ["/".join(parts[:count]) or "/" for count in range(1, len(parts) + 1)]
    return all(os.stat(one).st_mode & 0o001 for one in above)  # noqa: PTH116

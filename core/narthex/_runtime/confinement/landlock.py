"""Landlock: allow reads below the libraries; deny all other files, ports and processes."""

import os
import struct
from collections.abc import Sequence

from narthex._runtime.confinement.kernel import system_call

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_READ = (1 << 0) | (1 << 2) | (1 << 3)
"""The rights to execute (which loads a library), to read a file, to list a directory."""
_READ_AND_WRITE_FILE = (1 << 1) | (1 << 2)
_FILE_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16))
"""Pairs of a Landlock version and its number of rights: links, truncation, devices came later."""
_NETWORK_FROM, _NETWORK = 4, 0b11
_SCOPES_FROM, _SCOPES = 6, 0b11
"""Abstract sockets and signals to processes outside, and the version that restricts them."""


def lock_files(
    readable: list[str], writable: Sequence[str] = (), *, has_network: bool = False
) -> None:
    """Permanently restrict this process to reads below some directories.

    Args:
        readable: The directories.
        writable: Directories below which it may do everything with files, and single files that it
            may read and write.
        has_network: Whether it may connect to others.

    Raises:
        KernelRefusalError: The kernel has no Landlock.
    """
    version = system_call(_CREATE, 0, 0, _VERSION)
    rules = _rules(version, has_network=has_network)
    ruleset = system_call(_CREATE, rules, len(rules), 0)
    for path in readable:
        if os.path.isdir(path):  # noqa: PTH112 (nothing but Python's core is imported here)
            _allow(ruleset, path, _READ)
    for path in writable:
        is_directory = os.path.isdir(path)  # noqa: PTH112
        _allow(ruleset, path, _all_rights(version) if is_directory else _READ_AND_WRITE_FILE)
    system_call(_RESTRICT, ruleset, 0)
    os.close(ruleset)


def _all_rights(version: int) -> int:
    """Return all rights to files that the kernel's version can restrict."""
    return int((1 << max(count for since, count in _FILE_RIGHTS if since <= version)) - 1)


def _rules(version: int, *, has_network: bool) -> bytes:
    """Return all rights that the kernel's version can restrict, so that all are denied."""
    rules = struct.pack("=Q", _all_rights(version))
    if version >= _NETWORK_FROM:
        rules += struct.pack("=Q", 0 if has_network else _NETWORK)
    if version >= _SCOPES_FROM:
        rules += struct.pack("=Q", _SCOPES)
    return rules


def _allow(ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    system_call(_ADD, ruleset, 1, struct.pack("=Qi", rights, place), 0)
    os.close(place)

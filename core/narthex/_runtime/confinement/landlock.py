"""Landlock: allow reads below the libraries; deny all other files, ports and processes."""

import os
import struct

from narthex._runtime.confinement.kernel import system_call

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_READ = (1 << 0) | (1 << 2) | (1 << 3)
"""The rights to execute (which loads a library), to read a file, to list a directory."""
_FILE_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16))
"""Pairs of a Landlock version and its number of rights: links, truncation, devices came later."""
_NETWORK_FROM, _NETWORK = 4, 0b11
_SCOPES_FROM, _SCOPES = 6, 0b11
"""Abstract sockets and signals to processes outside, and the version that restricts them."""


def lock_files(readable: list[str]) -> None:
    """Permanently restrict this process to reads below some directories.

    Raises:
        KernelRefusalError: The kernel has no Landlock.
    """
    rules = _rules(system_call(_CREATE, 0, 0, _VERSION))
    ruleset = system_call(_CREATE, rules, len(rules), 0)
    for path in readable:
        if os.path.isdir(path):  # noqa: PTH112 (nothing but Python's core is imported here)
            _let_read(ruleset, path)
    system_call(_RESTRICT, ruleset, 0)
    os.close(ruleset)


def _rules(version: int) -> bytes:
    """Return all rights that the kernel's version can restrict, so that all are denied."""
    rights = max(count for since, count in _FILE_RIGHTS if since <= version)
    rules = struct.pack("=Q", (1 << rights) - 1)
    if version >= _NETWORK_FROM:
        rules += struct.pack("=Q", _NETWORK)
    if version >= _SCOPES_FROM:
        rules += struct.pack("=Q", _SCOPES)
    return rules


def _let_read(ruleset: int, path: str) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    system_call(_ADD, ruleset, 1, struct.pack("=Qi", _READ, place), 0)
    os.close(place)

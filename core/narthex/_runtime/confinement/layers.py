"""The layers between author code and the machine, set up one after the other.

A process calls `leave` first, then forks, as a process namespace begins with the next child.
The child calls `shut_in` before it loads a library, and `lock` after it has loaded all of them.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial

from narthex._runtime.confinement import YES
from narthex._runtime.confinement.accounts import (
    be_nobody,
    become_nobody,
    closed_to_others,
    is_root,
    own_user,
)
from narthex._runtime.confinement.kernel import die_with_parent, set_host_name, unshare
from narthex._runtime.confinement.landlock import lock_files
from narthex._runtime.confinement.own_files import keep_libraries
from narthex._runtime.confinement.privileges import drop_capabilities, limit, refuse_privileges
from narthex._runtime.confinement.seccomp import filter_system_calls

_NAMESPACES = {
    "own_files": 0x00020000,
    "own_processes": 0x20000000,
    "own_network": 0x40000000,
    "own_messages": 0x08000000,
    "own_host_name": 0x04000000,
}

_A_THREAD = 0x00010000
"""CLONE_THREAD: `unshare` fails if the process has other threads, and otherwise does nothing."""


class Layers:
    """The layers granted so far: for each, `yes`, or `no` with the reason."""

    def __init__(self, without: Sequence[str] = ()) -> None:
        """Begin without layers.

        Args:
            without: Layers to leave out, as on a machine that lacks them.
        """
        self.granted: dict[str, str] = {}
        self._without = frozenset(without)
        # Root can read libraries below directories that are closed to others, and so leaves the
        # files first; any other account needs a user namespace before it can leave anything.
        self._is_root = is_root()

    def leave(self) -> None:
        """Leave the namespaces of the machine; the next child gets its own process namespace."""
        if not self._is_root:
            if os.geteuid() == 0:
                self._put_up("own_account", become_nobody)
            self._put_up("own_user", partial(own_user, os.open("/proc/self", os.O_PATH)))
            self._put_up("own_account", be_nobody)
        for name, flag in _NAMESPACES.items():
            self._put_up(name, partial(unshare, flag))

    def shut_in(self, readable: list[str]) -> None:
        """Leave all files except the libraries, and the account that started the process."""
        process = os.open("/proc/self", os.O_PATH)
        if self._has("own_host_name"):
            self._put_up("own_host_name", set_host_name)
        if self._has("own_files"):
            self._put_up("own_files", partial(keep_libraries, readable))
        if self._is_root:
            closed = [] if self._has("own_files") else closed_to_others(readable)
            if closed:
                self.granted["own_account"] = f"no: other accounts may not read `{closed[0]}`"
            else:
                self._put_up("own_account", become_nobody)
            self._put_up("own_user", partial(own_user, process))
        os.close(process)

    def lock(self, readable: list[str], memory_bytes: int) -> None:
        """Drop every right except to compute; from here on, only Python modules can be loaded.

        From here on, the kernel kills the process when the one that forked it ends.
        """
        # Most of the following layers apply to one thread, so there must not be another one.
        self._put_up("one_thread", partial(unshare, _A_THREAD))
        self._put_up("limits", partial(limit, memory_bytes))
        self._put_up("no_capabilities", drop_capabilities)
        self._put_up("no_new_privileges", refuse_privileges)
        self._put_up("landlock", partial(lock_files, readable))
        die_with_parent()
        self._put_up("seccomp", filter_system_calls)

    def _has(self, name: str) -> bool:
        return self.granted.get(name) == YES

    def _put_up(self, name: str, step: Callable[[], None]) -> None:
        if name in self._without:
            self.granted[name] = "no: it is switched off"
            return
        try:
            step()
        except OSError as error:
            self.granted[name] = f"no: {error.strerror or error}"
        else:
            self.granted[name] = YES

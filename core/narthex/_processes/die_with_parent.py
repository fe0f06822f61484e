"""Run a command that must not outlive its parent process.

Used as a program: `python die_with_parent.py PARENT_PID SIGNAL ACCOUNT COMMAND…`. It switches to
the account (`-` for none), asks the kernel for SIGNAL when its parent dies, then executes
COMMAND. It imports nothing of ours, so it starts in milliseconds and the account needs no access
to our files.
"""

import ctypes
import os
import pwd
import sys

PR_SET_PDEATHSIG = 1
NO_ACCOUNT = "-"


def main(arguments: list[str]) -> None:
    """Execute the command, so that it ends with its parent."""
    parent, number, account, *command = arguments
    if account != NO_ACCOUNT:
        become(account)
    if sys.platform == "linux":
        # This must follow the change of account, which clears the setting.
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        # If the parent died before the call above, no signal comes.
        if os.getppid() != int(parent):
            sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 (becoming the command is the point)


def become(account: str) -> None:
    """Drop root privileges permanently."""
    entry = pwd.getpwnam(account)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


if __name__ == "__main__":
    main(sys.argv[1:])

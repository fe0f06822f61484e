"""A lock that processes of one machine share: a file that one of them has locked at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from narthex._base import Backoff
from narthex_stores import TransientError

_LOOKS: Final = Backoff(first_s=0.01, greatest_s=0.25)


@contextmanager
def locked(path: Path, *, within_s: float) -> Iterator[None]:
    """Hold the lock of a file, which is created if it is missing; a process that ends drops it.

    Args:
        path: The file.
        within_s: How long to wait for the lock.

    Raises:
        TransientError: Another process held it all the time.
    """
    with path.open("ab") as file:
        for _ in _LOOKS.attempts(within_s=within_s):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            break
        else:
            raise TransientError(f"another process held {path} for more than {within_s:.0f} s")
        yield

"""Runs of the process that reads and replays quarantined and late rows.

A list is read from a whole log, and a replay runs code of authors: neither happens in the server's
own process.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Final

from narthex._base import Json
from narthex._processes import ProcessGroup
from narthex.settings import Settings, environment_of
from narthex_server.errors import Conflicting, InvalidRequest, TooManyRequests

INSPECTOR: Final = "narthex_spark_apps.row_inspection.inspection_process"
"""The module of the process; it is not imported here."""

WITHIN_S: Final = 300.0
"""How long one run may take."""

_WAITS_S: Final = 30.0


class BranchRuns:
    """Runs for requests, a few at once; of these, a branch has all but one."""

    def __init__(self, at_once: int, *, most_waiting: int) -> None:
        """Begin without a run.

        Args:
            at_once: How many there may be, at least two.
            most_waiting: How many requests of a branch may wait for one.
        """
        self._at_once, self._most_waiting = at_once, most_waiting
        self._running: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def one(self, branch: str, *, within_s: float = _WAITS_S) -> Iterator[None]:
        """Wait until another run may begin, and count it as running.

        Raises:
            TooManyRequests: Too many requests of the branch wait, or no run has ended in time.
        """
        with self._changed:
            if self._waiting[branch] >= self._most_waiting:
                raise TooManyRequests
            self._waiting[branch] += 1
            may_begin = self._changed.wait_for(lambda: self._has_room(branch), timeout=within_s)
            self._waiting[branch] -= 1
            if not may_begin:
                raise TooManyRequests
            self._running[branch] += 1
        try:
            yield
        finally:
            with self._changed:
                self._running[branch] -= 1
                self._changed.notify_all()

    def _has_room(self, branch: str) -> bool:
        is_free = self._running.total() < self._at_once
        return is_free and self._running[branch] < self._at_once - 1


RUNS: Final = BranchRuns(2, most_waiting=4)
"""The processes of this server that read rows for requests."""


def inspect_rows(settings: Settings, asked: dict[str, Json], *, branch: str) -> dict[str, Json]:
    """Run the process; return its result.

    Args:
        settings: The installation.
        asked: The operation, as the module `INSPECTOR` reads it.
        branch: The branch of the request.

    Raises:
        InvalidRequest: The rows do not exist, or cannot be replayed.
        Conflicting: The rows cannot be read at present.
        TooManyRequests: Runs are in progress and do not end.
    """
    with RUNS.one(branch):
        output, ending = _run(settings, asked)
    try:
        answer = json.loads(output)
    except ValueError:
        answer = None
    match answer:
        case {"result": dict(result)}:
            return result
        case {"error": str(error), "hint": str(hint), "caller": True}:
            raise InvalidRequest(f"{error}; {hint}" if hint else error)
        case {"error": str(error)}:
            raise Conflicting(f"the rows cannot be read: {error}; retry")
        case _:
            raise Conflicting(f"the rows cannot be read: the process {ending}; retry")


def _run(settings: Settings, asked: dict[str, Json]) -> tuple[bytes, str]:
    process = ProcessGroup.start(
        [sys.executable, "-m", INSPECTOR],
        environment={**os.environ, **environment_of(settings)},
        has_pipes=True,
    )
    try:
        output, _ = process.popen.communicate(json.dumps(asked).encode(), timeout=WITHIN_S)
    except subprocess.TimeoutExpired:
        return b"", f"took more than {WITHIN_S:.0f} s"
    finally:
        ending = process.ending
        process.kill()
    return output, ending

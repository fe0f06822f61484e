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

_AT_ONCE: Final = 2
_WAITS_S: Final = 30.0
_RUNNING: Final = threading.BoundedSemaphore(_AT_ONCE)


def inspect_rows(settings: Settings, asked: dict[str, Json]) -> dict[str, Json]:
    """Run the process; return its result.

    Args:
        settings: The installation.
        asked: The operation, as the module `INSPECTOR` reads it.

    Raises:
        InvalidRequest: The rows do not exist, or cannot be replayed.
        Conflicting: The rows cannot be read at present.
        TooManyRequests: Two runs are in progress and do not end.
    """
    with one_of_few():
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


@contextlib.contextmanager
def one_of_few() -> Iterator[None]:
    """Wait until fewer than two processes read rows for requests.

    Raises:
        TooManyRequests: Two runs are in progress and do not end.
    """
    if not _RUNNING.acquire(timeout=_WAITS_S):
        raise TooManyRequests
    try:
        yield
    finally:
        _RUNNING.release()


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

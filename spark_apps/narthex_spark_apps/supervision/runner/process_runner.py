"""Run a loop as a process whose stdin and stdout are pipes to the supervisor."""

import gc
import sys
import threading
from collections.abc import Callable
from typing import NoReturn, Protocol

from narthex._processes import end_own_group
from narthex.settings import Settings, load_settings
from narthex_spark_apps.supervision.runner.lease_inbox import Inbox
from narthex_spark_apps.supervision.runner_messages import (
    DesiredAssignments,
    RunnerMessage,
    render_report,
)
from narthex_stores import open_log

_SENDING = threading.Lock()


class Loop(Protocol):
    """Runs what is assigned, in turns."""

    @property
    def turn_s(self) -> float:
        """How long to wait for assignments before each turn."""

    def turn(self, desired: DesiredAssignments | None) -> None:
        """Adopt the newest assignments, if there are any, and work for a while."""


def send(message: RunnerMessage) -> None:
    """Send a message to the supervisor at once; whole lines only, from any thread."""
    with _SENDING:
        sys.stdout.write(render_report(message) + "\n")
        sys.stdout.flush()


def serve(make: Callable[[Settings, Inbox], Loop]) -> None:
    """Run the jobs that the supervisor assigns, until it is gone.

    The process then ends with its process group, because a JVM outlives the Python that started it.
    """
    settings = load_settings()
    open_log(settings, sys.stderr)  # stdout is for messages only
    inbox = Inbox()
    # Before the loop, whose start may take long: the supervisor waits for heartbeats.
    inbox.listen(sys.stdin, send=send, gone=end_own_group)
    take_turns(make(settings, inbox), inbox)


def take_turns(loop: Loop, inbox: Inbox) -> NoReturn:
    """Let a loop work with what arrives in an inbox, until the process ends."""
    # Imported objects are never freed: exclude them from every later garbage collection.
    gc.freeze()
    while True:
        loop.turn(inbox.newest(wait_s=loop.turn_s))

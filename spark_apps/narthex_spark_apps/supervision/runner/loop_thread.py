"""Run a loop in a thread of its own, so that its slow turns delay nothing else."""

import queue
import threading

from narthex_spark_apps.supervision.runner.lease_inbox import newest_of
from narthex_spark_apps.supervision.runner.process_runner import Loop
from narthex_spark_apps.supervision.runner_messages import DesiredAssignments


class LoopEndedError(RuntimeError):
    """The thread of a loop has ended by an error, which is the cause of this one."""


class LoopThread:
    """A loop that takes its turns in a thread."""

    def __init__(self, loop: Loop, *, name: str) -> None:
        """Prepare the thread.

        Args:
            loop: The loop; from `start` on, only the thread uses it.
            name: The name of the thread.
        """
        self._loop = loop
        self._sets: queue.SimpleQueue[DesiredAssignments] = queue.SimpleQueue()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Take turns from now on."""
        self._thread.start()

    def assign(self, desired: DesiredAssignments) -> None:
        """Set the assignments that the next turn adopts."""
        self._sets.put(desired)

    def require_alive(self) -> None:
        """Require that no turn has failed.

        Raises:
            LoopEndedError: A turn has failed, and no later one follows.
        """
        if self._error is not None:
            raise LoopEndedError(f"a turn of the loop failed: {self._error}") from self._error

    def _run(self) -> None:
        try:
            while True:
                self._loop.turn(newest_of(self._sets, wait_s=self._loop.turn_s))
        except Exception as error:  # noqa: BLE001 (the thread that supervises this one raises it)
            self._error = error

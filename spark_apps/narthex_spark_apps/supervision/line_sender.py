"""Send lines from a thread of their own, so that a sender never waits for a receiver."""

import queue
import threading
from collections.abc import Callable


class LineSender:
    """Lines on their way to one receiver, in order."""

    def __init__(self, write: Callable[[str], object], *, name: str) -> None:
        """Start to send.

        Args:
            write: Writes one line; it may block, and raises an OSError once the receiver is gone.
            name: The name of the thread.
        """
        self._write = write
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def send(self, line: str) -> None:
        """Queue a line; it is dropped if the receiver is gone."""
        self._lines.put(line)

    def close(self) -> None:
        """Send the queued lines, then end; return at once."""
        self._lines.put(None)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._write(line)
            except (OSError, ValueError):
                # The receiver has ended; whoever started it notices that and replaces it.
                return

"""A child process of the supervisor: start it, assign work, read its messages, restart it."""

import os
import queue
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import attrs
import structlog

from narthex._base import Backoff, Restarts
from narthex._processes import ProcessGroup, end_leftovers
from narthex_spark_apps.supervision.child_messages import (
    Alive,
    DesiredAssignments,
    GarbledLineError,
    OfflineReport,
    Report,
    RunningJobs,
    parse_report,
    render_desired,
    render_lease,
)

log = structlog.get_logger()

RESTARTS = Backoff(first_s=1.0, greatest_s=15.0)
STEADY_S = 10.0
"""A child that ran for at least this long restarts as if it had never failed."""
SILENT_S = 20.0
"""A child without a heartbeat for this long is hung, not slow: it is replaced."""
START_WITHIN_S = 180.0
"""The first heartbeat may take longer: imports take long, and the machine may be busy."""


class ChildProcess:
    """One kind of child, with at most one process, in a process group of its own.

    No method waits for the child: messages that its pipe does not accept yet are queued.
    """

    def __init__(
        self,
        name: str,
        *,
        module: str,
        environment: Mapping[str, str],
        run_dir: Path,
        lazy: bool = False,
    ) -> None:
        """Set the module that the child runs; nothing is started yet.

        Args:
            name: The name of the child in logs and files.
            module: The module that runs as a program.
            environment: All environment variables of the child.
            run_dir: The directory of its log and PID file; no other child of that name may use it.
            lazy: Start the child when it first has work.
        """
        self.name = name
        self._module = module
        self._environment = dict(environment)
        self._log_path = run_dir / f"{name}.log"
        self._pid_path = run_dir / f"{name}.pid"
        self._lazy = lazy
        self._process: ProcessGroup | None = None
        self._reports: queue.SimpleQueue[Report | OfflineReport] = queue.SimpleQueue()
        self._desired: DesiredAssignments | None = None
        self._sent_turn = -1
        self._leased_until: float | None = None
        self._outbox = bytearray()
        self._running_jobs: RunningJobs | None = None
        self._last_message_at = 0.0
        self._restarts = Restarts(RESTARTS, steady_s=STEADY_S)
        self.restarts = 0

    def assign(self, desired: DesiredAssignments) -> None:
        """Set the assignments of the child; they are sent if they differ from the last set."""
        turn = 0 if self._desired is None else self._desired.turn
        if self._desired is None or attrs.evolve(desired, turn=turn) != self._desired:
            self._desired = attrs.evolve(desired, turn=turn + 1)

    def extend_lease(self, until: float) -> None:
        """Set when the leases expire, by the monotonic clock."""
        self._leased_until = until
        if self._process is not None:
            self._post(render_lease(until))

    def runs(self) -> frozenset[int] | None:
        """Return the jobs and feeds that the child has not stopped yet; None while unknown."""
        if self._process is None:
            return frozenset()
        if (
            self._running_jobs is None
            or self._desired is None
            or self._running_jobs.turn != self._desired.turn
        ):
            return None
        return frozenset(self._running_jobs.assets)

    @property
    def is_up(self) -> bool:
        """Whether it can take work: it has reported its state, or it starts only with its work."""
        return self._lazy or self._running_jobs is not None

    def reconcile(self) -> None:
        """Start the child if it should run and does not; send it pending messages."""
        if self._process is not None and not self._process.is_running:
            self._reclaimed()
        if self._process is not None and time.monotonic() - self._last_message_at > SILENT_S:
            log.warning("child_unresponsive", child=self.name)
            self._process.kill()
        if self._process is None:
            if not self._is_wanted() or not self._restarts.is_due:
                return
            self._start()
        if self._desired is not None and self._desired.turn != self._sent_turn:
            self._post(render_desired(self._desired))
            self._sent_turn = self._desired.turn
        self._push()

    def _is_wanted(self) -> bool:
        desired = self._desired
        has_work = desired is not None and bool(desired.assignments or desired.offline)
        return has_work if self._lazy else desired is not None

    def _start(self) -> None:
        end_leftovers(self._pid_path)
        process = ProcessGroup.start(
            [sys.executable, "-m", self._module],
            environment=self._environment,
            log=self._log_path,
            has_pipes=True,
        )
        process.process.store(self._pid_path)
        if process.popen.stdin is not None:
            os.set_blocking(process.popen.stdin.fileno(), False)
        self._restarts.started()
        self._process = process
        self._last_message_at = time.monotonic() + START_WITHIN_S - SILENT_S
        self._sent_turn = -1
        self._running_jobs = None
        self._outbox.clear()
        if self._leased_until is not None:
            self._post(render_lease(self._leased_until))
        threading.Thread(
            target=self._listen, args=(process,), name=f"{self.name}-reports", daemon=True
        ).start()
        log.info("child_started", child=self.name, pid=process.pid)

    def _listen(self, process: ProcessGroup) -> None:
        for raw in process.popen.stdout or ():
            line = raw.decode(errors="replace")
            try:
                message = parse_report(line)
            except GarbledLineError:
                log.warning("child_sent_unknown_message", child=self.name, line=line[:200])
                continue
            if process is not self._process:
                continue
            self._last_message_at = time.monotonic()
            match message:
                case RunningJobs():
                    self._running_jobs = message
                case Alive():
                    pass
                case _:
                    self._reports.put(message)

    def _post(self, line: str) -> None:
        self._outbox += line.encode() + b"\n"
        self._push()

    def _push(self) -> None:
        """Write as much as the pipe accepts now."""
        if self._process is None or self._process.popen.stdin is None or not self._outbox:
            return
        try:
            taken = os.write(self._process.popen.stdin.fileno(), self._outbox)
        except BlockingIOError:
            return
        except OSError:
            # The child has died; the next `reconcile` handles that.
            self._outbox.clear()
            return
        del self._outbox[:taken]

    def _reclaimed(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        lived_s = self._restarts.ran_s
        log.warning("child_died", child=self.name, how=self._process.ending, lived_s=lived_s)
        self._restarts.failed()
        self._process = None
        self.restarts += 1

    def reports(self) -> list[Report | OfflineReport]:
        """Return the child's messages since the last call."""
        found: list[Report | OfflineReport] = []
        while True:
            try:
                found.append(self._reports.get_nowait())
            except queue.Empty:
                return found

    def ask_to_stop(self) -> None:
        """Ask the child to stop; return at once."""
        if self._process is not None:
            self._process.ask_to_stop()

    def stop(self, *, within_s: float) -> None:
        """Stop the child and all processes that it started; committed data stays."""
        if self._process is None:
            return
        if not self._process.end(within_s=within_s):
            log.warning("child_did_not_stop", child=self.name)
        self._process = None
        self._pid_path.unlink(missing_ok=True)

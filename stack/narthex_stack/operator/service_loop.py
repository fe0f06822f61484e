"""The loop that keeps one service running: prepare, start, watch, restart, stop."""

import datetime as dt
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import psycopg

from narthex._base import Backoff, Restarts
from narthex._processes import Process, ProcessGroup
from narthex_stack.errors import StackError
from narthex_stack.install.layout import HomeLayout
from narthex_stack.operator.status import NEXT, ServiceState, ServiceStatus
from narthex_stack.processes.service import Service, start

RESTARTS = Backoff(first_s=1.0, greatest_s=30.0)
STEADY_S = 30.0
"""A service that ran this long is restarted at once."""
UNWELL_S = 120.0
"""A service that has been unhealthy this long is ended and restarted."""

POLL = Backoff(first_s=0.1, greatest_s=0.3)
_STEP_S = 0.2
_LOOK_S = 5.0

# Expected errors of a step or a start; any other is a bug and ends the loop.
_FAILURES = (StackError, OSError, subprocess.SubprocessError, psycopg.Error)


class ServiceLoop:
    """Keeps one service running, on a thread of its own, until it is stopped."""

    def __init__(
        self,
        service: Service,
        *,
        layout: HomeLayout,
        is_healthy: Callable[[str], bool],
        changed: Callable[[], None],
        started: Callable[[str, Process], None],
    ) -> None:
        """Create a loop that is not started yet.

        Args:
            service: The service to keep running.
            layout: The layout with the directory of its log.
            is_healthy: Returns whether another service is healthy.
            changed: Called after each change of status, on the loop's thread.
            started: Called with each new process before it is waited for.
        """
        self.service = service
        self.status = ServiceStatus(
            name=service.name,
            group=service.group,
            state=ServiceState.WAITING,
            since=dt.datetime.now(tz=dt.UTC),
            port=service.port,
        )
        self._layout = layout
        self._is_healthy = is_healthy
        self._changed = changed
        self._started = started
        self._restarts = Restarts(RESTARTS, steady_s=STEADY_S)
        self._restarted = 0
        self._stopping = threading.Event()
        self._all_end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=service.name, daemon=True)

    def begin(self) -> None:
        """Start the loop."""
        self._thread.start()

    def expect_end(self) -> None:
        """Note that all services are being stopped: one that misses another is not unwell."""
        self._all_end.set()

    def ask_to_stop(self) -> None:
        """Request an orderly end; return at once."""
        self._stopping.set()

    @property
    def has_stopped(self) -> bool:
        """Whether the loop has ended."""
        return not self._thread.is_alive()

    @property
    def log(self) -> Path:
        return self._layout.log(self.service.name)

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._wait_for_needs():
                self._live_once()
            if not self._stopping.wait(self._restarts.due_in_s):
                self._become(ServiceState.WAITING, reason=self.status.reason)
        self._become(ServiceState.STOPPING)
        self._become(ServiceState.STOPPED)

    def _wait_for_needs(self) -> bool:
        for delay_s in POLL.delays():
            if self._stopping.wait(delay_s):
                return False
            if all(self._is_healthy(need) for need in self.service.needs):
                return True
        return False

    def _live_once(self) -> None:
        """Run the service once, from its preparation until no process of it is left."""
        child: ProcessGroup | None = None
        try:
            self._become(ServiceState.PREPARING)
            self.service.prepare()
            if self._stopping.is_set():
                return
            self._restarts.started()
            child = start(self.service, home=self._layout.home, log=self.log)
            self._started(self.service.name, child.process)
            self._become(ServiceState.STARTING, process=child.process)
            wrong = self._wait_healthy(child) or self._watch(child)
        except _FAILURES as error:
            wrong = str(error)
        finally:
            if child is not None:
                self._end(child)
        if not self._stopping.is_set():
            self._back_off(wrong)

    def _wait_healthy(self, child: ProcessGroup) -> str | None:
        """Wait until the service answers and has settled; return what went wrong, if anything."""
        wrong: str | None = None
        for delay_s in POLL.delays(within_s=self.service.within_s):
            if self._stopping.wait(delay_s):
                return None
            wrong = self.service.probe()
            if not child.is_running:
                return child.ending
            if wrong is None:
                self.service.settle()
                self._restarts.succeeded()
                self._become(ServiceState.HEALTHY)
                return None
        return f"not healthy after {self.service.within_s:.0f} s: {wrong}"

    def _watch(self, child: ProcessGroup) -> str:
        """Watch a healthy process until it ends, has been unhealthy too long, or should stop."""
        looked = well = time.monotonic()
        while not self._stopping.wait(_STEP_S):
            now = time.monotonic()
            if not child.is_running:
                return child.ending
            if now - looked < _LOOK_S:
                continue
            wrong = self.service.probe()
            looked = time.monotonic()
            if self._all_end.is_set():
                continue
            well = looked if wrong is None else well
            if (wrong is None) is not (self.status.state is ServiceState.HEALTHY):
                self._become(
                    ServiceState.UNWELL if wrong else ServiceState.HEALTHY, reason=wrong or ""
                )
            if looked - well > UNWELL_S:
                return f"unwell for {UNWELL_S:.0f} s: {wrong}"
        return ""

    def _back_off(self, wrong: str) -> None:
        self._restarts.failed()
        self._restarted += 1
        self._become(ServiceState.BACKING_OFF, reason=wrong)

    def _end(self, child: ProcessGroup) -> None:
        """Signal the process to end, then kill what is left of its process group."""
        if self._stopping.is_set():
            self._become(ServiceState.STOPPING)
        child.end(self.service.stop_signal, within_s=self.service.stop_within_s)

    def _become(
        self, state: ServiceState, *, reason: str = "", process: Process | None = None
    ) -> None:
        now = self.status.state
        if state is now:
            return
        if state not in NEXT[now]:
            raise RuntimeError(f"`{self.service.name}` cannot go from {now.value} to {state.value}")
        running = self.status.process if state in _KEEP_PROCESS else None
        self.status = attrs.evolve(
            self.status,
            state=state,
            since=dt.datetime.now(tz=dt.UTC),
            reason=reason,
            process=process or running,
            failures=self._restarts.failures,
            restarts=self._restarted,
        )
        self._changed()


_KEEP_PROCESS = frozenset({ServiceState.HEALTHY, ServiceState.UNWELL, ServiceState.STOPPING})

"""The operator: the one process that owns the services of an installation.

`python -m narthex_stack.operator.main HOME` detaches itself and runs until SIGTERM, on which it
stops all services in order. On SIGHUP, it starts the services that `wanted.json` adds.
"""

import datetime as dt
import fcntl
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import TextIO

from narthex._processes import Process, process_of
from narthex_stack.install.installation import Installation, load_installation
from narthex_stack.install.layout import HomeLayout
from narthex_stack.local_services.service_plan import externals, services, with_needs
from narthex_stack.machine.files import load_object, store_json
from narthex_stack.operator.service_loop import ServiceLoop
from narthex_stack.operator.status import ServiceState, ServiceStatus, Status, store_status
from narthex_stack.processes.leftovers import OPERATOR_HOME

_BEAT_S = 0.25


class Operator:
    """Owns the service loops and the files that report their state."""

    def __init__(self, installation: Installation, *, me: Process) -> None:
        """Create an operator without services."""
        self._installation = installation
        self._layout = installation.layout
        self._me = me
        self._loops: dict[str, ServiceLoop] = {}
        self._began = dt.datetime.now(tz=dt.UTC)
        self._dirty = threading.Event()
        self._recording = threading.Lock()
        self._stop = threading.Event()
        self._look = threading.Event()

    def stop(self, _number: int, _frame: FrameType | None) -> None:
        """Handle a signal: request the end."""
        self._stop.set()

    def look_again(self, _number: int, _frame: FrameType | None) -> None:
        """Handle a signal: request that `wanted.json` is read again."""
        self._look.set()

    def run(self) -> None:
        """Keep the wanted services running until the stop signal; then stop them in order."""
        self._start_wanted()
        self._write()
        self._me.store(self._layout.operator)
        while not self._stop.wait(_BEAT_S):
            if self._look.is_set():
                self._look.clear()
                self._start_wanted()
                self._dirty.set()
            self._write_changes()
        self._stop_all()

    def _start_wanted(self) -> None:
        for service in services(self._installation, self._wanted()):
            if service.name not in self._loops:
                self._loops[service.name] = ServiceLoop(
                    service,
                    layout=self._layout,
                    is_healthy=self._is_healthy,
                    changed=self._dirty.set,
                    started=self._record,
                )
                self._loops[service.name].begin()

    def _wanted(self) -> tuple[str, ...]:
        found = load_object(self._layout.wanted).get("groups", [])
        return with_needs(str(group) for group in found) if isinstance(found, list) else ()

    def _is_healthy(self, name: str) -> bool:
        loop = self._loops.get(name)
        return loop is not None and loop.status.state is ServiceState.HEALTHY

    def _record(self, name: str, process: Process) -> None:
        """Record a child process, so that it can be found after a crash of this process."""
        with self._recording:
            found = load_object(self._layout.children)
            found[name] = {**process.plain()}
            store_json(self._layout.children, found)

    def _write_changes(self) -> None:
        if self._dirty.is_set():
            self._dirty.clear()
            self._write()

    def _write(self) -> None:
        elsewhere = tuple(
            ServiceStatus(
                name=external.group,
                group=external.group,
                state=ServiceState.EXTERNAL,
                since=self._began,
                reason=external.address,
            )
            for external in externals(self._installation.config)
            if external.needed_by.intersection(self._wanted())
        )
        here = tuple(loop.status for loop in self._loops.values())
        store_status(
            self._layout.status,
            Status(home=self._layout.home, operator=self._me, services=here + elsewhere),
        )

    def _stop_all(self) -> None:
        """Stop the services wave by wave; within a wave, in the order of their list."""
        for loop in self._loops.values():
            loop.expect_end()
        for wave in sorted({loop.service.stop_wave for loop in self._loops.values()}):
            members = [each for each in self._loops.values() if each.service.stop_wave == wave]
            for loop in members:
                loop.ask_to_stop()
            longest_s = max(loop.service.stop_within_s for loop in members)
            end = time.monotonic() + longest_s + 5.0
            while not all(each.has_stopped for each in members) and time.monotonic() < end:
                self._write_changes()
                time.sleep(_BEAT_S)
            self._write()


def _hold(layout: HomeLayout) -> TextIO:
    """Acquire the lock of a home; exit if another operator has it."""
    lock = (layout.run_dir / "operator.lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"another operator has `{layout.home}`")
    return lock


def main(home: Path) -> None:
    """Detach, run the services, and remove the file that marks the operator as running."""
    layout = HomeLayout(home)
    with _hold(layout):
        # The child inherits the lock, so it stays held for the operator's whole life.
        if os.fork():
            # The caller continues at once, and need not wait for the child.
            os._exit(0)
        os.setsid()
        # Marks our children; /proc shows our own environment as of our start, without the mark.
        os.environ[OPERATOR_HOME] = str(layout.home)
        me = process_of(os.getpid())
        if me is None:
            sys.exit("this machine has no /proc")
        operator = Operator(load_installation(layout), me=me)
        signal.signal(signal.SIGTERM, operator.stop)
        signal.signal(signal.SIGINT, operator.stop)
        signal.signal(signal.SIGHUP, operator.look_again)
        operator.run()
        layout.operator.unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

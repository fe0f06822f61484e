"""A child process that the supervisor keeps alive: started, told what to run, read, restarted."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import structlog

from narthex_spark_apps.children import (
    Desired,
    GarbledLineError,
    OfflineReport,
    Report,
    parse_report,
    render_desired,
)

log = structlog.get_logger()

FIRST_PAUSE_S = 0.5
GREATEST_PAUSE_S = 15.0
STEADY_S = 30.0
"""A child that lived this long starts again at once when it dies."""


class KeptChild:
    """One kind of child; at most one process of it lives, in a group of its own."""

    def __init__(
        self, name: str, *, module: str, environment: Mapping[str, str], run_dir: Path
    ) -> None:
        """Name the module that it runs; nothing is started yet."""
        self.name = name
        self._module = module
        self._environment = dict(environment)
        self._log_path = run_dir / f"{name}.log"
        self._pid_path = run_dir / f"{name}.pid"
        self._process: subprocess.Popen[str] | None = None
        self._reports: queue.SimpleQueue[Report | OfflineReport] = queue.SimpleQueue()
        self._desired: str | None = None
        self._sent: str | None = None
        self._started = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._not_before = 0.0
        self.restarts = 0

    def want(self, desired: Desired) -> None:
        """Say what the child shall run; it is told when that differs from what it was told."""
        self._desired = render_desired(desired)

    def tend(self) -> None:
        """Start the child if it should live and does not; tell it what is new."""
        if self._process is not None and self._process.poll() is not None:
            self._buried()
        if self._process is None:
            if self._desired is None or time.monotonic() < self._not_before:
                return
            self._start()
        if self._desired is not None and self._desired != self._sent:
            self._tell(self._desired)

    def _start(self) -> None:
        end_leftover(self._pid_path, self._module)
        with self._log_path.open("ab") as story:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=story,
                text=True,
                env=self._environment,
                start_new_session=True,
            )
        fresh = self._pid_path.with_suffix(".new")
        fresh.write_text(str(self._process.pid))
        fresh.replace(self._pid_path)
        self._started = time.monotonic()
        self._sent = None
        process = self._process
        threading.Thread(
            target=self._listen, args=(process,), name=f"{self.name}-reports", daemon=True
        ).start()
        log.info("child_started", child=self.name, pid=process.pid)

    def _listen(self, process: subprocess.Popen[str]) -> None:
        if process.stdout is None:
            return
        for line in process.stdout:
            try:
                self._reports.put(parse_report(line))
            except GarbledLineError:
                log.warning("child_said_something_else", child=self.name, line=line[:200])

    def _tell(self, desired: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        try:
            self._process.stdin.write(desired + "\n")
            self._process.stdin.flush()
            self._sent = desired
        except (BrokenPipeError, OSError):
            self._sent = None

    def _buried(self) -> None:
        if self._process is None:
            return
        lived_s = time.monotonic() - self._started
        _kill_group(self._process.pid)
        log.warning("child_died", child=self.name, status=self._process.returncode, lived_s=lived_s)
        self._pause_s = (
            FIRST_PAUSE_S if lived_s > STEADY_S else min(GREATEST_PAUSE_S, self._pause_s * 2)
        )
        self._not_before = time.monotonic() + (0.0 if lived_s > STEADY_S else self._pause_s)
        self._process = None
        self.restarts += 1

    def reports(self) -> list[Report | OfflineReport]:
        """Give what the child has said since the last call."""
        found: list[Report | OfflineReport] = []
        while True:
            try:
                found.append(self._reports.get_nowait())
            except queue.Empty:
                return found

    def stop(self, *, within_s: float) -> None:
        """End the child and all that it started; what it committed stays."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            log.warning("child_did_not_stop", child=self.name)
        _kill_group(self._process.pid)
        self._process.wait()
        self._process = None
        self._pid_path.unlink(missing_ok=True)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def end_leftover(pid_path: Path, module: str) -> None:
    """End the group of a child that an earlier supervisor left; only if it is that child."""
    try:
        pid = int(pid_path.read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return
    if module.encode() in command:
        _kill_group(pid)
    pid_path.unlink(missing_ok=True)

"""A service: one process to keep running, what it needs first, and how to probe it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from narthex_stack.processes import die_with_parent
from narthex_stack.processes.process_table import MARK, Process, process_of

Step = Callable[[], None]
"""A repeatable step; raises `PreparationError` when it fails."""

Probe = Callable[[], str | None]
"""Check once, within seconds: None if the service is healthy, else what is wrong."""


def _nothing() -> None:
    return


@attrs.frozen(kw_only=True)
class Service:
    """How one process is started, watched and stopped.

    Attributes:
        name: Its name in commands, files and logs.
        group: Its name in `--only`: Airflow's four processes are one group.
        command: Its command line.
        environment: Its variables besides the operator's own environment.
        cwd: Its working directory.
        account: The account it runs as; None for the operator's own.
        needs: The services that must be healthy before it is prepared.
        prepare: Called before each start.
        settle: Called when it first answers, before it counts as healthy.
        probe: Returns None if it is healthy, else the problem.
        stop_signal: The signal that stops it, also when the operator has died.
        stop_wave: Services of a lower wave stop first, in the order of their list.
        port: The port on which it listens, for display; 0 if it does not.
        within_s: How long it may take from its start until it is healthy.
    """

    name: str
    group: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    cwd: Path
    account: str | None = None
    needs: tuple[str, ...] = ()
    prepare: Step = _nothing
    settle: Step = _nothing
    probe: Probe
    stop_signal: signal.Signals = signal.SIGTERM
    stop_wave: int = 0
    port: int = 0
    within_s: float = 120.0


@attrs.frozen(kw_only=True)
class Child:
    """A process that was started for a service; its pid is also that of its session."""

    popen: "subprocess.Popen[bytes]" = attrs.field(repr=False)
    process: Process


def start(service: Service, *, home: Path, log: Path) -> Child:
    """Start the process of a service in a session of its own.

    It ends when the calling thread does, so that thread must run as long as the service.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as story:
        popen = subprocess.Popen(
            tethered(service),
            stdin=subprocess.DEVNULL,
            stdout=story,
            stderr=subprocess.STDOUT,
            cwd=service.cwd,
            env={**os.environ, **service.environment, MARK: str(home)},
            start_new_session=True,
        )
    process = process_of(popen.pid)
    return Child(popen=popen, process=process or Process(pid=popen.pid, start=0))


def tethered(service: Service) -> tuple[str, ...]:
    """Return the command line of a service, which ends with this process."""
    return (
        *(sys.executable, "-I", "-S", die_with_parent.__file__),
        *(str(os.getpid()), str(int(service.stop_signal))),
        *(service.account or die_with_parent.NO_ACCOUNT, *service.command),
    )

"""A service: one process that should be alive, what it needs first, how we know it is well."""

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
"""A step that may be taken again; raises `PreparationError` when it fails."""

Probe = Callable[[], str | None]
"""Look once, within seconds: None when it is well, else what is wrong."""


def _nothing() -> None:
    return


@attrs.frozen(kw_only=True)
class Service:
    """How one process is started, watched and stopped.

    Attributes:
        name: Its name in commands, files and logs.
        group: What `--only` names: Airflow's four processes are one group.
        command: Its arguments.
        environment: What it gets beside the keeper's own environment.
        cwd: Where it runs.
        account: The account it runs as; None for the keeper's own.
        needs: Services that must be healthy before it is prepared.
        prepare: Called before each start.
        settle: Called when it first answers, before it counts as healthy.
        probe: Says whether it is well.
        stop_signal: What it gets when it should stop, or when the keeper has died.
        stop_wave: Services of a lower wave stop first, in the order they are listed.
        port: Where it listens, for people to read; 0 for nowhere.
        within_s: How long after its start it must have become healthy.
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
    """A process that was started for a service; its pid is that of its session too."""

    popen: "subprocess.Popen[bytes]" = attrs.field(repr=False)
    process: Process


def start(service: Service, *, home: Path, log: Path) -> Child:
    """Start the process of a service in a session of its own.

    It ends when the calling thread does, so that thread must live as long as the service.
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
    """Render the command of a service, tied to the life of this process."""
    return (
        *(sys.executable, "-I", "-S", die_with_parent.__file__),
        *(str(os.getpid()), str(int(service.stop_signal))),
        *(service.account or die_with_parent.NO_ACCOUNT, *service.command),
    )

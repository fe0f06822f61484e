"""A service: one process to keep running, what it needs first, and how to probe it."""

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from narthex._processes import ProcessGroup, dying_with_parent
from narthex_stack.processes.leftovers import OPERATOR_HOME

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
        stop_within_s: How long it may take to stop, in seconds; then it is killed.
        outlives_operator: Whether it goes on when the operator has died, until the next one starts.
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
    stop_within_s: float = 30.0
    outlives_operator: bool = False
    stop_wave: int = 0
    port: int = 0
    within_s: float = 120.0


def start(service: Service, *, home: Path, log: Path) -> ProcessGroup:
    """Start the process of a service, with its output appended to a log.

    Unless it outlives the operator, it ends when the calling thread does, so that thread must run
    as long as the service.
    """
    command = service.command
    if not service.outlives_operator:
        command = dying_with_parent(command, number=service.stop_signal, account=service.account)
    return ProcessGroup.start(
        command,
        environment={**os.environ, **service.environment, OPERATOR_HOME: str(home)},
        log=log,
        cwd=service.cwd,
    )

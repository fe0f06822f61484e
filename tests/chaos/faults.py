"""Faults: a seed determines which processes are killed, or stopped for a while."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import numpy as np

from narthex._processes import (
    Process,
    find_process,
    is_alive,
    process_of,
    running_processes,
)
from narthex_spark_apps.jobs.application import STANDING_TASKS
from tests.chaos.plant import Installation
from tests.spark_processes import DRIVER, JVM, WORKER_DAEMON, find_in_driver

IN_DRIVERS = (DRIVER, JVM, WORKER_DAEMON, *STANDING_TASKS)
SERVICES = ("kafka", "postgres", "server")
ALONE = (JVM, WORKER_DAEMON)
"""Processes that are killed without those that they started, whose owner has to notice."""
GONE_WITHIN_S = 5.0
STOPPED = "T"
_STEP_S = 0.02

KILL, STOP = "kill", "stop"


@attrs.frozen(kw_only=True)
class PlannedFault:
    """A fault that the seed determines.

    Attributes:
        after_s: The pause before it.
        lasts_s: The time for which a process is stopped.
    """

    victim: str
    what: str
    after_s: float
    lasts_s: float


@attrs.frozen(kw_only=True)
class Fault:
    """A fault that hit: the process ran, and was then killed or stopped.

    Attributes:
        at: By the machine's own clock (monotonic).
    """

    victim: str
    what: str
    at: float


def planned(seed: int, *, every_s: float, supervisors: int) -> Iterator[PlannedFault]:
    """Draw faults without end: what is hit, how, and after which pause."""
    chance = np.random.default_rng(seed + 1_000_003)
    names = supervisor_names(supervisors)
    victims = [
        *(f"{name}/{process}" for name in names for process in IN_DRIVERS),
        *names,
        *SERVICES,
    ]
    while True:
        lasts_s = float(chance.choice([1.0, 4.0, 18.0], p=[0.5, 0.35, 0.15]))
        yield PlannedFault(
            victim=victims[chance.integers(len(victims))],
            what=KILL if chance.random() < 0.7 else STOP,
            after_s=float(every_s * chance.uniform(0.4, 1.6)),
            lasts_s=lasts_s,
        )


def supervisor_names(supervisors: int) -> list[str]:
    return ["supervisor", *(f"supervisor-{n}" for n in range(2, supervisors + 1))]


def strike(plant: Installation, fault: PlannedFault) -> Fault | None:
    """Carry a fault out; None when there was nothing to hit."""
    victim = find(plant, fault.victim)
    if victim is None:
        return None
    # A supervisor's driver is another victim.
    is_supervisor = "/" not in fault.victim and fault.victim.startswith("supervisor")
    is_alone = is_supervisor or fault.victim.rpartition("/")[2] in ALONE
    members = (victim,) if is_alone else family(victim)
    at = time.monotonic()
    if fault.what == KILL:
        _signal(members, signal.SIGKILL)
        hit = _comes_about(lambda: not is_alive(victim))
    else:
        _signal(members, signal.SIGSTOP)
        hit = _comes_about(lambda: _has_stopped(victim))
        time.sleep(fault.lasts_s)
        hit = hit and is_alive(victim)
        _signal(members, signal.SIGCONT)
    return Fault(victim=fault.victim, what=fault.what, at=at) if hit else None


def _has_stopped(victim: Process) -> bool:
    running = find_process(victim.pid)
    return running is None or running.state == STOPPED


def find(plant: Installation, name: str) -> Process | None:
    """Find the running process of a victim."""
    supervisor, _, in_driver = name.partition("/")
    if in_driver:
        run = plant.settings.home / "run"
        below = run if supervisor == "supervisor" else run / supervisor
        return find_in_driver(below / "driver.pid", in_driver)
    services = {service.name: service for service in plant.stack.status().services}
    found = services[name].process if name in services else None
    return found if found is not None and is_alive(found) else None


def family(victim: Process) -> tuple[Process, ...]:
    """Return a process and all that it started, which may be in groups of their own."""
    parents = {found.process.pid: _parent(found.process.pid) for found in running_processes()}
    members = {victim.pid}
    while True:
        more = {pid for pid, parent in parents.items() if parent in members} - members
        if not more:
            break
        members |= more
    return tuple(p for pid in sorted(members) if (p := process_of(pid)) is not None)


def _parent(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(text.rpartition(")")[2].split()[1])


def _signal(members: tuple[Process, ...], number: signal.Signals) -> None:
    for process in members:
        if is_alive(process):
            try:
                os.kill(process.pid, number)
            except ProcessLookupError:
                continue


def _comes_about(happens: Callable[[], bool]) -> bool:
    ends_at = time.monotonic() + GONE_WITHIN_S
    while not happens():
        if time.monotonic() > ends_at:
            return False
        time.sleep(_STEP_S)
    return True

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
from tests.chaos.kept_cluster import CLUSTER_SERVICES, KeptCluster
from tests.chaos.plant import Installation
from tests.spark_cluster import CLUSTER, MASTER_NAME
from tests.spark_processes import DRIVER, JVM, WORKER_DAEMON, find_in_driver

IN_DRIVERS = (DRIVER, JVM)
IN_TASKS = (WORKER_DAEMON, *STANDING_TASKS)
"""Processes that a driver has itself, or that the executors of a cluster have for it."""
SERVICES = ("kafka", "postgres", "server")
EXECUTORS = "executors"
ALONE = (JVM, WORKER_DAEMON, *CLUSTER_SERVICES)
"""Processes that are killed without those that they started, whose owner has to notice."""
GONE_WITHIN_S = 5.0
FOUND_WITHIN_S = 30.0
"""How long a victim may take to start again after an earlier fault."""
STOPPED = "T"
_STEP_S = 0.02

KILL, STOP = "kill", "stop"


@attrs.frozen(kw_only=True)
class PlannedFault:
    """A fault that the seed determines.

    Attributes:
        after_s: The pause before it.
        lasts_s: The time for which a process is stopped; or, after the kill of a service of the
            cluster, until it is started again.
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


def planned(seed: int, *, every_s: float, supervisors: int, spark: str) -> Iterator[PlannedFault]:
    """Draw faults without end: what is hit, how, and after which pause.

    Each victim is hit once in each round, and the seed determines the order.

    Args:
        seed: Determines all of it.
        every_s: The mean pause.
        supervisors: Their number.
        spark: `local`, or `cluster` for the victims of a cluster.
    """
    chance = np.random.default_rng(seed + 1_000_003)
    victims = victims_of(supervisors, spark)
    while True:
        for place in chance.permutation(len(victims)):
            lasts_s = float(chance.choice([1.0, 4.0, 18.0], p=[0.5, 0.35, 0.15]))
            yield PlannedFault(
                victim=victims[place],
                what=KILL if chance.random() < 0.7 else STOP,
                after_s=float(every_s * chance.uniform(0.4, 1.6)),
                lasts_s=lasts_s,
            )


def victims_of(supervisors: int, spark: str) -> list[str]:
    """Return the names of all victims: services, and `PLACE/PROCESS` for a process in a place."""
    names = supervisor_names(supervisors)
    in_drivers = IN_DRIVERS if spark == CLUSTER else (*IN_DRIVERS, *IN_TASKS)
    workers = [name for name in CLUSTER_SERVICES if name != MASTER_NAME]
    on_cluster = [
        *CLUSTER_SERVICES,
        *(f"{worker}/{JVM}" for worker in workers),
        *(f"{EXECUTORS}/{process}" for process in IN_TASKS),
    ]
    return [
        *(f"{name}/{process}" for name in names for process in in_drivers),
        *names,
        *SERVICES,
        *(on_cluster if spark == CLUSTER else ()),
    ]


def kind_of(victim: str) -> str:
    """Return the kind of a victim, without its number: `driver`, `supervisor`, `executor`."""
    place, _, process = victim.rpartition("/")
    if process == JVM and place in CLUSTER_SERVICES:
        return "executor"
    return process.partition("-")[0].rstrip("0123456789")


def supervisor_names(supervisors: int) -> list[str]:
    return ["supervisor", *(f"supervisor-{n}" for n in range(2, supervisors + 1))]


def strike(plant: Installation, fault: PlannedFault) -> Fault | None:
    """Carry a fault out; None if its victim did not start in time, or had ended by itself."""
    _comes_about(lambda: find(plant, fault.victim) is not None, within_s=FOUND_WITHIN_S)
    victim = find(plant, fault.victim)
    if victim is None:
        return None
    # A supervisor's driver is another victim.
    is_supervisor = "/" not in fault.victim and fault.victim.startswith("supervisor")
    is_alone = is_supervisor or fault.victim.rpartition("/")[2] in ALONE
    members = (victim,) if is_alone else family(victim)
    at = time.monotonic()
    if fault.what == KILL:
        if plant.cluster is not None:
            plant.cluster.delay(fault.victim, fault.lasts_s)
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
    place, _, process = name.partition("/")
    if plant.cluster is not None and place in (EXECUTORS, *CLUSTER_SERVICES):
        return _find_on_cluster(plant.cluster, place, process)
    if process:
        run = plant.settings.home / "run"
        below = run if place == "supervisor" else run / place
        return find_in_driver(below / "driver.pid", process)
    services = {service.name: service for service in plant.stack.status().services}
    found = services[name].process if name in services else None
    return found if found is not None and is_alive(found) else None


def _find_on_cluster(cluster: KeptCluster, place: str, process: str) -> Process | None:
    if not process:
        return cluster.find_service(place)
    return cluster.find_in_executors("" if place == EXECUTORS else place, process)


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


def _comes_about(happens: Callable[[], bool], *, within_s: float = GONE_WITHIN_S) -> bool:
    ends_at = time.monotonic() + within_s
    while not happens():
        if time.monotonic() > ends_at:
            return False
        time.sleep(_STEP_S)
    return True

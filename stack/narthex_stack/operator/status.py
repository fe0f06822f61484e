"""The status of each service, and the file in which the operator stores it."""

import datetime as dt
import enum
from pathlib import Path

import attrs

from narthex._processes import Process
from narthex_stack.machine.files import Json, load_object, store_json


class ServiceState(enum.Enum):
    """The state of a service in its lifecycle."""

    WAITING = "waiting"
    PREPARING = "preparing"
    STARTING = "starting"
    HEALTHY = "healthy"
    UNWELL = "unwell"
    BACKING_OFF = "backing off"
    STOPPING = "stopping"
    STOPPED = "stopped"
    EXTERNAL = "external"


NEXT: dict[ServiceState, frozenset[ServiceState]] = {
    ServiceState.WAITING: frozenset({ServiceState.PREPARING, ServiceState.STOPPING}),
    ServiceState.PREPARING: frozenset(
        {ServiceState.STARTING, ServiceState.BACKING_OFF, ServiceState.STOPPING}
    ),
    ServiceState.STARTING: frozenset(
        {ServiceState.HEALTHY, ServiceState.BACKING_OFF, ServiceState.STOPPING}
    ),
    ServiceState.HEALTHY: frozenset(
        {ServiceState.UNWELL, ServiceState.BACKING_OFF, ServiceState.STOPPING}
    ),
    ServiceState.UNWELL: frozenset(
        {ServiceState.HEALTHY, ServiceState.BACKING_OFF, ServiceState.STOPPING}
    ),
    ServiceState.BACKING_OFF: frozenset({ServiceState.WAITING, ServiceState.STOPPING}),
    ServiceState.STOPPING: frozenset({ServiceState.STOPPED}),
    ServiceState.STOPPED: frozenset(),
    ServiceState.EXTERNAL: frozenset(),
}
"""The states that may follow each state."""

GIVES_UP_AFTER = 4
"""`up` stops waiting for a service after this many failures; the operator keeps trying."""


@attrs.frozen(kw_only=True)
class ServiceStatus:
    """The last status of one service.

    Attributes:
        name: The name of the service.
        group: Its group in `--only`.
        state: Its state.
        since: When it entered this state.
        process: Its process, if it has one.
        port: The port on which it listens; 0 if it does not.
        restarts: How often it had to be restarted.
        failures: How many times in a row it ended, not counted from before it was last healthy.
        reason: The problem, or the address of an external service; may be empty.
    """

    name: str
    group: str
    state: ServiceState
    since: dt.datetime
    process: Process | None = None
    port: int = 0
    restarts: int = 0
    failures: int = 0
    reason: str = ""

    @property
    def is_well(self) -> bool:
        return self.state in {ServiceState.HEALTHY, ServiceState.EXTERNAL}

    @property
    def is_hopeless(self) -> bool:
        return self.failures >= GIVES_UP_AFTER


@attrs.frozen(kw_only=True)
class Status:
    """The last status of an installation; without an operator, it has no services.

    Attributes:
        home: The directory of the installation.
        operator: The process of the operator.
        services: The status of each service.
        sandbox: The server's report of the sandbox of authors' code: `full`, or what is wrong;
            empty while the server does not answer.
        job_problems: What is wrong with jobs, a line for each: those that fail, and those that have
            sent rows to quarantine.
    """

    home: Path
    operator: Process | None
    services: tuple[ServiceStatus, ...] = ()
    sandbox: str = ""
    job_problems: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        return self.operator is not None and all(service.is_well for service in self.services)


def plain(status: Status) -> dict[str, Json]:
    """Render a status as JSON."""
    services: list[Json] = [_plain(service) for service in status.services]
    return {
        "home": str(status.home),
        "operator": _plain_process(status.operator),
        "healthy": status.is_well,
        "sandbox": status.sandbox,
        "job_problems": list(status.job_problems),
        "services": services,
    }


def _plain_process(process: Process | None) -> Json:
    return None if process is None else {**process.plain()}


def _plain(service: ServiceStatus) -> Json:
    return {
        "name": service.name,
        "group": service.group,
        "state": service.state.value,
        "since": service.since.isoformat(),
        "process": _plain_process(service.process),
        "port": service.port,
        "restarts": service.restarts,
        "failures": service.failures,
        "reason": service.reason,
    }


def _parse(value: Json) -> ServiceStatus:
    if not isinstance(value, dict):
        raise TypeError("a service's status is a JSON object")
    return ServiceStatus(
        name=str(value["name"]),
        group=str(value["group"]),
        state=ServiceState(value["state"]),
        since=dt.datetime.fromisoformat(str(value["since"])),
        process=Process.parse(value["process"]),
        port=int(str(value["port"])),
        restarts=int(str(value["restarts"])),
        failures=int(str(value["failures"])),
        reason=str(value["reason"]),
    )


def store_status(path: Path, status: Status) -> None:
    """Replace the stored status."""
    store_json(path, plain(status))


def load_children(path: Path) -> tuple[Process, ...]:
    """Return the children that an operator, perhaps dead by now, has recorded."""
    found: list[Json] = list(load_object(path).values())
    return tuple(process for each in found if (process := Process.parse(each)) is not None)


def load_services(path: Path) -> tuple[ServiceStatus, ...]:
    """Return the stored status of each service; empty if the operator wrote none."""
    found = load_object(path).get("services", [])
    return tuple(_parse(each) for each in found) if isinstance(found, list) else ()

"""What the keeper says of each service, and the file it says it in."""

import datetime as dt
import enum
from pathlib import Path

import attrs

from narthex_stack.machine.files import Json, load_object, store_json
from narthex_stack.processes.process_table import Process


class ServiceState(enum.Enum):
    """Where a service is in its life."""

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
"""What may follow what."""

GIVES_UP_AFTER = 4
"""`up` stops waiting for a service that failed this often; the keeper goes on trying."""


@attrs.frozen(kw_only=True)
class ServiceStatus:
    """One service as the keeper last saw it.

    Attributes:
        name: Its name.
        group: What `--only` calls it.
        state: Where it is in its life.
        since: When it came there.
        process: Its process, when it has one.
        port: Where it listens; 0 for nowhere.
        restarts: How often it had to be started again.
        failures: How many starts in a row ended before it was healthy.
        reason: What is wrong, or where it is when it is elsewhere; may be empty.
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
    """An installation as its keeper last saw it; no keeper, no services.

    Attributes:
        home: Its directory.
        keeper: The process that keeps its services.
        services: Each service.
        sandbox: How the server reports the sandbox of authors' code: `full`, or what is wrong;
            empty while the server does not answer.
    """

    home: Path
    keeper: Process | None
    services: tuple[ServiceStatus, ...] = ()
    sandbox: str = ""

    @property
    def is_well(self) -> bool:
        return self.keeper is not None and all(service.is_well for service in self.services)


def plain(status: Status) -> dict[str, Json]:
    """Render a status as JSON."""
    services: list[Json] = [_plain(service) for service in status.services]
    return {
        "home": str(status.home),
        "keeper": _plain_process(status.keeper),
        "healthy": status.is_well,
        "sandbox": status.sandbox,
        "services": services,
    }


def _plain_process(process: Process | None) -> Json:
    return None if process is None else {"pid": process.pid, "start": process.start}


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


def parse_process(value: Json) -> Process | None:
    """Read a process back."""
    match value:
        case {"pid": int(pid), "start": int(start)}:
            return Process(pid=pid, start=start)
        case _:
            return None


def _parse(value: Json) -> ServiceStatus:
    if not isinstance(value, dict):
        raise TypeError("a service's status is a JSON object")
    return ServiceStatus(
        name=str(value["name"]),
        group=str(value["group"]),
        state=ServiceState(value["state"]),
        since=dt.datetime.fromisoformat(str(value["since"])),
        process=parse_process(value["process"]),
        port=int(str(value["port"])),
        restarts=int(str(value["restarts"])),
        failures=int(str(value["failures"])),
        reason=str(value["reason"]),
    )


def store_status(path: Path, status: Status) -> None:
    """Replace the file."""
    store_json(path, plain(status))


def load_children(path: Path) -> tuple[Process, ...]:
    """List the children that a keeper, perhaps dead by now, has written down."""
    found: list[Json] = list(load_object(path).values())
    return tuple(process for each in found if (process := parse_process(each)) is not None)


def load_services(path: Path) -> tuple[ServiceStatus, ...]:
    """Read what the keeper last wrote; nothing when it wrote nothing."""
    found = load_object(path).get("services", [])
    return tuple(_parse(each) for each in found) if isinstance(found, list) else ()

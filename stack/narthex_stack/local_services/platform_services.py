"""Narthex's own processes: the server, the processes that only read, and the supervisors."""

import datetime as dt
import os
import sys
from pathlib import Path

from narthex.settings import environment_of
from narthex_stack.install.installation import Installation
from narthex_stack.local_services.class_archive import ensure_class_archive
from narthex_stack.local_services.probes import look_at_heartbeat, look_at_url
from narthex_stack.machine.jars import CONNECTORS, resolve
from narthex_stack.machine.java import java_home
from narthex_stack.processes.service import Service

SUPERVISOR = "supervisor"
"""The name of the first supervisor, and of their group."""

FRESH = dt.timedelta(seconds=15)
"""A supervisor that has not touched its file for this long is unhealthy."""


def _environment(installation: Installation) -> dict[str, str]:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    return environment_of(installation.settings) | {"PATH": path}


def _needs(installation: Installation) -> tuple[str, ...]:
    config = installation.config
    return (
        *(() if config.ledger_dsn else ("postgres",)),
        *(() if config.kafka else ("kafka",)),
    )


def _needs_of_the_ledger(installation: Installation) -> tuple[str, ...]:
    """Return the needs of a process that reads the ledger, which the server migrates."""
    return (*_needs(installation), *(() if installation.config.server_url else ("server",)))


def server(installation: Installation) -> Service:
    """Return the service of the server, which migrates the ledger before it answers."""
    url = f"{installation.settings.server_url}/healthz"
    return Service(
        name="server",
        group="server",
        command=(sys.executable, "-m", "narthex_server"),
        environment=_environment(installation),
        cwd=installation.layout.home,
        needs=_needs(installation),
        probe=lambda: look_at_url(url),
        stop_wave=1,
        port=installation.ports["server"],
    )


def read_processes(installation: Installation) -> tuple[Service, ...]:
    """Return the processes that only answer reads, and share a port; none by default."""
    url = f"{installation.settings.reads_url}/healthz"
    return tuple(
        Service(
            name="reads" if number == 1 else f"reads-{number}",
            group="reads",
            command=(sys.executable, "-m", "narthex_server.reads"),
            environment=_environment(installation),
            cwd=installation.layout.home,
            needs=_needs_of_the_ledger(installation),
            probe=lambda: look_at_url(url),
            outlives_operator=True,
            stop_wave=0,
        )
        for number in range(1, int(installation.config.reads or 0) + 1)
    )


def supervisors(installation: Installation) -> tuple[Service, ...]:
    """Return the supervisors, which keep drivers and writers running and share the jobs."""
    wanted = int(installation.config.supervisors or 1)
    return tuple(
        _supervisor(installation, SUPERVISOR if number == 1 else f"{SUPERVISOR}-{number}")
        for number in range(1, wanted + 1)
    )


def _supervisor(installation: Installation, name: str) -> Service:
    layout = installation.layout
    heartbeat = layout.heartbeat(name)
    java = str(java_home(cache=installation.cache))
    environment = _environment(installation) | {
        "JAVA_HOME": java,
        "PYSPARK_PYTHON": sys.executable,
    }

    def prepare() -> None:
        resolve(CONNECTORS, cache=installation.cache)
        ensure_class_archive(installation.settings, {**os.environ, **environment})
        heartbeat.unlink(missing_ok=True)

    return Service(
        name=name,
        group=SUPERVISOR,
        command=(
            str(Path(sys.executable).with_name("narthex")),
            "supervisor",
            *(() if name == SUPERVISOR else ("--name", name)),
        ),
        environment=environment,
        cwd=layout.home,
        needs=_needs_of_the_ledger(installation),
        prepare=prepare,
        probe=lambda: look_at_heartbeat(heartbeat, now=dt.datetime.now(tz=dt.UTC), within=FRESH),
        stop_wave=0,
    )

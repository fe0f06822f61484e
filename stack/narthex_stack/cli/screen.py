"""The screen of `narthex up`: a live table on a terminal, else a line for each change."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from narthex.settings import FULL, Settings
from narthex_stack.machine.ports import HOST
from narthex_stack.operator.status import ServiceState, ServiceStatus, Status

_COLOURS = {
    ServiceState.HEALTHY: "green",
    ServiceState.EXTERNAL: "cyan",
    ServiceState.UNWELL: "red",
    ServiceState.BACKING_OFF: "red",
    ServiceState.STOPPED: "dim",
}


def age(span: dt.timedelta) -> str:
    """Render a duration for people: `42s`, `3m10s`, `2h05m`."""
    seconds = max(0, int(span.total_seconds()))
    minutes, hours = seconds // 60, seconds // 3600
    if hours:
        return f"{hours}h{minutes % 60:02}m"
    return f"{minutes}m{seconds % 60:02}s" if minutes else f"{seconds}s"


def table(status: Status, *, now: dt.datetime) -> Table:
    """Return a table of the services of an installation."""
    drawn = Table(
        title=f"Narthex in {status.home}",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for heading in ("service", "state", "for", "pid", "port", "restarts", "note"):
        drawn.add_column(heading, overflow="fold")
    for service in status.services:
        drawn.add_row(*_cells(service, now=now))
    return drawn


def weakness(status: Status) -> str:
    """Return what is wrong with the sandbox of authors' code; empty if nothing is known."""
    return "" if status.sandbox in {"", FULL} else status.sandbox


def doors(status: Status, settings: Settings, *, keys: Path) -> Iterator[str]:
    """Yield the addresses of running user interfaces, and the file with their credentials."""
    well = {service.name for service in status.services if service.is_well}
    if "server" in well:
        yield f"console: {settings.server_url}/console (sign in with `token` of {keys})"
    if settings.airflow_url and any(name.startswith("airflow") for name in well):
        user = "`airflow_user` and `airflow_password`"
        yield f"Airflow: {settings.airflow_url} (sign in with {user} of {keys})"
    if settings.spark_ui_port and "supervisor" in well:
        yield f"Spark: http://{HOST}:{settings.spark_ui_port} (the first driver on this machine)"


def _cells(service: ServiceStatus, *, now: dt.datetime) -> tuple[str, ...]:
    colour = _COLOURS.get(service.state, "yellow")
    return (
        service.name,
        f"[{colour}]{service.state.value}[/{colour}]",
        age(now - service.since),
        str(service.process.pid) if service.process else "",
        str(service.port) if service.port else "",
        str(service.restarts) if service.restarts else "",
        service.reason[:200].replace("[", "\\["),
    )


class Screen:
    """Shows each status as it comes, on stderr; a terminal gets a live table."""

    def __init__(self, console: Console) -> None:
        """Create an empty screen."""
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._shown: dict[str, ServiceState] = {}

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, status: Status) -> None:
        """Show a status; without a terminal, only its changes."""
        if self._console.is_terminal:
            self._live.update(table(status, now=dt.datetime.now(tz=dt.UTC)), refresh=True)
            return
        for service in status.services:
            if self._shown.get(service.name) is not service.state:
                self._shown[service.name] = service.state
                self._console.print(f"{service.name}: {service.state.value}", highlight=False)

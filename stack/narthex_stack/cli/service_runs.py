"""Runs of `narthex up`, `down`, `status` and `logs`."""

import datetime as dt
import re
import time
from enum import Enum
from pathlib import Path

import attrs
import typer
from rich.console import Console

from narthex.cli.exit_codes import ExitCode
from narthex.cli.output import print_json, print_json_line, print_line
from narthex_stack.cli.error_reports import reporting_errors
from narthex_stack.cli.screen import Screen, doors, table, weakness
from narthex_stack.errors import NotHereError
from narthex_stack.install.formats import upgrade_ahead
from narthex_stack.local_services.groups import parse_groups
from narthex_stack.local_services.probes import job_problems_of, sandbox_of
from narthex_stack.machine.files import tail
from narthex_stack.operator.stack import Stack, require_whole_packages
from narthex_stack.operator.status import Status, plain

_POLL_S = 0.3
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Output(Enum):
    """The format of a status."""

    PEOPLE = "people"
    JSON = "json"


def up(
    home: Path | None, *, only: str | None, files_root: Path | None, within: float, as_json: bool
) -> None:
    """Start the services and wait until they are healthy, as `narthex up` does."""
    console = Console(stderr=True)
    with reporting_errors(console):
        groups = parse_groups(only)
        stack = Stack(home, only=groups, files_root=_resolved(files_root))
        began = time.monotonic()
        if "server" in groups and (ahead := upgrade_ahead(stack.layout)):
            console.print(ahead, markup=False, highlight=False, soft_wrap=True)
        was_running = stack.launch()
        if was_running:
            console.print("already running; checking that it is healthy", highlight=False)
        with Screen(console) as screen:
            statuses = stack.wait_healthy(within_s=within, watch=screen.show)
        _tell(statuses, stack, console=console, output=Output.JSON if as_json else Output.PEOPLE)
        console.print(f"healthy after {time.monotonic() - began:.1f} s", highlight=False)


def down(home: Path | None, *, wipe: bool, as_json: bool) -> None:
    """Stop the services, as `narthex down` does."""
    console = Console(stderr=True)
    with reporting_errors(console):
        stack = Stack(home)
        with Screen(console) as screen:
            stack.stop(watch=screen.show)
        if wipe:
            stack.wipe()
        if as_json:
            print_json(plain(stack.status()))
        console.print("stopped" + (" and wiped" if wipe else ""), highlight=False)


def status(home: Path | None, *, as_json: bool) -> None:
    """Print the status of the services; exit with it."""
    console = Console(stderr=True)
    with reporting_errors(console):
        stack = Stack(home)
        found = stack.status()
        if found.operator is None and not as_json:
            raise NotHereError(f"no services run for `{found.home}`; start them with `narthex up`")
        _tell(found, stack, console=Console(), output=Output.JSON if as_json else Output.PEOPLE)
        require_whole_packages()
    if found.operator is None:
        raise typer.Exit(ExitCode.YOUR_MISTAKE)
    if not found.is_well:
        raise typer.Exit(ExitCode.OUR_FAULT)


def logs(
    service: str | None, *, home: Path | None, follow: bool, lines: int, as_json: bool
) -> None:
    """Print the logs of services, as `narthex logs` does."""
    console = Console(stderr=True)
    with reporting_errors(console):
        directory = Stack(home).layout.logs_dir
        paths = sorted(directory.glob(f"{service}*.log" if service else "*.log"))
        if not paths:
            raise NotHereError(f"`{directory}` has no log of `{service or 'any service'}`")
        for path in paths:
            for line in tail(path, lines=lines).splitlines():
                _print(path, line, output=Output.JSON if as_json else Output.PEOPLE)
        if follow:
            _follow(paths, output=Output.JSON if as_json else Output.PEOPLE)


def _follow(paths: list[Path], *, output: Output) -> None:
    """Print new lines of the logs until Ctrl-C."""
    files = {path: path.open(errors="replace") for path in paths}
    for file in files.values():
        file.seek(0, 2)
    try:
        while True:
            for path, file in files.items():
                for line in file:
                    _print(path, line.rstrip("\n"), output=output)
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        return
    finally:
        for file in files.values():
            file.close()


def _print(path: Path, line: str, *, output: Output) -> None:
    match output:
        case Output.JSON:
            print_json_line({"service": path.stem, "line": line})
        case Output.PEOPLE:
            print_line(f"{path.stem:<22} {_COLOUR.sub('', line)}")


def _tell(status: Status, stack: Stack, *, console: Console, output: Output) -> None:
    services = _with_reports(status, stack)
    match output:
        case Output.JSON:
            print_json(plain(services))
        case Output.PEOPLE:
            console.print(table(services, now=dt.datetime.now(tz=dt.UTC)))
            if weakness(services):
                console.print(weakness(services), style="bold red", markup=False, soft_wrap=True)
            for line in services.job_problems:
                console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
            for line in doors(services, stack.settings, keys=stack.layout.services):
                console.print(line, markup=False, highlight=False, soft_wrap=True)


def _with_reports(found: Status, stack: Stack) -> Status:
    """Return the status with the server's reports of its sandbox and its jobs, if it answers."""
    if not any(service.name == "server" and service.is_well for service in found.services):
        return found
    settings = stack.settings
    return attrs.evolve(
        found,
        sandbox=sandbox_of(f"{settings.server_url}/healthz"),
        job_problems=job_problems_of(f"{settings.server_url}/api/v1/jobs", token=settings.token),
    )


def _resolved(path: Path | None) -> Path | None:
    return path.resolve() if path else None

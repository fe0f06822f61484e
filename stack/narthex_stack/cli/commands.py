"""`narthex up`, `down`, `status` and `logs`: commands for the services of this machine."""

import datetime as dt
import re
import time
from enum import Enum
from pathlib import Path
from typing import Annotated

import attrs
import typer
from rich.console import Console

from narthex.cli.exit_codes import ExitCode
from narthex.cli.output import AsJson, AsJsonLines, print_json, print_json_line, print_line
from narthex_stack.cli.backups import backup, restore
from narthex_stack.cli.options import Home, reporting_errors
from narthex_stack.cli.screen import Screen, doors, table, weakness
from narthex_stack.cli.upgrades import upgrade
from narthex_stack.errors import NotHereError
from narthex_stack.install.formats import upgrade_ahead
from narthex_stack.local_services.probes import job_problems_of, sandbox_of
from narthex_stack.local_services.service_plan import GROUPS, parse_groups
from narthex_stack.machine.files import tail
from narthex_stack.operator.stack import START_S, Stack
from narthex_stack.operator.status import Status, plain

_POLL_S = 0.3
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Output(Enum):
    """The format of a status."""

    PEOPLE = "people"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("up")(up)
    app.command("down")(down)
    app.command("status")(status)
    app.command("logs")(logs)
    app.command("backup")(backup)
    app.command("restore")(restore)
    app.command("upgrade")(upgrade)


def up(
    *,
    home: Home = None,
    only: Annotated[
        str | None, typer.Option(help=f"Start only some of {','.join(GROUPS)}, and what they need.")
    ] = None,
    files_root: Annotated[
        Path | None, typer.Option(help="The root of relative file sources [this directory].")
    ] = None,
    within: Annotated[
        float, typer.Option(help="The longest wait for healthy services, in seconds.")
    ] = START_S,
    as_json: AsJson = False,
) -> None:
    """Start the services of this machine and wait until they are healthy.

    Services that run already are left alone, and a service that dies later is restarted. A
    service with an address in `config.toml` is not started.
    """
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


def down(
    *,
    home: Home = None,
    wipe: Annotated[bool, typer.Option("--wipe", help="Also delete the state.")] = False,
    as_json: AsJson = False,
) -> None:
    """Stop all services of this machine, in order."""
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


def status(*, home: Home = None, as_json: AsJson = False) -> None:
    """Show the services and their health; exit with 3 if one is not healthy."""
    console = Console(stderr=True)
    with reporting_errors(console):
        stack = Stack(home)
        found = stack.status()
        if found.operator is None and not as_json:
            raise NotHereError(f"no services run for `{found.home}`; start them with `narthex up`")
        _tell(found, stack, console=Console(), output=Output.JSON if as_json else Output.PEOPLE)
    if found.operator is None:
        raise typer.Exit(ExitCode.YOUR_MISTAKE)
    if not found.is_well:
        raise typer.Exit(ExitCode.OUR_FAULT)


def logs(
    service: Annotated[str | None, typer.Argument(help="The name of a service [all].")] = None,
    *,
    home: Home = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines.")
    ] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", help="The number of last lines to print of each log.")
    ] = 40,
    as_json: AsJsonLines = False,
) -> None:
    """Print the logs of services on stdout."""
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

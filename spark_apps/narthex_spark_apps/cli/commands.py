"""Commands of the engine: `narthex supervisor` and `snapshots`."""

import re
from typing import Annotated

import typer

from narthex.cli.output import AsJsonLines
from narthex_spark_apps.cli.snapshot_commands import snapshots

_NAME = re.compile(r"[a-z][a-z0-9-]{0,40}")


def register(app: typer.Typer) -> None:
    """Add the engine's commands."""
    app.command("supervisor")(supervisor)
    app.add_typer(snapshots)


def supervisor(
    *,
    name: Annotated[
        str, typer.Option(help="A name that is unique on this machine and home.")
    ] = "supervisor",
    lazy: Annotated[
        bool,
        typer.Option("--lazy", help="Start the driver and the writers only when they have work."),
    ] = False,
    as_json: AsJsonLines = False,
) -> None:
    """Run a share of the streaming jobs until stopped.

    Any number of supervisors may run, on any machines; they share the jobs evenly. On SIGTERM a
    supervisor drains its jobs and returns them. It prints each event, with `--json` as an object.
    """
    from narthex_spark_apps.cli.supervisor_process import run  # noqa: PLC0415 - not for the help

    if not _NAME.fullmatch(name):
        raise typer.BadParameter(
            f"`{name}` is not a name: use lower-case letters, digits and -", param_hint="name"
        )
    run(name, lazy=lazy, as_json=as_json)

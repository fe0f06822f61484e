"""`narthex up`, `down`, `status` and others: commands for the services of this machine.

What they run is imported when they run: `service_runs`, `backups` and `upgrades`.
"""

from pathlib import Path
from typing import Annotated

import typer

from narthex.cli.output import AsJson, AsJsonLines
from narthex_stack.local_services.groups import GROUPS, START_S

Home = Annotated[
    Path | None,
    typer.Option(
        "--home", envvar="NARTHEX_HOME", help="The directory of the installation [~/.narthex]."
    ),
]


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
    from narthex_stack.cli import service_runs  # noqa: PLC0415 - not for the help

    service_runs.up(home, only=only, files_root=files_root, within=within, as_json=as_json)


def down(
    *,
    home: Home = None,
    wipe: Annotated[bool, typer.Option("--wipe", help="Also delete the state.")] = False,
    as_json: AsJson = False,
) -> None:
    """Stop all services of this machine, in order."""
    from narthex_stack.cli import service_runs  # noqa: PLC0415 - not for the help

    service_runs.down(home, wipe=wipe, as_json=as_json)


def status(*, home: Home = None, as_json: AsJson = False) -> None:
    """Show the services and their health; exit with 3 if one is not healthy."""
    from narthex_stack.cli import service_runs  # noqa: PLC0415 - not for the help

    service_runs.status(home, as_json=as_json)


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
    from narthex_stack.cli import service_runs  # noqa: PLC0415 - not for the help

    service_runs.logs(service, home=home, follow=follow, lines=lines, as_json=as_json)


def backup(
    target: Annotated[Path, typer.Argument(help="The directory to write; it must not exist.")],
    *,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Copy the installation of this machine, its services stopped for that time.

    The copy has the ledger, the logs, the indexes and the histories of one instant. Its file
    `keys.tar` has the keys and passwords; keep it apart from the rest.
    """
    from narthex_stack.cli import backups  # noqa: PLC0415 - not for the help

    backups.backup(target, home=home, as_json=as_json)


def restore(
    source: Annotated[Path, typer.Argument(help="The directory of a backup.")],
    *,
    home: Home = None,
    keys: Annotated[
        Path | None, typer.Option(help="The file with the keys, if it is kept elsewhere.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the state of a backup to a home that has no installation; start nothing."""
    from narthex_stack.cli import backups  # noqa: PLC0415 - not for the help

    backups.restore(source, home=home, keys=keys, as_json=as_json)


def upgrade(
    *,
    home: Home = None,
    backup: Annotated[
        Path | None,
        typer.Option(help="The directory of the backup [beside the home, with the time]."),
    ] = None,
    no_backup: Annotated[
        bool, typer.Option("--no-backup", help="Make no backup; then nothing leads back.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring an installation that an earlier release wrote to this release.

    It makes a backup first, with which the earlier release can go on. The services are stopped
    meanwhile; those that ran start again. If nothing is to change, it does nothing. An
    interrupted upgrade can be repeated.
    """
    from narthex_stack.cli import upgrades  # noqa: PLC0415 - not for the help

    upgrades.upgrade(home, backup=backup, no_backup=no_backup, dry_run=dry_run, as_json=as_json)

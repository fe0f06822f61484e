"""`narthex upgrade`: bring an installation to this release."""

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from narthex.cli.output import AsJson, print_json, tell
from narthex_stack.cli.backups import copy_bar
from narthex_stack.cli.options import Home, reporting_errors
from narthex_stack.operator.stack import Stack

if TYPE_CHECKING:
    from narthex_stack.operator.upgrades import Upgrade


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
    from narthex_stack.operator import upgrades  # noqa: PLC0415 - it loads the ledger

    if backup is not None and no_backup:
        raise typer.BadParameter("name a directory, or pass `--no-backup`", param_hint="--backup")
    console = Console(stderr=True)
    stack = Stack(home)
    with reporting_errors(console):
        if dry_run:
            done = upgrades.plan_upgrade(stack)
        else:
            target = None if no_backup else backup or _beside(stack.layout.home)
            with copy_bar(console, "backing up") as progress:
                done = upgrades.upgrade(stack, backup=target, progress=progress)
    if as_json:
        print_json(done.plain())
    else:
        _tell(done, verb="would upgrade" if dry_run else "upgraded")


def _tell(done: "Upgrade", *, verb: str) -> None:
    if done.changes_nothing:
        tell(f"nothing to upgrade: the ledger has schema {done.schema.after}")
        return
    if done.schema.migrations:
        tell(f"{verb} the ledger from {done.schema.before or 'nothing'} to {done.schema.after}:")
    for line in done.schema.migrations:
        tell(f"  {line}")
    for kind, (before, after) in done.stores.items():
        tell(f"{verb} {kind} from format {before} to {after}")
    if done.backup is not None:
        tell(f"the state before it is in {done.backup}")


def _beside(home: Path) -> Path:
    now = dt.datetime.now(tz=dt.UTC)
    return home.with_name(f"{home.name}-before-upgrade-{now:%Y%m%dT%H%M%SZ}")

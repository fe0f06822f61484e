"""One run of `narthex upgrade`: bring an installation to this release."""

import datetime as dt
from pathlib import Path

import typer
from rich.console import Console

from narthex.cli.output import print_json, tell
from narthex_stack.cli.backups import copy_bar
from narthex_stack.cli.error_reports import reporting_errors
from narthex_stack.operator import upgrades
from narthex_stack.operator.stack import Stack
from narthex_stack.operator.upgrades import Upgrade


def upgrade(
    home: Path | None, *, backup: Path | None, no_backup: bool, dry_run: bool, as_json: bool
) -> None:
    """Bring an installation to this release, as `narthex upgrade` does."""
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


def _tell(done: Upgrade, *, verb: str) -> None:
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

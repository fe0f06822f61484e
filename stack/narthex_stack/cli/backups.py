"""`narthex backup` and `restore`: copies of a whole installation."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from narthex.cli.output import AsJson, print_done
from narthex_stack.cli.options import Home, reporting_errors
from narthex_stack.operator import backups
from narthex_stack.operator.stack import Stack


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
    console = Console(stderr=True)
    with reporting_errors(console), copy_bar(console, "copying") as progress:
        made = backups.back_up(Stack(home), target, progress=progress)
    size = sum(size for size, _ in made.files.values())
    left_out = "".join(f"; left out: the link {name}" for name in made.links)
    message = f"backed up to {target}: {size / 1e6:,.1f} MB{left_out}"
    print_done(made.plain(), message, as_json=as_json)


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
    console = Console(stderr=True)
    stack = Stack(home)
    with reporting_errors(console), copy_bar(console, "restoring") as progress:
        found = backups.restore(stack, source, keys=keys, progress=progress)
    message = f"restored to {stack.layout.home}, as of {found.made_at}; start it with `narthex up`"
    print_done(found.plain(), message, as_json=as_json)


@contextmanager
def copy_bar(console: Console, verb: str) -> Iterator[backups.Progress]:
    """Show how much was copied; the value takes the bytes done and those to do."""
    columns = (TextColumn(verb), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(verb, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

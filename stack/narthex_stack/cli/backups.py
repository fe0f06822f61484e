"""Runs of `narthex backup` and `restore`: copies of a whole installation."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from narthex.cli.output import print_done
from narthex_stack.cli.error_reports import reporting_errors
from narthex_stack.operator import backups
from narthex_stack.operator.stack import Stack


def backup(target: Path, *, home: Path | None, as_json: bool) -> None:
    """Copy an installation, as `narthex backup` does."""
    console = Console(stderr=True)
    with reporting_errors(console), copy_bar(console, "copying") as progress:
        made = backups.back_up(Stack(home), target, progress=progress)
    size = sum(size for size, _ in made.files.values())
    left_out = "".join(f"; left out: the link {name}" for name in made.links)
    message = f"backed up to {target}: {size / 1e6:,.1f} MB{left_out}"
    print_done(made.plain(), message, as_json=as_json)


def restore(source: Path, *, home: Path | None, keys: Path | None, as_json: bool) -> None:
    """Write the state of a backup, as `narthex restore` does."""
    console = Console(stderr=True)
    stack = Stack(home)
    with reporting_errors(console), copy_bar(console, "restoring") as progress:
        found = backups.restore(stack, source, keys=keys, progress=progress)
    new_home = stack.layout.home
    message = (
        f"restored to {new_home}, as of {found.made_at}; start it with "
        f"`narthex up --home {new_home}`"
    )
    print_done(found.plain(), message, as_json=as_json)


@contextmanager
def copy_bar(console: Console, verb: str) -> Iterator[backups.Progress]:
    """Show how much was copied; the value takes the bytes done and those to do."""
    columns = (TextColumn(verb), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(verb, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

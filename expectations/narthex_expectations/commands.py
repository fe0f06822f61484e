"""Register `narthex audit` and `narthex summarize` with the shared command line.

The commands run in separate processes: importing Great Expectations takes a second, and no other
command should wait for it.
"""

import subprocess
import sys

import typer


def register(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command(
        "audit",
        help="Check a dataset against its expectations, or all stores against the ledger.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(audit)
    app.command(
        "summarize",
        help="Summarize the logged answers since the last time, by feature and hour.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(summarize)


def audit(context: typer.Context) -> None:
    """Run the audit with the options of `python -m narthex_expectations`."""
    command = [sys.executable, "-m", "narthex_expectations", *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)


def summarize(context: typer.Context) -> None:
    """Run the summary with the options of `python -m narthex_expectations.answer_summaries`."""
    command = [sys.executable, "-m", "narthex_expectations.answer_summaries", *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)

"""Register `narthex prove` with the shared command line.

The command runs in a separate process, so that no other command waits for its imports.
"""

import subprocess
import sys

import typer


def register(app: typer.Typer) -> None:
    """Add the commands of this room."""
    app.command(
        "prove",
        help="Recompute everything from the logs and report where the platform differs.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(prove)


def prove(context: typer.Context) -> None:
    """Run the proof with the options of `python -m narthex_reference.proving`."""
    command = [sys.executable, "-m", "narthex_reference.proving", *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)

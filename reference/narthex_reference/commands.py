"""`narthex prove`, for the command line that all rooms share.

The command runs as a process of its own, so that no other command waits for what it imports.
"""

import subprocess
import sys

import typer


def register(app: typer.Typer) -> None:
    """Add the commands of this room."""
    app.command(
        "prove",
        help="Compute everything again from the logs, and say where the platform differs.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(prove)


def prove(context: typer.Context) -> None:
    """Run the proof; its options are those of `python -m narthex_reference.proving`."""
    command = [sys.executable, "-m", "narthex_reference.proving", *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)

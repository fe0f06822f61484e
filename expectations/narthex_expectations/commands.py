"""`narthex audit`, for the command line that all rooms share.

The command runs as a process of its own: Great Expectations takes a second to import, which no
other command should wait for.
"""

import subprocess
import sys

import typer


def register(app: typer.Typer) -> None:
    """Add the commands of this room."""
    app.command(
        "audit",
        help="Hold a dataset's history against its expectations.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(audit)


def audit(context: typer.Context) -> None:
    """Run the audit; its options are those of `python -m narthex_expectations`."""
    command = [sys.executable, "-m", "narthex_expectations", *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)

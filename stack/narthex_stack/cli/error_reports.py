"""The errors of the commands of this package, for people."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from narthex.cli.exit_codes import ExitCode
from narthex_stack.errors import (
    BadConfigError,
    NewerInstallationError,
    NotHereError,
    OverwrittenError,
    StackError,
)


@contextmanager
def reporting_errors(console: Console) -> Iterator[None]:
    """Print a failure, and exit with 1 for a user error, 3 for a platform error."""
    try:
        yield
    except (BadConfigError, NewerInstallationError, NotHereError, OverwrittenError) as error:
        console.print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(ExitCode.YOUR_MISTAKE) from None
    except StackError as error:
        console.print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(ExitCode.OUR_FAULT) from None

"""The command line `narthex`; each package registers its own commands."""

import sys
from importlib import metadata
from typing import Final

import typer

from narthex.errors import ClientError, DefinitionErrors, NarthexError, Refused, Unreachable

GROUP: Final = "narthex.commands"
DONE, YOUR_MISTAKE, OUR_FAULT = 0, 1, 3


def make_app() -> typer.Typer:
    """Build the application from the commands of all installed packages."""
    app = typer.Typer(
        rich_markup_mode=None,
        name="narthex",
        help="The open data plane for real-time machine-learning features.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for entry in sorted(metadata.entry_points(group=GROUP), key=lambda entry: entry.name):
        _register(app, entry)
    return app


def _options(
    *,
    verbose: bool = typer.Option(default=False, help="Also report commands that cannot be loaded."),
) -> None:
    del verbose  # `_register` reads it from `sys.argv`, before typer parses options


def _register(app: typer.Typer, entry: metadata.EntryPoint) -> None:
    try:
        register = entry.load()
    except Exception as error:  # noqa: BLE001 (a broken room must not take the others' commands)
        if "--verbose" in sys.argv:
            sys.stderr.write(f"narthex: cannot load the commands of `{entry.name}`: {error}\n")
        return
    register(app)


def main() -> None:
    """Run the command line.

    Exits with 0 on success, 1 for a user error, 2 for a usage error, 3 for a platform error.
    """
    app = make_app()
    try:
        app()
    except DefinitionErrors as errors:
        _fail(str(errors), YOUR_MISTAKE)
    except NarthexError as error:
        _fail(str(error), _whose(error))


def _whose(error: NarthexError) -> int:
    match error:
        case Refused():
            return YOUR_MISTAKE if error.is_users else OUR_FAULT
        case Unreachable():
            return OUR_FAULT
        case ClientError():
            return YOUR_MISTAKE
        case _:
            return YOUR_MISTAKE


def _fail(report: str, code: int) -> None:
    sys.stderr.write(f"{report}\n")
    sys.exit(code)

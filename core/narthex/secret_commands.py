"""Commands for the secrets that definitions name: `narthex secret set|list|delete`."""

import json
import sys
from typing import Annotated

import typer

from narthex.secret_files import SecretFiles
from narthex.settings import load_settings

Name = Annotated[str, typer.Argument(help='What definitions call it, `Secret("name")`.')]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    secret = typer.Typer(
        name="secret",
        help="Keep the secrets that definitions name, on this machine's platform.",
        no_args_is_help=True,
    )
    secret.command("set")(keep)
    secret.command("list")(names)
    secret.command("delete")(forget)
    app.add_typer(secret)


def keep(name: Name) -> None:
    """Keep a secret; its value is read from stdin, and asked for on a terminal.

    A line's end after the value is not part of it.
    """
    if sys.stdin.isatty():
        value = str(typer.prompt(f"value of {name}", hide_input=True, err=True))
    else:
        value = sys.stdin.read().removesuffix("\n")
    _files().keep(name, value)
    sys.stderr.write(f"secret `{name}` is kept\n")


def names(*, as_json: AsJson = False) -> None:
    """List the names of secrets; never their values."""
    found = _files().names()
    sys.stdout.write(json.dumps(found) + "\n" if as_json else "".join(f"{n}\n" for n in found))


def forget(name: Name) -> None:
    """Remove a secret; what needs it fails at its next start."""
    _files().forget(name)
    sys.stderr.write(f"secret `{name}` is gone\n")


def _files() -> SecretFiles:
    return SecretFiles(load_settings().secrets_dir)

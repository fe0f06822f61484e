"""Commands for the secrets that definitions refer to: `narthex secret set|list|delete`."""

import sys
from typing import Annotated

import typer

from narthex.cli.options import Token, Url, connect
from narthex.cli.output import AsJson, print_done, print_json, print_line, tell

Name = Annotated[str, typer.Argument(help='The name in definitions, `Secret("name")`.')]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    secret = typer.Typer(
        name="secret",
        help="Manage the secrets of definitions, which the ledger stores sealed.",
        no_args_is_help=True,
    )
    secret.command("set")(keep)
    secret.command("list")(names)
    secret.command("delete")(forget)
    app.add_typer(secret)


def keep(name: Name, *, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """Store a secret; read its value from stdin, or prompt for it on a terminal.

    A final newline is not part of the value. Jobs read the value at their next start.
    """
    if sys.stdin.isatty():
        value = str(typer.prompt(f"value of {name}", hide_input=True, err=True))
    else:
        value = sys.stdin.read().removesuffix("\n")
    client = connect(url, token)
    if name in client.list_secrets():
        answer = client.update_secret(name, value)
    else:
        answer = client.add_secret(name, value)
    print_done(answer.body, f"stored secret `{name}`", as_json=as_json)
    if hint := answer.body.get("hint"):
        tell(f"no branch may use it yet; {hint}")


def names(*, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """List the names of secrets, without their values."""
    secrets = connect(url, token).list_secrets()
    if as_json:
        print_json([*secrets])
        return
    for name in secrets:
        print_line(name)


def forget(name: Name, *, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """Delete a secret; jobs that need it fail at their next start."""
    done = connect(url, token).delete_secret(name).body
    print_done(done, f"deleted secret `{name}`", as_json=as_json)

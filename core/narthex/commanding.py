"""What commands have in common: their options, a client, and where output goes."""

import json
import sys
from typing import Annotated

import typer

from narthex.client import Client
from narthex.errors import ArgumentsUnfit
from narthex.records import Json
from narthex.settings import NotInstalledError, load_settings

Url = Annotated[str, typer.Option(envvar="NARTHEX_URL", help="The server [that of `narthex up`].")]
Token = Annotated[str, typer.Option(envvar="NARTHEX_TOKEN", help="The token of the server.")]
Branch = Annotated[str, typer.Option(envvar="NARTHEX_BRANCH", help="The branch.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def connect(url: str, token: str, branch: str = "main") -> Client:
    """Give a client of the server that the options name, else of the one on this machine.

    Raises:
        ArgumentsUnfit: No server is named, and none is here.
    """
    if url:
        return Client(url, token, branch)
    try:
        settings = load_settings()
    except NotInstalledError as error:
        raise ArgumentsUnfit(
            f"no server is known: {error}", hint="give `--url`, or start one with `narthex up`"
        ) from None
    return Client(settings.server_url, token or settings.token, branch)


def print_line(line: str) -> None:
    """Print one line of data."""
    sys.stdout.write(f"{line}\n")


def print_json(value: Json) -> None:
    """Print data as JSON."""
    print_line(json.dumps(value, indent=2))


def tell(story: str) -> None:
    """Tell a person something; it is no data."""
    sys.stderr.write(f"{story}\n")

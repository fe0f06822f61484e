"""Options and the client that commands share."""

from typing import Annotated

import typer

from narthex.cli.projects.project_file import CHOSEN
from narthex.cli.projects.stored_tokens import stored_token
from narthex.client import Client
from narthex.errors import ArgumentsUnfit
from narthex.settings import NotInstalledError, load_settings

Url = Annotated[
    str, typer.Option(envvar="NARTHEX_URL", help="The server's URL [from `narthex up`].")
]
Token = Annotated[str, typer.Option(envvar="NARTHEX_TOKEN", help="The token for the server.")]
Branch = Annotated[str, typer.Option(envvar="NARTHEX_BRANCH", help="The name of the branch.")]


def connect(url: str, token: str, branch: str = "main") -> Client:
    """Return a client of the server at `url`, or of the one on this machine.

    Raises:
        ArgumentsUnfit: `url` is empty and this machine has no installation, or the profile of the
            server cannot give its token.
    """
    token = token or CHOSEN.token_for(url)
    if url:
        return Client(url, token or stored_token(url), branch)
    try:
        settings = load_settings()
    except NotInstalledError as error:
        raise ArgumentsUnfit(
            f"there is no server: {error}", hint="pass `--url`, or start one with `narthex up`"
        ) from None
    return Client(settings.server_url, token or settings.token, branch)

"""Options and the client that commands share.

Clients are imported when a command connects, so that its help does not load them.
"""

import datetime as dt
from typing import TYPE_CHECKING, Annotated

import typer

from narthex.cli.projects.project_file import CHOSEN
from narthex.cli.projects.stored_tokens import stored_token
from narthex.errors import ArgumentsUnfit

if TYPE_CHECKING:
    from narthex._server_calls.plain_client import PlainClient
    from narthex.client import Client

Url = Annotated[
    str, typer.Option(envvar="NARTHEX_URL", help="The server's URL [from `narthex up`].")
]
Token = Annotated[str, typer.Option(envvar="NARTHEX_TOKEN", help="The token for the server.")]
Branch = Annotated[str, typer.Option(envvar="NARTHEX_BRANCH", help="The name of the branch.")]


def instant(text: str) -> dt.datetime | None:
    """Return the instant of an option, in UTC unless it has a zone; None for an empty text.

    Raises:
        BadParameter: It is not an instant.
    """
    if not text:
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"`{text}` is not an instant like 2013-01-01T00:00:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def connect(url: str, token: str, branch: str = "main") -> "PlainClient":
    """Return a client of the server at `url`, or of the one on this machine.

    Raises:
        ArgumentsUnfit: `url` is empty and this machine has no installation, or the profile of the
            server cannot give its token.
    """
    from narthex._server_calls.plain_client import PlainClient  # noqa: PLC0415

    return PlainClient(*_server(url, token), branch)


def connect_with_frames(url: str, token: str, branch: str) -> "Client":
    """Return a client as `connect` does, whose calls take frames: it loads pandas."""
    from narthex.client import Client  # noqa: PLC0415

    return Client(*_server(url, token), branch)


def _server(url: str, token: str) -> tuple[str, str]:
    """Return the URL and the token of the server."""
    from narthex.settings import NotInstalledError, load_settings  # noqa: PLC0415

    token = token or CHOSEN.token_for(url)
    if url:
        return url, token or stored_token(url)
    try:
        settings = load_settings()
    except NotInstalledError as error:
        raise ArgumentsUnfit(
            f"there is no server: {error}", hint="pass `--url`, or start one with `narthex up`"
        ) from None
    return settings.server_url, token or settings.token

"""The command `narthex login`: sign in by the browser, and keep the token of the server."""

from typing import Annotated

import typer

from narthex.cli.options import Url
from narthex.cli.output import AsJson


def login(
    *,
    url: Url = "",
    port: Annotated[
        int,
        typer.Option(
            help="The port on this machine to which the browser brings the code.", min=0, max=65535
        ),
    ] = 0,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    shown: Annotated[
        bool, typer.Option("--print", help="Print the token on stdout, and store nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Sign in by the browser, and keep a token of some hours for the server."""
    from narthex.cli.local.browser_sign_in import sign_in  # noqa: PLC0415 - it loads HTTP

    sign_in(url, port=port, browser=browser, shown=shown, as_json=as_json)

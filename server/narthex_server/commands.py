"""Commands of the server: `narthex server`."""

import typer

from narthex_server.__main__ import serve


def register(app: typer.Typer) -> None:
    """Add the server's commands."""
    app.command("server")(server)


def server() -> None:
    """Serve commits, rows, questions and the console, until told to stop."""
    serve()

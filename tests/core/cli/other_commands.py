"""Commands that another package adds to `narthex`."""

import sys

import typer


def register(app: typer.Typer) -> None:
    @app.command()
    def greet() -> None:
        """Greet whoever runs it."""
        sys.stdout.write("hello\n")

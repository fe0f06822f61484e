"""`python -m narthex_stack`: the commands of this package alone."""

import typer

from narthex_stack.cli.commands import register

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
register(app)

if __name__ == "__main__":
    app()

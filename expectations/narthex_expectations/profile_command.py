"""`narthex profile`: propose expectations of a dataset from its history."""

from typing import Annotated

import typer

from narthex.cli.output import AsJson


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("profile")(main)


def main(
    dataset: Annotated[str, typer.Argument(help="The name of a dataset.")],
    *,
    as_json: AsJson = False,
    branch: Annotated[
        str, typer.Option(envvar="NARTHEX_BRANCH", help="The branch of the dataset.")
    ] = "main",
) -> None:
    """Propose expectations for a dataset from its history, as Python to paste.

    Great Expectations checks the proposal on the whole history before it is printed. Nothing is
    stored.
    """
    from narthex_expectations.profile_runs import run  # noqa: PLC0415 - the help needs no stores

    run(dataset, branch=branch, as_json=as_json)

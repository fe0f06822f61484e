"""`narthex profile`: propose expectations of datasets from their histories."""

from typing import Annotated

import typer

from narthex.cli.output import AsJsonLines


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("profile")(main)


def main(
    datasets: Annotated[
        list[str], typer.Argument(metavar="DATASET", help="The names of datasets.")
    ],
    *,
    as_json: AsJsonLines = False,
    branch: Annotated[
        str, typer.Option(envvar="NARTHEX_BRANCH", help="The branch of the datasets.")
    ] = "main",
) -> None:
    """Propose expectations for datasets from their histories, as Python to paste.

    Great Expectations checks each proposal on the whole history before it is printed. Nothing is
    stored. One process profiles the datasets, one after the other. If one cannot be profiled, the
    others are; it is named on stderr, and with --json by a line with its `error`. A name that the
    branch does not serve is refused before anything is profiled.
    """
    from narthex_expectations.profile_runs import run  # noqa: PLC0415 - the help needs no stores

    run(datasets, branch=branch, as_json=as_json)

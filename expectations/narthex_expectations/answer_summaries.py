"""`narthex summarize`: count logged answers and arrived rows by the hour."""

import typer

from narthex.cli.output import AsJson


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("summarize")(main)


def main(
    *,
    as_json: AsJson = False,
) -> None:
    """Summarize logged answers and arrived rows since the last time, by the hour.

    The DAG `drift` does so every hour, before it compares them.
    """
    from narthex_expectations.hourly_summaries import run  # noqa: PLC0415 - the help needs no stores

    run(as_json=as_json)

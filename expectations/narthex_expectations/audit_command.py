"""`narthex audit`: check datasets against their expectations, or the stores against the ledger."""

import enum
from typing import Annotated

import typer

from narthex.cli.output import AsJsonLines


class Chosen(enum.StrEnum):
    """By which times of rows an interval is audited."""

    EVENT_TIME = "event_time"
    ARRIVAL = "arrival"
    BOTH = "both"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("audit")(main)


def main(  # noqa: PLR0913 - one argument an option
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Datasets and featuresets [audit the stores instead]."),
    ] = None,
    *,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="RFC3339", help="The start, included.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="RFC3339", help="The end, excluded.")
    ] = None,
    last_hour: Annotated[
        bool,
        typer.Option(
            "--last-hour",
            help="Audit the hour of event time that ends with the newest row; of a featureset, the "
            "last 60 minutes.",
        ),
    ] = False,
    by: Annotated[
        Chosen,
        typer.Option(help="Which time of rows counts; an aggregate and a featureset have one."),
    ] = Chosen.EVENT_TIME,
    as_json: AsJsonLines = False,
    suite: Annotated[
        bool, typer.Option("--suite", help="Only print the Great Expectations suites.")
    ] = False,
    branch: Annotated[
        str, typer.Option(envvar="NARTHEX_BRANCH", help="The branch of the names.")
    ] = "main",
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="After a restore: make this ledger the owner of the stores."),
    ] = False,
) -> None:
    """Check rows against their expectations, or all stores against the ledger.

    With names: check the rows in [FROM, TO) of each dataset, and of each featureset the answers of
    the queries that were logged then, one after the other in one process. The server stores each
    result. The exit status is 0 if every audit ran, even if expectations failed: the results list
    those. If one could not run, the others do; it is named on stderr, and with --json by a line
    with its `error`. A name that the branch does not serve is refused before anything is audited.

    Without names: check every topic, index, history and checkpoint. The exit status is 0 if all
    match the ledger, 1 if something differs, 3 if a store or the server did not answer.
    """
    from narthex_expectations.audit_runs import run  # noqa: PLC0415 - the help needs no stores

    run(
        names or [],
        from_=from_,
        to=to,
        last_hour=last_hour,
        by_event_time=by is not Chosen.ARRIVAL,
        by_arrival=by is not Chosen.EVENT_TIME,
        suite=suite,
        branch=branch,
        adopt=adopt,
        as_json=as_json,
    )

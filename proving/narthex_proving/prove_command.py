"""`narthex prove`: recompute everything and report where the platform differs."""

import datetime as dt
from typing import Annotated

import typer

from narthex._base import to_micros
from narthex.cli.output import AsJson


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("prove")(main)


def main(  # noqa: PLR0913 - one argument an option
    *,
    commit: Annotated[str, typer.Option(help="The id of a commit [the one that serves].")] = "",
    dataset: Annotated[
        list[str] | None, typer.Option(help="The name of a dataset; repeatable [all].")
    ] = None,
    sample: Annotated[
        float, typer.Option(help="The share of keys to compare.", min=0.0, max=1.0)
    ] = 1.0,
    seed: Annotated[
        int, typer.Option(help="The seed of the instants and the logged queries to compare.")
    ] = 0,
    wait: Annotated[
        float, typer.Option(help="The longest wait for jobs to drain, in seconds.", min=0.0)
    ] = 60.0,
    answers: Annotated[
        int, typer.Option(help="The number of logged queries to repeat, drawn by the seed.", min=0)
    ] = 1_000,
    answered_within: Annotated[
        float | None,
        typer.Option(help="Only queries logged in the last hours; a number [all].", min=0.0),
    ] = None,
    only_answers: Annotated[
        bool, typer.Option("--only-answers", help="Repeat logged queries, compare no dataset.")
    ] = False,
    branch: Annotated[
        str,
        typer.Option(envvar="NARTHEX_BRANCH", help="The branch whose serving commit is checked."),
    ] = "main",
    as_json: AsJson = False,
) -> None:
    """Recompute every dataset from the logs of its sources, and compare row by row.

    The reference engine checks the logs of pipelines, the indexes (their answers at each key's
    instants, and every row and tile that they store) and the histories. Exits with 0 if all
    are equal, 1 if something differs, 3 if something could not be compared.
    """
    from narthex_proving.proof import ProofRequest  # noqa: PLC0415 - the help needs no engine
    from narthex_proving.proof_runs import run  # noqa: PLC0415

    if only_answers and dataset:
        raise typer.BadParameter("pass either --only-answers or --dataset")
    asked = ProofRequest(
        datasets=tuple(dataset or ()),
        sample=sample,
        seed=seed,
        wait_s=wait,
        answers=answers,
        answered_since_ms=_since_ms(answered_within),
        only_answers=only_answers,
    )
    run(asked, branch=branch, commit=commit, as_json=as_json)


def _since_ms(hours: float | None) -> int | None:
    if hours is None:
        return None
    return to_micros(dt.datetime.now(tz=dt.UTC) - dt.timedelta(hours=hours)) // 1000

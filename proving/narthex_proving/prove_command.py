"""`narthex prove`: recompute everything and report where the platform differs."""

import datetime as dt
import sys
from typing import Annotated
from uuid import UUID

import typer

from narthex._base import to_micros
from narthex._runtime.workers import WorkerPool
from narthex.cli.exit_codes import ExitCode
from narthex.cli.output import AsJson, print_json, tell
from narthex.settings import NotInstalledError, load_settings
from narthex_ledger import LedgerError
from narthex_proving.consistent_cut import NotThereError
from narthex_proving.deployed import NothingServesError, deployed
from narthex_proving.findings import Proof
from narthex_proving.proof import ProofRequest, UnknownDatasetError, prove
from narthex_stores import StoreError

EQUAL, DIFFERENT, NOT_COMPARED = ExitCode.DONE, ExitCode.FOUND, ExitCode.OUR_FAULT
_WORKERS = 2


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
    try:
        platform = deployed(
            load_settings(), branch=branch, commit_id=UUID(commit) if commit else None
        )
        with WorkerPool(size=_WORKERS) as pool:
            proof = prove(platform, asked, calls=pool, tell=tell)
    except (
        NotInstalledError,
        NothingServesError,
        NotThereError,
        UnknownDatasetError,
        LedgerError,
        StoreError,
        ValueError,
    ) as error:
        tell(f"narthex prove: {error}")
        raise typer.Exit(NOT_COMPARED) from None
    if as_json:
        print_json(proof.plain())
    else:
        sys.stdout.write(told(proof))
    raise typer.Exit(status_of(proof))


def _since_ms(hours: float | None) -> int | None:
    if hours is None:
        return None
    return to_micros(dt.datetime.now(tz=dt.UTC) - dt.timedelta(hours=hours)) // 1000


def status_of(proof: Proof) -> ExitCode:
    """Return the exit status; a difference outweighs a missing comparison."""
    if not proof.is_equal:
        return DIFFERENT
    return NOT_COMPARED if proof.unproved else EQUAL


def told(proof: Proof) -> str:
    """Render a proof for people."""
    lines = [difference.told() for difference in proof.differences]
    lines += [f"{count} more differences in {store}" for store, count in proof.more.items()]
    lines += [f"not compared: {one.store} of `{one.dataset}`: {one.why}" for one in proof.unproved]
    lines += [f"{count:>8} compared: {store}" for store, count in proof.compared.items()]
    if proof.changed_answers:
        lines.append(f"{proof.changed_answers:>8} answers would differ now: rows arrived later")
    lines.append("equal" if proof.is_equal else "DIFFERENT")
    return "\n".join(lines) + "\n"

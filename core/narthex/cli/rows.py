"""Commands for quarantined and late rows: `narthex quarantine` and `narthex late`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from narthex._base.records import Json
from narthex.cli.exit_codes import ExitCode
from narthex.cli.options import Branch, Token, Url, connect
from narthex.cli.output import AsJson, objects_of, print_facts, print_json, print_table, tell
from narthex.errors import ArgumentsUnfit

Dataset = Annotated[str, typer.Argument(help="The name of the dataset.")]
Row = Annotated[str, typer.Argument(help="The name of the row, from `quarantine list`.")]
Rows = Annotated[list[str], typer.Argument(help="The names of rows, from `quarantine list`.")]
Limit = Annotated[int, typer.Option(help="The greatest number of rows.", min=1, max=1000)]
Before = Annotated[str, typer.Option(help="The `next` of the previous page.")]

quarantine_app: Final = typer.Typer(
    name="quarantine",
    help="List, show and discard the rows in quarantine; replay those that a source rejected.",
    no_args_is_help=True,
)


@quarantine_app.command("list")
def listed(  # noqa: PLR0913 (one parameter an option)
    dataset: Dataset,
    *,
    limit: Limit = 100,
    before: Before = "",
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """List the quarantined rows of a dataset, the newest first."""
    found = connect(url, token, branch).quarantined_rows(
        dataset, limit=limit, before=before or None
    )
    if as_json:
        print_json(found)
        return
    rows = objects_of(found.get("rows"))
    print_table(
        ("row", "rejected at", "where", "reason"),
        [[row["row"], row["rejected_at"], _where(row), row["reason"]] for row in rows],
        empty=f"no row of {dataset} is in quarantine",
    )
    _tell_page(f"{found['total']} in quarantine, {len(rows)} shown", found)


@quarantine_app.command("show")
def show(
    dataset: Dataset,
    row: Row,
    *,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Show one row: its payload, its position, and why it was rejected."""
    found = connect(url, token, branch).quarantined_row(dataset, row)
    if as_json:
        print_json(found)
    else:
        print_facts(found.items())


@quarantine_app.command("replay")
def replay(  # noqa: PLR0913 (one parameter an option)
    dataset: Dataset,
    rows: Annotated[
        list[str] | None, typer.Argument(help="The names of rows, from `quarantine list`.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Replay all quarantined rows.")] = False,
    payload: Annotated[
        Path | None,
        typer.Option(help="A JSON object that replaces the payload of one row.", exists=True),
    ] = None,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Validate rows again, each at its position; exit with 1 if some are still rejected.

    An accepted or filtered row leaves the quarantine. Replaying a row twice changes nothing. A row
    of a pipeline cannot be replayed: a new version of its dataset computes it.
    """
    if every == bool(rows):
        raise ArgumentsUnfit("no rows are given: pass their names or `--all`")
    done = connect(url, token, branch).replay_rows(
        dataset, rows or None, every=every, payload=_payload(payload)
    )
    outcomes = objects_of(done)
    if as_json:
        print_json(done)
    else:
        _print_outcomes(outcomes)
    rejected = sum(one["outcome"] == "rejected" for one in outcomes)
    tell(f"{len(outcomes) - rejected} of {len(outcomes)} rows left the quarantine")
    if rejected:
        raise typer.Exit(ExitCode.FOUND)


@quarantine_app.command("discard")
def discard(
    dataset: Dataset,
    rows: Rows,
    *,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Remove rows from the quarantine; nothing else changes."""
    done = connect(url, token, branch).discard_rows(dataset, rows)
    if as_json:
        print_json(done)
    else:
        _print_outcomes(objects_of(done))


def late(  # noqa: PLR0913 (one parameter an option)
    dataset: Dataset,
    *,
    limit: Limit = 100,
    before: Before = "",
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """List the rows that came later than the dataset's `disorder`, the newest first."""
    found = connect(url, token, branch).late_rows(dataset, limit=limit, before=before or None)
    if as_json:
        print_json(found)
        return
    rows = objects_of(found.get("rows"))
    print_table(
        ("event time", "seconds late", "where", "key", "values"),
        [
            [
                row["event_time"],
                row["late_s"],
                _where(row),
                row["key"],
                row["values"] if row["alive"] else "ended",
            ]
            for row in rows
        ],
        empty=f"no row of {dataset} came late",
    )
    _tell_page(f"{found['total']} rows came late, {len(rows)} shown", found)


def _payload(path: Path | None) -> dict[str, Json] | None:
    if path is None:
        return None
    try:
        fields = json.loads(path.read_text())
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ArgumentsUnfit(f"`{path}` does not contain a JSON object")
    return fields


def _where(row: dict[str, Json]) -> str:
    """Return where a row was rejected: its position in its source, or its pipeline and line."""
    if "file" in row:
        return f"{row['source']} {row['file']}:{row['line']}"
    return (
        f"{row['source']} {row['partition']}:{row['offset']}"
        if "offset" in row
        else str(row["source"])
    )


def _print_outcomes(outcomes: Sequence[dict[str, Json]]) -> None:
    print_table(
        ("row", "outcome", "reason"),
        [[one["row"], one["outcome"], one["reason"]] for one in outcomes],
        empty="no row is in quarantine",
    )


def _tell_page(text: str, found: dict[str, Json]) -> None:
    tell(f"{text}; for more, `--before {found['next']}`" if found.get("next") else text)

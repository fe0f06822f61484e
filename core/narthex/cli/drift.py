"""The command `narthex drift`: logged answers compared with a training set or a pinned window."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import typer

from narthex._base.records import Json
from narthex.cli.exit_codes import ExitCode
from narthex.cli.options import Branch, Token, Url, connect, instant
from narthex.cli.output import (
    AsJson,
    object_of,
    print_done,
    print_json,
    print_table,
)

Name = Annotated[str, typer.Argument(help="The name of the window.")]
Start = Annotated[
    str, typer.Option("--from", metavar="RFC3339", help="The start; its whole hour is included.")
]
End = Annotated[
    str, typer.Option("--to", metavar="RFC3339", help="The end, excluded; its hour is included.")
]

_SHOWN: Final = ("verdict", "feature", "rows", "reference", "its rows", "beyond its limits")

drift_app: Final = typer.Typer(
    name="drift",
    help="Compare logged answers with a training set or a pinned window.",
    invoke_without_command=True,
)


@drift_app.callback()
def compare(  # noqa: PLR0913 (options)
    context: typer.Context,
    *,
    training_set: Annotated[
        str, typer.Option(help="A training set [the newest of each feature, and all windows].")
    ] = "",
    window: Annotated[str, typer.Option(help="A pinned window instead.")] = "",
    featureset: Annotated[
        list[str] | None, typer.Option(help="A featureset; repeatable [all].")
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="A dataset, by its columns; repeatable [all].")
    ] = None,
    start: Start = "",
    end: End = "",
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Compare the logged answers of the last 24 hours, or of others, feature by feature.

    Columns of datasets are compared with pinned windows, by the rows that arrived. Nothing is
    stored. The exit status is 0, or 1 if a feature or a column has a critical drift.
    """
    if context.invoked_subcommand is not None:
        return
    found = connect(url, token, branch).drift(
        training_set=training_set,
        window=window,
        featuresets=featureset or (),
        datasets=dataset or (),
        start=instant(start),
        end=instant(end),
    )
    if as_json:
        print_json([*found])
    else:
        print_table(
            _SHOWN,
            [_line(one) for one in found],
            empty="nothing to compare: no reference, or no logged answers and rows in these hours",
        )
    if any(one["severity"] == "critical" for one in found):
        raise typer.Exit(ExitCode.FOUND)


@drift_app.command("pin")
def pin(  # noqa: PLR0913 (options)
    name: Name,
    *,
    start: Start,
    end: End,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Pin the logged answers and the rows that arrived in some hours, to compare later ones."""
    first, last = instant(start), instant(end)
    if first is None or last is None:
        raise typer.BadParameter("pass --from and --to")
    features = connect(url, token, branch).pin_window(name, start=first, end=last)
    print_done(
        {"window": name, "features": [*features]},
        f"window {name} has {len(features)} features and columns: {', '.join(features)}",
        as_json=as_json,
    )


@drift_app.command("unpin")
def unpin(
    name: Name,
    *,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Delete a pinned window."""
    connect(url, token, branch).unpin_window(name)
    print_done({"deleted": name}, f"deleted window {name}", as_json=as_json)


@drift_app.command("findings")
def findings(
    *, url: Url = "", token: Token = "", branch: Branch = "main", as_json: AsJson = False
) -> None:
    """List the drift that the scheduled comparisons currently find, on all branches."""
    found = connect(url, token, branch).drift_findings()
    if as_json:
        print_json([*found])
        return
    rows = [[one["branch"], *_line(one)] for one in found]
    print_table(("branch", *_SHOWN), rows, empty="the comparisons find no drift")


def _line(one: Mapping[str, Json]) -> list[Json]:
    reference = f"{str(one['reference_kind']).replace('_', ' ')} {one['reference']}"
    verdict = one["severity"] or ("no drift" if one["is_compared"] else "too few rows")
    beyond = ", ".join(_beyond(object_of(one["metrics"])))
    return [verdict, one["feature"], one["rows"], reference, one["reference_rows"], beyond]


def _beyond(metrics: Mapping[str, Json]) -> Iterator[str]:
    """Yield each metric beyond a threshold, with its thresholds."""
    for name, metric in metrics.items():
        if isinstance(metric, dict) and metric["severity"]:
            limits = f"warning {metric['warning']}, critical {metric['critical']}"
            value, chance = (_number(metric[part]) for part in ("value", "by_chance"))
            yield f"{metric['severity']} {name} {value} ({limits}; by chance {chance})"


def _number(value: Json) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else str(value)

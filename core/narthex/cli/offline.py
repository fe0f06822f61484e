"""Commands about offline queries and training sets: `narthex offline`, `narthex training-set`."""

from typing import Annotated, Final

import typer

from narthex._base.records import Json
from narthex.cli.options import AsJson, Branch, Token, Url, connect, print_json, print_line, tell

RequestId = Annotated[str, typer.Argument(help="The id of the offline query.")]
Name = Annotated[str, typer.Argument(help="The name of the training set.")]
Limit = Annotated[int, typer.Option(help="The greatest number to list.", min=1, max=100)]

offline_app: Final = typer.Typer(
    name="offline", help="List, show and cancel offline queries.", no_args_is_help=True
)
training_app: Final = typer.Typer(
    name="training-set", help="List, show and delete training sets.", no_args_is_help=True
)


@offline_app.command("list")
def queries(
    *,
    limit: Limit = 20,
    before: Annotated[str, typer.Option(help="List those before this query.")] = "",
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """List the newest offline queries, with the share of each that is done."""
    found = connect(url, token, branch).offline_queries(limit, before or None)
    if as_json:
        print_json([*found])
        return
    for query in found:
        print_line(f"{query['request_id']}  {_state(query)}  {_shown(query.get('outputs'))}")


@offline_app.command("show")
def query(
    request_id: RequestId, *, url: Url = "", token: Token = "", branch: Branch = "main"
) -> None:
    """Show an offline query: its state, the share that is done, its offsets; prints JSON."""
    print_json(connect(url, token, branch).track_offline_query(request_id))


@offline_app.command("cancel")
def cancel(
    request_id: RequestId,
    *,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Cancel an offline query that has not ended."""
    ended = connect(url, token, branch).cancel_offline_query(request_id)
    if as_json:
        print_json(ended)
    else:
        tell(f"offline query {request_id} is {ended.get('status')}")


@training_app.command("list")
def sets(
    *,
    limit: Limit = 20,
    before: Annotated[str, typer.Option(help="List those stored before this set.")] = "",
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """List the newest training sets."""
    found = connect(url, token, branch).training_sets(limit, before or None)
    if as_json:
        print_json([*found])
        return
    for one in found:
        features = _shown(one.get("features"))
        print_line(f"{one['name']}  {one['rows']} rows  {one['created_at']}  {features}")


@training_app.command("show")
def show(
    name: Name,
    *,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Show a training set and the statistics of its features, without its rows."""
    told: dict[str, Json] = connect(url, token, branch).read(f"training_sets/{name}")
    if as_json:
        print_json(told)
        return
    print_line(f"{told['name']}  {told['rows']} rows  {told['created_at']}")
    print_line(f"commit {told['commit_id']}, file {told['file']}")
    statistics = told.get("statistics")
    for feature, of in statistics.items() if isinstance(statistics, dict) else ():
        if isinstance(of, dict):
            print_line(f"{feature}  {_summary(of)}")


@training_app.command("delete")
def delete(
    name: Name,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without a question.")] = False,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
) -> None:
    """Delete a training set with its rows."""
    if not yes:
        typer.confirm(f"Delete training set {name} for good?", abort=True)
    connect(url, token, branch).delete_training_set(name)
    tell(f"deleted training set {name}")


def _state(query: dict[str, Json]) -> str:
    share = query.get("share")
    done = f"{share:.0%}" if isinstance(share, int | float) else "?"
    return f"{query['status']}  {done} of {query.get('rows')} rows"


def _shown(names: Json) -> str:
    return ", ".join(str(name) for name in names) if isinstance(names, list) else ""


def _summary(of: dict[str, Json]) -> str:
    """Return statistics of a feature on one line: its counts, then what its type has."""
    parts = [f"{of[name]} {name}" for name in ("nulls", "defaults") if of.get(name) is not None]
    for name in ("mean", "stddev"):
        value = of.get(name)
        if isinstance(value, int | float):
            parts.append(f"{name} {value:.6g}")
    if of.get("least") is not None:
        parts.append(f"{of['least']} to {of['greatest']}")
    if of.get("distinct") is not None:
        parts.append(f"{of['distinct']} distinct")
    return ", ".join(parts)

"""Commands about offline queries and training sets: `narthex offline`, `narthex training-set`."""

from typing import Annotated, Final

import typer

from narthex._base.records import Json
from narthex.cli.options import Branch, Token, Url, connect
from narthex.cli.output import (
    AsJson,
    object_of,
    print_done,
    print_facts,
    print_json,
    print_line,
    print_table,
)

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
    print_table(
        ("query", "state", "done", "rows", "outputs"),
        [
            [one["request_id"], one["status"], _share(one), one.get("rows"), one.get("outputs")]
            for one in found
        ],
        empty="there is no offline query",
    )


@offline_app.command("show")
def query(
    request_id: RequestId,
    *,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Show an offline query: its state, the share that is done, its offsets."""
    found = connect(url, token, branch).track_offline_query(request_id)
    if as_json:
        print_json(found)
    else:
        print_facts((found | {"share": _share(found)}).items())


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
    message = f"offline query {request_id} is {ended.get('status')}"
    print_done(ended, message, as_json=as_json)


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
    columns = ("name", "rows", "created_at", "features")
    rows = [[one.get(column) for column in columns] for one in found]
    print_table(("name", "rows", "created", "features"), rows, empty="there is no training set")


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
    facts = {"name": "name", "rows": "rows", "created": "created_at", "commit": "commit_id"}
    print_facts((name, told.get(part)) for name, part in facts.items())
    print_line("")
    print_table(
        ("feature", "statistics"),
        [
            [feature, _summary(of)]
            for feature, of in object_of(told.get("statistics")).items()
            if isinstance(of, dict)
        ],
        empty="it has no statistics",
    )


@training_app.command("delete")
def delete(
    name: Name,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without a question.")] = False,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Delete a training set with its rows."""
    if not yes:
        typer.confirm(f"Delete training set {name} for good?", abort=True, err=True)
    connect(url, token, branch).delete_training_set(name)
    print_done({"deleted": name}, f"deleted training set {name}", as_json=as_json)


def _share(query: dict[str, Json]) -> str:
    share = query.get("share")
    return f"{share:.0%}" if isinstance(share, int | float) else "?"


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

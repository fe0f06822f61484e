"""The command `narthex queries`: the logged queries, and one of them with its values."""

from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from narthex._base.records import Json
from narthex.cli.options import Branch, Token, Url, connect
from narthex.cli.output import (
    AsJson,
    cell,
    list_of,
    object_of,
    objects_of,
    print_json,
    print_table,
    tell,
)

Limit = Annotated[int, typer.Option(help="The greatest number of queries.", min=1, max=500)]


def queries(  # noqa: PLR0913 - one argument an option
    query: Annotated[str, typer.Argument(help="One query by its name [list the newest].")] = "",
    *,
    featureset: Annotated[str, typer.Option(help="List those that answered it.")] = "",
    limit: Limit = 50,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """List the newest logged queries, or show one: what was answered, and what is now."""
    client = connect(url, token, branch)
    if query:
        found = client.read(f"logged_queries/{query}")
        rows, headings = [*_values(found)], ("row", "feature", "logged", "now", "event time")
        empty, note = "it has no rows", str(found.get("why_not") or "")
    else:
        found = client.read("logged_queries", {"limit": limit, "featureset": featureset})
        rows = [*_entries(found)]
        headings = ("query", "logged", "workflow", "rows", "features")
        empty, note = "no logged query was found", ""
    if as_json:
        print_json(found)
        return
    print_table(headings, rows, empty=empty)
    if note:
        tell(f"the answer of now is not known: {note}")


def _entries(found: Mapping[str, Json]) -> Iterator[list[Json]]:
    for one in objects_of(found.get("queries")):
        features = ", ".join(map(str, list_of(one["outputs"])))
        yield [one["query"], one["logged_at"], one["workflow"], one["rows"], features]


def _values(found: Mapping[str, Json]) -> Iterator[list[Json]]:
    """Yield a row of the table for each value: those of given features first."""
    now = object_of(found.get("now"))
    present, features = object_of(now.get("answers")), object_of(now.get("features"))
    for name, cells in object_of(found.get("given")).items():
        for row, value in enumerate(list_of(cells)):
            yield [row, name, cell(value), None, None]
    for name, cells in object_of(found.get("answers")).items():
        after = list_of(present.get(name))
        times = list_of(object_of(features.get(name)).get("event_time"))
        for row, value in enumerate(list_of(cells)):
            yield [row, name, cell(value), *_at(after, row), *_at(times, row)]


def _at(cells: list[Json], row: int) -> list[Json]:
    return [cell(cells[row])] if row < len(cells) else [None]

"""The command `narthex unread`: what no query has read for some time, and what it costs."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import typer

from narthex._base.records import Json
from narthex._base.sizes import render_size
from narthex.cli.options import Branch, Token, Url, connect
from narthex.cli.output import AsJson, list_of, objects_of, print_json, print_table, tell

Days = Annotated[int, typer.Option(help="How many days without a read.", min=1, max=3650)]

_HEADINGS: Final = (
    *("verdict", "kind", "name", "last read", "counted since"),
    *("rows", "history", "index", "jobs", "own jobs"),
)


def unread(
    *,
    days: Days = 30,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """List datasets, features and branches that no query has read for some days.

    Those whose reads are counted for a shorter time are `too recent` to say.
    """
    found = connect(url, token, branch).read("unread", {"days": days})
    if as_json:
        print_json(found)
        return
    rows = [*_rows(found)]
    print_table(_HEADINGS, rows, empty=f"everything was read in the last {days} days")
    if rows:
        tell("own jobs: those that readers of other branches do not need")


def _rows(found: Mapping[str, Json]) -> Iterator[list[Json]]:
    for one in objects_of(found.get("branches")):
        yield [*_named("branch", one, one["name"]), None, None, None, *_jobs(one)]
    for one in objects_of(found.get("datasets")):
        sizes = [_size(one["history_bytes"]), _size(one["index_bytes"])]
        yield [*_named("dataset", one, one["name"]), one["rows"], *sizes, *_jobs(one)]
    for one in objects_of(found.get("featuresets")):
        features = list_of(one["features"])
        is_whole = len(features) == one["of"]
        names = [one["name"]] if is_whole else [f"{one['name']}.{name}" for name in features]
        kind = "featureset" if is_whole else "feature"
        for name in names:
            yield [*_named(kind, one, name), None, None, None, None, None]


def _named(kind: str, one: Mapping[str, Json], name: Json) -> list[Json]:
    verdict = "unread" if one["is_certain"] else "too recent"
    return [verdict, kind, name, _day(one["last_read"]), _day(one["counted_since"])]


def _jobs(one: Mapping[str, Json]) -> list[Json]:
    return [one["jobs"], one["own_jobs"]]


def _day(instant: Json) -> str:
    return str(instant)[:10] if instant else ""


def _size(size: Json) -> str:
    """Return bytes for people; empty if they are not known."""
    return render_size(size) if isinstance(size, int) else ""

"""Commands about commits that exist: `narthex commits`, `approve`, `reject` and `rollback`."""

import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from narthex._base.records import Json
from narthex.cli.options import Branch, Token, Url, connect
from narthex.cli.output import (
    AsJson,
    list_of,
    objects_of,
    print_facts,
    print_json,
    print_line,
    print_table,
    tell,
)
from narthex.errors import ArgumentsUnfit

if TYPE_CHECKING:
    from narthex._server_calls.plain_client import PlainClient

COMMIT: Final = "its number on the branch, its id, or the first digits of its id"
MOST: Final = 1000
"""The greatest number of commits of a branch that are searched for the first digits of an id."""

_LISTED: Final = ("number", "commit", "state", "accepted", "by", "message")
_CHANGED: Final = ("number", "commit", "change", "committed", "by", "message")
_WHOLE_ID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PART_OF_ID: Final = re.compile(r"[0-9a-fA-F-]+")
_SHORT: Final = 8
_LEAST_DIGITS: Final = 4

Limit = Annotated[int, typer.Option(help="The greatest number of commits.", min=1, max=MOST)]
Named = Annotated[str, typer.Argument(help=f"The commit: {COMMIT}.")]


def register(app: typer.Typer) -> None:
    """Add the commands about commits that exist."""
    app.command("rollback")(rollback)
    app.command("approve")(approve)
    app.command("reject")(reject)
    app.command("commits")(commits)


def rollback(
    to: Annotated[
        str, typer.Argument(help=f"The commit: {COMMIT} [the one that readers read before].")
    ] = "",
    *,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    wait: Annotated[bool, typer.Option(help="Wait until readers read the commit.")] = True,
    as_json: AsJson = False,
) -> None:
    """Redeploy an earlier commit; readers flip at once if its jobs still run."""
    client = connect(url, token, branch)
    number = _number(client, to) if to else None
    done = client.rollback(number).body
    if wait and not done.get("served"):
        client.wait(str(done["commit_id"]))
    where = "the commit before" if number is None else f"commit {number}"
    tell(f"`{branch}` is rolled back to {where}, by this commit:")
    if as_json:
        print_json(done)
    else:
        print_line(str(done["commit_id"]))


def approve(
    commit: Named,
    *,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Approve a commit on a protected branch, so that its readers flip."""
    client = connect(url, token, branch)
    commit_id = _id(client, commit)
    answer = client.approve(commit_id).body
    if as_json:
        print_json(answer)
        return
    tell(f"commit {commit_id} is approved")
    for name in ("warnings", "differences"):
        for line in list_of(answer.get(name)):
            tell(str(line))


def reject(
    commit: Named,
    *,
    reason: Annotated[str, typer.Option(help="Why, for the author of the commit.")] = "",
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Reject a commit on a protected branch, which reverts it; readers stay where they are."""
    client = connect(url, token, branch)
    commit_id = _id(client, commit)
    answer = client.reject(commit_id, reason).body
    if as_json:
        print_json(answer)
    else:
        tell(f"commit {commit_id} is rejected")


def commits(  # noqa: PLR0913 (one parameter an option)
    commit: Annotated[str, typer.Argument(help=f"One commit: {COMMIT} [list the newest].")] = "",
    *,
    dataset: Annotated[str, typer.Option(help="Only commits that changed this dataset.")] = "",
    featureset: Annotated[
        str, typer.Option(help="Only commits that changed this featureset or its features.")
    ] = "",
    limit: Limit = 50,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """List the newest commits, or show one: what it waits for, its errors and its assets.

    With --dataset or --featureset, list those of the newest commits that changed it, and how.
    """
    if sum(map(bool, (commit, dataset, featureset))) > 1:
        raise typer.BadParameter("pass one of COMMIT, --dataset and --featureset")
    client = connect(url, token, branch)
    if dataset or featureset:
        found = _changes(client, dataset, featureset, limit)
    elif commit:
        found = client.read(f"commits/{_id(client, commit)}")
    else:
        found = client.read("commits", {"limit": limit})
    if as_json:
        print_json(found)
    elif dataset or featureset:
        named = f"dataset {dataset}" if dataset else f"featureset {featureset}"
        none = f"none of the newest {found.get('looked_at')} commits of {client.branch()}"
        lines = [_change(one) for one in objects_of(found.get("commits"))]
        print_table(_CHANGED, lines, empty=f"{none} changed the {named}")
    elif commit:
        print_facts(_facts(found))
    else:
        lines = [_line(one) for one in objects_of(found.get("commits"))]
        print_table(_LISTED, lines, empty=f"branch {client.branch()} has no commit")


def _changes(client: "PlainClient", dataset: str, featureset: str, limit: int) -> dict[str, Json]:
    """Read the newest commits that changed a dataset or a featureset."""
    kind = "datasets" if dataset else "featuresets"
    found = client.read(f"{kind}/{quote(dataset or featureset, safe='')}/commits")
    return {**found, "commits": list_of(found.get("commits"))[:limit]}


def _id(client: "PlainClient", named: str) -> str:
    """Return the id of a commit on the branch.

    Raises:
        ArgumentsUnfit: No commit has the name, or several have.
    """
    return named if _WHOLE_ID.fullmatch(named) else str(_find(client, named)["commit_id"])


def _number(client: "PlainClient", named: str) -> int:
    """Return the number of a commit on the branch.

    Raises:
        ArgumentsUnfit: No commit has the name, or several have, or it never took effect.
    """
    if named.isdecimal() and len(named) < _SHORT:
        return int(named)
    found = _find(client, named)
    seq = found.get("seq")
    if not isinstance(seq, int):
        raise ArgumentsUnfit(f"commit {found['commit_id']} never took effect: {found['state']}")
    return seq


def _find(client: "PlainClient", named: str) -> dict[str, Json]:
    listed = objects_of(client.read("commits", {"limit": MOST}).get("commits"))
    by_number = [one for one in listed if named.isdecimal() and str(one.get("seq")) == named]
    by_id = [
        one
        for one in listed
        if len(named) >= _LEAST_DIGITS
        and _PART_OF_ID.fullmatch(named)
        and str(one["commit_id"]).startswith(named.lower())
    ]
    found = by_number or by_id
    if len(found) == 1:
        return found[0]
    branch = client.branch()
    why = f"{len(found)} commits" if found else "no commit"
    raise ArgumentsUnfit(
        f"{why} of branch `{branch}` {'are' if found else 'is'} named `{named}`",
        hint=f"`narthex commits --branch {branch}` lists their numbers and ids",
    )


def _change(commit: dict[str, Json]) -> list[Json]:
    short, at = str(commit["commit_id"])[:_SHORT], _time(commit.get("committed_at"))
    what = commit.get("message") or commit.get("kind")
    lines = "; ".join(str(line) for line in list_of(commit.get("changes")))
    return [commit.get("seq"), short, lines, at, commit["actor"], what]


def _time(instant: Json) -> str:
    return "" if instant is None else str(instant)[:19].replace("T", " ")


def _line(commit: dict[str, Json]) -> list[Json]:
    state = " ".join(str(commit[name]) for name in ("state", "promotion") if commit.get(name))
    at = _time(commit["accepted_at"])
    what = commit.get("message") or commit.get("kind")
    short = str(commit["commit_id"])[:_SHORT]
    return [commit.get("seq"), short, state, at, commit["actor"], what]


def _facts(commit: dict[str, Json]) -> list[tuple[str, Json]]:
    """Return what a person asks of one commit, one fact per line."""
    number = "" if commit.get("seq") is None else f", number {commit['seq']}"
    facts: list[tuple[str, Json]] = [
        ("commit", str(commit["commit_id"])),
        ("branch", f"{commit['branch']}{number}"),
        ("state", str(commit["state"])),
        ("readers", str(commit.get("promotion") or "")),
        ("kind", str(commit["kind"])),
        ("message", str(commit.get("message") or "")),
        ("by", str(commit["actor"])),
        ("accepted", str(commit["accepted_at"])),
        ("committed", str(commit.get("committed_at") or "")),
        ("finished", str(commit.get("finished_at") or "")),
        ("run", str(commit.get("airflow_run_url") or "")),
        *(("waits for", str(one)) for one in list_of(commit.get("waits_for"))),
        *(("error", str(one)) for one in [commit.get("error")] if one),
    ]
    assets = objects_of(commit.get("assets"))
    states = Counter(str(one.get("state")) for one in assets)
    facts.append(("assets", ", ".join(f"{count} {state}" for state, count in states.items())))
    facts += [("", _failure(one)) for one in assets if one.get("last_error")]
    return facts


def _failure(asset: dict[str, Json]) -> str:
    since = f"; created by try {asset['attempt']}" if asset.get("state") == "live" else ""
    return f"{asset['label']}: {asset['last_error']}{since}"

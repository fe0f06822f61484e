"""Commands about branches: `narthex branch list`, `init`, `clone`, `delete`, `undelete`."""

from typing import Annotated, Final

import typer

from narthex.commanding import AsJson, Token, Url, connect, print_json, print_line, tell
from narthex.records import Json

Name = Annotated[str, typer.Argument(help="The branch.")]

branch_app: Final = typer.Typer(
    name="branch",
    help="Make, clone, delete and list branches; none of it copies a row.",
    no_args_is_help=True,
)


@branch_app.command("list")
def listed(*, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """List the branches, and until when deleted ones can be brought back."""
    found = connect(url, token).read("branch/list")
    if as_json:
        print_json(found)
        return
    for branch in _rows(found, "branches"):
        print_line(f"{branch['name']}  head {branch['head_seq']}, serving {branch['serving_seq']}")
    for branch in _rows(found, "deleted"):
        print_line(f"{branch['name']}  deleted; undelete it until {branch['undelete_until']}")


@branch_app.command("init")
def init(name: Name, *, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """Make an empty branch."""
    _say(connect(url, token).init_branch(name).body, f"branch {name} is there", as_json=as_json)


@branch_app.command("clone")
def clone(
    name: Name,
    source: Annotated[str, typer.Argument(help="The branch to clone.")] = "main",
    *,
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Make a branch that reads and deploys what another one does."""
    made = connect(url, token).clone_branch(name, source)
    _say(made.body, f"branch {name} reads what {source} does", as_json=as_json)


@branch_app.command("delete")
def delete(name: Name, *, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """Delete a branch; for a day it can be brought back."""
    gone = connect(url, token).delete_branch(name)
    _say(gone.body, f"branch {name} is deleted; undelete it within a day", as_json=as_json)


@branch_app.command("undelete")
def undelete(name: Name, *, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """Bring a deleted branch back, with its definitions and rows."""
    back = connect(url, token).undelete_branch(name)
    _say(back.body, f"branch {name} is back", as_json=as_json)


@branch_app.command("protect")
def protect(
    name: Name,
    *,
    off: Annotated[bool, typer.Option("--off", help="Need no approval any more.")] = False,
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Let a person approve each commit before the branch's readers read it."""
    body = connect(url, token, name).protect_branch(name, protected=not off).body
    _say(body, f"branch {name} needs {'no ' if off else 'an '}approval", as_json=as_json)


def _rows(found: dict[str, Json], of: str) -> list[dict[str, Json]]:
    rows = found.get(of)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _say(body: dict[str, Json], story: str, *, as_json: bool) -> None:
    if as_json:
        print_json(body)
    else:
        tell(story)

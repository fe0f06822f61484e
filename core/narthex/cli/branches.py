"""Commands about branches: `narthex branch list`, `init`, `clone`, `delete`, `undelete`."""

from typing import Annotated, Final

import typer

from narthex._base.records import Json
from narthex.cli.options import (
    AsJson,
    Token,
    Url,
    connect,
    objects_of,
    print_json,
    print_line,
    tell,
)

Name = Annotated[str, typer.Argument(help="The name of the branch.")]

branch_app: Final = typer.Typer(
    name="branch",
    help="Create, clone, delete and list branches; no command copies rows.",
    no_args_is_help=True,
)


@branch_app.command("list")
def listed(*, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """List the branches, and the time until which deleted ones can be restored."""
    found = connect(url, token).read("branch/list")
    if as_json:
        print_json(found)
        return
    for branch in objects_of(found.get("branches")):
        print_line(f"{branch['name']}  head {branch['head_seq']}, serving {branch['serving_seq']}")
    for branch in objects_of(found.get("deleted")):
        print_line(f"{branch['name']}  deleted; can be restored until {branch['undelete_until']}")


@branch_app.command("init")
def init(name: Name, *, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """Create an empty branch."""
    _say(connect(url, token).init_branch(name).body, f"created branch {name}", as_json=as_json)


@branch_app.command("clone")
def clone(
    name: Name,
    source: Annotated[str, typer.Argument(help="The branch to clone.")] = "main",
    *,
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Create a branch with the definitions and data of another branch."""
    made = connect(url, token).clone_branch(name, source)
    _say(made.body, f"cloned branch {source} to {name}", as_json=as_json)


@branch_app.command("delete")
def delete(name: Name, *, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """Delete a branch; it can be restored within a day."""
    gone = connect(url, token).delete_branch(name)
    _say(gone.body, f"deleted branch {name}; it can be restored within a day", as_json=as_json)


@branch_app.command("undelete")
def undelete(name: Name, *, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """Restore a deleted branch with its definitions and rows."""
    back = connect(url, token).undelete_branch(name)
    _say(back.body, f"restored branch {name}", as_json=as_json)


@branch_app.command("protect")
def protect(
    name: Name,
    *,
    off: Annotated[bool, typer.Option("--off", help="Remove the protection.")] = False,
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Require an approval by a person before readers of the branch flip to a commit."""
    body = connect(url, token, name).protect_branch(name, protected=not off).body
    _say(
        body,
        f"branch {name} {'no longer requires' if off else 'requires'} an approval",
        as_json=as_json,
    )


def _say(body: dict[str, Json], message: str, *, as_json: bool) -> None:
    if as_json:
        print_json(body)
    else:
        tell(message)

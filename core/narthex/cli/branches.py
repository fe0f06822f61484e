"""Commands about branches: `narthex branch list`, `init`, `clone`, `delete`, `undelete`."""

from typing import Annotated, Final

import typer

from narthex.cli.options import Token, Url, connect
from narthex.cli.output import AsJson, objects_of, print_done, print_json, print_table

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
    rows = [
        [one["name"], one["head_seq"], one["serving_seq"], ""]
        for one in objects_of(found.get("branches"))
    ] + [
        [one["name"], None, None, f"deleted; can be restored until {one['undelete_until']}"]
        for one in objects_of(found.get("deleted"))
    ]
    print_table(("branch", "head", "serving", "note"), rows, empty="there is no branch")


@branch_app.command("init")
def init(name: Name, *, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """Create an empty branch."""
    print_done(
        connect(url, token).init_branch(name).body, f"created branch {name}", as_json=as_json
    )


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
    print_done(made.body, f"cloned branch {source} to {name}", as_json=as_json)


@branch_app.command("delete")
def delete(name: Name, *, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """Delete a branch; it can be restored within a day."""
    gone = connect(url, token).delete_branch(name)
    print_done(
        gone.body, f"deleted branch {name}; it can be restored within a day", as_json=as_json
    )


@branch_app.command("undelete")
def undelete(name: Name, *, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """Restore a deleted branch with its definitions and rows."""
    back = connect(url, token).undelete_branch(name)
    print_done(back.body, f"restored branch {name}", as_json=as_json)


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
    print_done(
        body,
        f"branch {name} {'no longer requires' if off else 'requires'} an approval",
        as_json=as_json,
    )

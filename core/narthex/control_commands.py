"""Commands of keepers: `narthex token`, `narthex control-log`."""

from typing import Annotated, Final

import typer

from narthex.commanding import AsJson, Token, Url, connect, print_json, print_line, tell
from narthex.records import Json

token_app: Final = typer.Typer(
    name="token", help="Make, list and revoke tokens.", no_args_is_help=True
)

Days = Annotated[int, typer.Option(help="How long it lets somebody in, at most 365.")]


@token_app.command("create")
def create(  # noqa: PLR0913 (one parameter an option)
    name: Annotated[str, typer.Argument(help="Whom it names.")],
    *,
    scope: Annotated[list[str], typer.Option(help="A role or a right; may come again.")],
    branch: Annotated[
        list[str] | None, typer.Option(help="A pattern of branches; may come again [all].")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="A pattern of tags; may come again; empty: none [all].")
    ] = None,
    days: Days = 90,
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Make a token; it is shown once, and nowhere again."""
    client = connect(url, token)
    made = client.create_token(name, scope, branch or ["*"], tags=tag or ["*"], days=days).body
    if as_json:
        print_json(made)
    else:
        print_line(str(made["token"]))


@token_app.command("list")
def listed(*, url: Url = "", token: Token = "") -> None:
    """List the tokens as JSON; none can be read back."""
    print_json(connect(url, token).read("tokens"))


@token_app.command("revoke")
def revoke(token_id: str, *, url: Url = "", token: Token = "") -> None:
    """Let a token in no more."""
    connect(url, token).revoke_token(token_id)
    tell(f"token {token_id} lets nobody in any more")


def control_log(
    *,
    verify: Annotated[bool, typer.Option("--verify", help="Check the chain instead.")] = False,
    after: Annotated[int, typer.Option(help="Begin after the entry of that number.")] = 0,
    url: Url = "",
    token: Token = "",
) -> None:
    """Show what was asked of the control plane, as JSON; or check that none of it was changed."""
    client = connect(url, token)
    if not verify:
        print_json(client.read("control-log", {"after": after}))
        return
    found: dict[str, Json] = client.read("control-log/verify")
    print_json(found)
    if not found.get("whole"):
        tell(f"entry {found.get('broken_at')} of the control log: {found.get('why')}")
        raise typer.Exit(1)

"""Commands for operators: `narthex token`, `narthex control-log`."""

from typing import Annotated, Final

import typer

from narthex._base.records import Json
from narthex.cli.options import AsJson, Token, Url, connect, print_json, print_line, tell

token_app: Final = typer.Typer(
    name="token", help="Create, list and revoke tokens.", no_args_is_help=True
)

Days = Annotated[int, typer.Option(help="Days until the token expires, at most 365.")]


@token_app.command("create")
def create(  # noqa: PLR0913 (one parameter an option)
    name: Annotated[str, typer.Argument(help="The name of the token's owner.")],
    *,
    scope: Annotated[list[str], typer.Option(help="A role or a right; repeatable.")],
    branch: Annotated[
        list[str] | None, typer.Option(help="A pattern of branches; repeatable [all].")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="A pattern of tags; repeatable; empty: untagged only [all]."),
    ] = None,
    days: Days = 90,
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Create a token and print it; it cannot be shown again."""
    client = connect(url, token)
    made = client.create_token(name, scope, branch or ["*"], tags=tag or ["*"], days=days).body
    if as_json:
        print_json(made)
    else:
        print_line(str(made["token"]))


@token_app.command("list")
def listed(*, url: Url = "", token: Token = "") -> None:
    """List the tokens as JSON, without their secret values."""
    print_json(connect(url, token).read("tokens"))


@token_app.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(help="The id of the token, from `token list`.")],
    *,
    url: Url = "",
    token: Token = "",
) -> None:
    """Revoke a token."""
    connect(url, token).revoke_token(token_id)
    tell(f"token {token_id} is revoked")


def control_log(
    *,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify the hash chain instead.")
    ] = False,
    after: Annotated[int, typer.Option(help="Start after the entry with this number.")] = 0,
    url: Url = "",
    token: Token = "",
) -> None:
    """Print the log of the control plane as JSON, or verify that it was not changed."""
    client = connect(url, token)
    if not verify:
        print_json(client.read("control-log", {"after": after}))
        return
    found: dict[str, Json] = client.read("control-log/verify")
    print_json(found)
    if not found.get("whole"):
        tell(f"entry {found.get('broken_at')} of the control log: {found.get('why')}")
        raise typer.Exit(1)

"""Commands for operators: `narthex token`, `narthex control-log`."""

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from narthex._base.records import Json
from narthex._base.times import SECOND_US, DurationError, parse_duration
from narthex.cli.exit_codes import ExitCode
from narthex.cli.options import Token, Url, connect
from narthex.cli.output import (
    AsJson,
    object_of,
    objects_of,
    print_done,
    print_facts,
    print_json,
    print_line,
    print_table,
    tell,
)
from narthex.errors import ArgumentsUnfit

token_app: Final = typer.Typer(
    name="token", help="Create, list, rotate and revoke tokens.", no_args_is_help=True
)

_ENTRY: Final = ("number", "at", "who", "status", "request")

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
def listed(*, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """List the tokens, without their secret values."""
    found = connect(url, token).read("tokens")
    if as_json:
        print_json(found)
        return
    columns = {
        "id": "token_id",
        "name": "name",
        "scopes": "scopes",
        "branches": "branches",
        "tags": "tags",
        "expires": "expires_at",
        "last used": "last_used_at",
        "revoked": "revoked_at",
    }
    rows = [[one.get(name) for name in columns.values()] for one in objects_of(found.get("tokens"))]
    print_table([*columns], rows, empty="there is no token")


@token_app.command("rotate")
def rotate(
    name: Annotated[str, typer.Argument(help="The name or the id of the token.")],
    *,
    overlap: Annotated[
        str, typer.Option(help="How long the old token is accepted, such as `7d`, `1h` or `0s`.")
    ] = "7d",
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Replace a token by one with the same rights, and print it; it cannot be shown again.

    The new one has the name, rights, branches, tags and lifetime of the old one, which expires
    after the overlap.
    """
    overlap_s = _seconds(overlap)
    client = connect(url, token)
    token_id = _valid_token(name, objects_of(client.read("tokens").get("tokens")))
    made = client.rotate_token(token_id, overlap_s=overlap_s).body
    if as_json:
        print_json(made)
        return
    print_line(str(made["token"]))
    tell(f"the old token, {token_id}, is accepted until {made['rotated_expires_at']}")


@token_app.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(help="The id of the token, from `token list`.")],
    *,
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Revoke a token."""
    done = connect(url, token).revoke_token(token_id).body
    print_done(done, f"token {token_id} is revoked", as_json=as_json)


def _seconds(duration: str) -> int:
    try:
        return parse_duration(duration) // SECOND_US
    except DurationError as error:
        raise ArgumentsUnfit(f"`--overlap {duration}`: {error}", hint="write it as `7d`") from None


def _valid_token(name: str, tokens: list[dict[str, Json]]) -> str:
    """Return the id of the token that has a name or an id, among those that are accepted.

    Raises:
        ArgumentsUnfit: No token has it, or several have it.
    """
    now = dt.datetime.now(dt.UTC)
    found = [str(one["token_id"]) for one in tokens if one["token_id"] == name] or [
        str(one["token_id"])
        for one in tokens
        if one["name"] == name and one["revoked_at"] is None and not _has_ended(one, now)
    ]
    match found:
        case [token_id]:
            return token_id
        case []:
            raise ArgumentsUnfit(
                f"no valid token is named `{name}`", hint="list them with `narthex token list`"
            )
        case _:
            raise ArgumentsUnfit(
                f"{len(found)} valid tokens are named `{name}`: {', '.join(found)}",
                hint="pass the id of the one to rotate",
            )


def _has_ended(token: dict[str, Json], now: dt.datetime) -> bool:
    expires_at = token["expires_at"]
    return isinstance(expires_at, str) and dt.datetime.fromisoformat(expires_at) <= now


def control_log(
    *,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify the hash chain instead.")
    ] = False,
    after: Annotated[int, typer.Option(help="Start after the entry with this number.")] = 0,
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Print the log of the control plane, or verify that it was not changed.

    The exit status of `--verify` is 0, or 1 if it was changed.
    """
    client = connect(url, token)
    found = client.read("control-log/verify" if verify else "control-log", {"after": after})
    if as_json:
        print_json(found)
    elif verify:
        print_facts(found.items())
    else:
        rows = [_line(one, object_of(one.get("entry"))) for one in objects_of(found.get("entries"))]
        print_table(_ENTRY, rows, empty="there is no such entry")
    if verify and not found.get("whole"):
        tell(f"entry {found.get('broken_at')} of the control log: {found.get('why')}")
        raise typer.Exit(ExitCode.FOUND)


def _line(logged: Mapping[str, Json], entry: Mapping[str, Json]) -> list[Json]:
    at = str(logged.get("at"))[:19]
    asked = f"{entry.get('verb')} {entry.get('path')}"
    return [logged.get("number"), at, entry.get("who"), entry.get("status"), asked]

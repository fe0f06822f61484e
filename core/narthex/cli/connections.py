"""Commands for the connections that definitions name: `narthex connection set|list|test|delete`."""

from collections.abc import Sequence
from typing import Annotated

import typer

from narthex._base.records import Json
from narthex._connectors.stored_connections import Argument, ConnectionInvalidError, parameters_of
from narthex.cli.options import AsJson, Branch, Token, Url, connect, print_json, print_line, tell
from narthex.errors import ArgumentsUnfit

Name = Annotated[str, typer.Argument(help='The name in definitions, `Postgres.get("name")`.')]
Kind = Annotated[str, typer.Argument(help="The class in definitions, such as `Postgres`.")]
Parameters = Annotated[
    list[str] | None, typer.Argument(help="Its parameters, `host=db.example port=5432`.")
]
Secrets = Annotated[
    list[str] | None,
    typer.Option("--secret", help="A credential, `password=NAME-OF-SECRET`; repeat it for each."),
]
Branches = Annotated[
    list[str] | None,
    typer.Option("--for", help="A pattern of the branches that may name it [all]; repeat it."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    connection = typer.Typer(
        name="connection",
        help="Manage the connections that definitions name, which the ledger stores sealed.",
        no_args_is_help=True,
    )
    connection.command("set")(store)
    connection.command("list")(connections)
    connection.command("test")(try_connection)
    connection.command("delete")(forget)
    app.add_typer(connection)


def store(  # noqa: PLR0913, PLR0917 (the options of a command)
    name: Name,
    kind: Kind,
    parameters: Parameters = None,
    secret: Secrets = None,
    branches: Branches = None,
    url: Url = "",
    token: Token = "",
) -> None:
    """Store a connection, or replace the one of that name; later commits use it.

    Credentials are secrets: `narthex secret set` stores their values.
    """
    try:
        types, _ = parameters_of(kind)
    except ConnectionInvalidError as error:
        raise ArgumentsUnfit(str(error)) from None
    arguments = {key: _typed(key, text, types) for key, text in _pairs(parameters or []).items()}
    connect(url, token).set_connection(
        name, kind, arguments, secrets=_pairs(secret or []), branches=branches or ["*"]
    )
    tell(f"stored connection `{name}`; code names it `{kind}.get({name!r})`")


def connections(*, url: Url = "", token: Token = "", as_json: AsJson = False) -> None:
    """List the connections, with the names of their secrets."""
    found = connect(url, token).list_connections()
    if as_json:
        print_json([*found])
        return
    for one in found:
        parts = {**_members(one["arguments"]), **_members(one["secrets"], "secret ")}
        described = ", ".join(f"{key}={value}" for key, value in parts.items())
        print_line(f"{one['name']}  {one['kind']}  {described}  for {_listed(one['branches'])}")


def try_connection(
    name: Name,
    *,
    url: Url = "",
    token: Token = "",
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Check a connection against the policy of a branch, and connect to its servers.

    No credentials are sent. Exits with 1 if definitions of the branch cannot use it.
    """
    answer = connect(url, token, branch).test_connection(name).body
    faults, reached = answer["faults"], answer["reached"]
    if as_json:
        print_json({"faults": faults, "reached": reached})
    else:
        for server in reached if isinstance(reached, list) else ():
            print_line(f"{server} accepts connections")
        for fault in faults if isinstance(faults, list) else ():
            tell(str(fault))
    if faults:
        raise typer.Exit(1)


def forget(name: Name, url: Url = "", token: Token = "") -> None:
    """Delete a connection; datasets that were committed with it keep their sources."""
    connect(url, token).delete_connection(name)
    tell(f"deleted connection `{name}`")


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, is_pair, value = text.partition("=")
        if not is_pair or not key:
            raise ArgumentsUnfit(f"`{text}` is not a parameter; write `name=value`")
        pairs[key] = value
    return pairs


def _typed(key: str, text: str, types: dict[str, type]) -> Argument:
    match types.get(key):
        case kind if kind is bool and text in {"true", "false"}:
            return text == "true"
        case kind if kind is int and text.isdecimal():
            return int(text)
        case _:
            return text


def _members(value: Json, prefix: str = "") -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: f"{prefix}{one}" for key, one in value.items()}


def _listed(value: Json) -> str:
    return ", ".join(str(one) for one in value) if isinstance(value, list) else ""
